"""Ops of a module that the importer cannot take, found before anything is traced."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from aotc.errors import InputError
from aotc.importers.stablehlo.interpreter import (
    RETURNS,
    functions_of,
    nested_operations,
)
from aotc.importers.stablehlo.operation import Op
from aotc.importers.stablehlo.ops import OPS, calls
from aotc.importers.stablehlo.values import kind_of
from aotc.mlir import ir
from aotc.tracing.findings import OpFinding, grouped_findings

Use = tuple[str, str, str, str]  # op, reason, place, help

_CALLS = ("func.call", "call")
_MANY_DEVICES = (
    "a model is compiled for one device here; export the function of one device"
)
_NOT_STABLEHLO = (
    "it is no op of StableHLO",
    "give StableHLO, or IR that `aotc build --dump` has written",
)
# op → (reason, help)
_REASONS = {
    "stablehlo.rng": ("its numbers have no seed", "use jax.random, which has"),
    "stablehlo.all_gather": ("it spans devices", _MANY_DEVICES),
    "stablehlo.all_reduce": ("it spans devices", _MANY_DEVICES),
    "stablehlo.all_to_all": ("it spans devices", _MANY_DEVICES),
    "stablehlo.collective_broadcast": ("it spans devices", _MANY_DEVICES),
    "stablehlo.collective_permute": ("it spans devices", _MANY_DEVICES),
    "stablehlo.partition_id": ("it spans devices", _MANY_DEVICES),
    "stablehlo.reduce_scatter": ("it spans devices", _MANY_DEVICES),
    "stablehlo.replica_id": ("it spans devices", _MANY_DEVICES),
    "stablehlo.infeed": ("it exchanges data with a host while the model runs", ""),
    "stablehlo.outfeed": ("it exchanges data with a host while the model runs", ""),
    "stablehlo.recv": ("it exchanges data with a host while the model runs", ""),
    "stablehlo.send": ("it exchanges data with a host while the model runs", ""),
    "stablehlo.uniform_dequantize": ("quantised types are not taken", ""),
    "stablehlo.uniform_quantize": ("quantised types are not taken", ""),
}


def unsupported_ops(module: ir.Module, entry: str = "main") -> list[OpFinding]:
    """Return the ops reachable from `entry` that cannot be imported, with reasons."""
    return grouped_findings(_uses(module, entry))


def reason_against(
    operation: ir.Operation, functions: Mapping[str, ir.Operation]
) -> str:
    """Return why an op, or one nested or called in it, cannot be imported; "" if it
    can.

    Args:
        operation: of a module.
        functions: of the module, by name.
    """
    seen: set[str] = set()

    def visit(operations: Iterable[ir.Operation]) -> Iterator[str]:
        for each in operations:
            op = Op(each)
            if found := _objection(op):
                yield f"{found[0]}: {found[1]}"
            for called in _callees(op):
                if called not in functions:
                    yield f"{op.name}: @{called} has no body"
                elif called not in seen:
                    seen.add(called)
                    yield from visit(nested_operations(functions[called]))

    return next(visit((operation, *nested_operations(operation))), "")


def _uses(module: ir.Module, entry: str) -> Iterator[Use]:
    """Yield each use of an op that cannot be imported, in functions `entry` reaches."""
    functions = functions_of(module)
    seen: set[str] = set()

    def visit(
        name: str, callers: tuple[str, ...]
    ) -> Iterator[tuple[str, str, str, str]]:
        for operation in nested_operations(functions[name]):
            op = Op(operation)
            if found := _objection(op):
                yield found[0], found[1], op.where, found[2]
            for called in _callees(op):
                if called not in functions:
                    yield op.name, f"@{called} has no body", op.where, ""
                elif called in callers:
                    advice = "write a loop instead"
                    yield op.name, f"@{called} calls itself", op.where, advice
                elif called not in seen:
                    seen.add(called)
                    yield from visit(called, (*callers, called))

    return visit(entry, (entry,))


def _callees(op: Op) -> list[str]:
    """Return the names of the functions that an op calls."""
    if op.name in _CALLS:
        return [op.text("callee")]
    if op.name == "stablehlo.composite" and op.text("name") not in OPS:
        return [op.text("decomposition")]
    return []


def _objection(op: Op) -> tuple[str, str, str] | None:
    """Return (op, reason, help) for an op that cannot be imported; None if it can."""
    if op.name in (*RETURNS, *_CALLS):
        return None
    if op.name == "stablehlo.custom_call":
        reason = calls.reason_against(op)
        target = op.text("call_target_name")
        return (f"custom_call @{target}", reason, "") if reason else None
    if op.name not in OPS:
        is_foreign = op.name.partition(".")[0] not in ("stablehlo", "chlo")
        why = _NOT_STABLEHLO if is_foreign else ("aotc has no function for it", "")
        reason, advice = _REASONS.get(op.name, why)
        return op.name, reason, advice
    try:
        for value in (*op.op.operands, *op.op.results):
            kind_of(value.type)
    except InputError as error:
        return op.name, error.message, error.hint or ""
    return None
