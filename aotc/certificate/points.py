"""Where an entry takes derivatives, and of what."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from aotc import dtypes, reference
from aotc.dialects.functions import (
    callee_of,
    functions_of,
    is_private,
    name_of,
    signature,
)
from aotc.dialects.symbols import Contract
from aotc.dialects.transform import CustomVjp, Vjp, custom_of, derived_of
from aotc.dialects.types import Tensor, evaluate_size
from aotc.frontends.program import Entry, Program
from aotc.mlir import func, ir, source_of
from aotc.passes import run_passes
from aotc.passes.inline import reached_from

Arrays = list[Any]


@dataclass(frozen=True)
class Point:
    """A derivative that an entry takes, and the arguments that it takes it at.

    Args:
        entry: its name.
        function: that is differentiated.
        wrt: the arguments that it is differentiated by.
        arrays: all of them, in the dtypes of the function.
        where: the line that asks for it.
    """

    entry: str
    function: str
    wrt: tuple[int, ...]
    arrays: Arrays
    where: str | None


def points_of(program: Program, entry: Entry, rng: Any) -> Iterator[Point]:
    """The derivatives that an entry takes itself."""
    known = functions_of(program.module)
    for call in calls_of(known[entry.name]):
        derived = derived_of(known[callee_of(call)])
        if isinstance(derived, Vjp):
            count = len(signature(known[derived.of])[0])
            given = _reached(program, entry, callee_of(call), rng)[:count]
            where = source_of(call.location)
            yield Point(entry.name, derived.of, derived.wrt, given, where)


def _reached(program: Program, entry: Entry, callee: str, rng: Any) -> Arrays:
    """What an entry gives to `callee`, with initial states and random inputs."""
    module = copied(program.module)
    function = functions_of(module)[entry.name]
    call = next(op for op in calls_of(function) if callee_of(op) == callee)
    ops = list(function.entry_block.operations)
    with ir.InsertionPoint(call), call.location:
        func.ReturnOp(list(call.operands))
    for op in reversed(ops[ops.index(call) :]):
        op.operation.erase()
    *_, returned = function.entry_block.operations
    types = [value.type for value in function.entry_block.arguments]
    found = [value.type for value in returned.operands]
    whole = ir.TypeAttr.get(ir.FunctionType.get(types, found))
    function.attributes["function_type"] = whole
    if "res_attrs" in function.attributes:
        del function.attributes["res_attrs"]
    keep_only(module, [entry.name])
    run_passes(module, ["autodiff", "inline"])
    return reference.evaluate(module, entry.name, _arguments(program, entry, rng))


def _arguments(program: Program, entry: Entry, rng: Any) -> Arrays:
    """Initial states and weights; random inputs of the least size above one."""
    sizes = [_size(contract) for contract in entry.symbols]
    return [
        program.parameters[port.name]
        if port.name in program.parameters
        else _random(port.type, sizes, rng)
        for port in entry.arguments
    ]


def _size(contract: Contract) -> int:
    """A size that is allowed, in parts of `multiple_of`; above one if it can be."""
    most = contract.max // contract.multiple_of if contract.max else 2
    least = -(-contract.min // contract.multiple_of)
    return max(least, min(2, most))


def _random(kind: Tensor, sizes: Sequence[int], rng: Any) -> Any:
    shape = tuple(evaluate_size(size, sizes) for size in kind.shape)
    numpy = dtypes.to_numpy(kind.dtype)
    if dtypes.is_float(kind.dtype):
        return rng.standard_normal(shape).astype(numpy)
    return rng.integers(0, 2, shape).astype(numpy)


# ---- modules ------------------------------------------------------------------------


def copied(module: Any) -> Any:
    """Another module of the same text, lines included."""
    return ir.Module.parse(module.operation.get_asm(enable_debug_info=True))


def keep_only(module: Any, names: Sequence[str]) -> None:
    """Drop the public functions that are not in `names`."""
    for function in functions_of(module).values():
        if not is_private(function) and name_of(function) not in names:
            function.operation.erase()


def calls_of(function: Any) -> list[Any]:
    """The calls in the body of a function."""
    return [op for op in function.entry_block.operations if isinstance(op, func.CallOp)]


def has_both_modes(module: Any, name: str) -> bool:
    """Whether nothing that a function reaches has a rule for reverse mode only."""
    known, rest, seen = functions_of(module), [name], set()
    while rest:
        name = rest.pop()
        if name in seen:
            continue
        seen.add(name)
        if isinstance(custom_of(known[name]), CustomVjp):
            return False
        rest += reached_from(known[name])
    return True
