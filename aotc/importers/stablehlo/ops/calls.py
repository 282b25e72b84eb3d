"""Calls by name: custom calls that are known, and composites."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aotc import debug
from aotc.errors import InputError
from aotc.importers.stablehlo.operation import Op
from aotc.importers.stablehlo.ops import elementwise, lapack, sorting, windows
from aotc.importers.stablehlo.values import (
    Token,
    Value,
    array,
    materialize,
    number,
    sizes,
)
from aotc.mlir import ir
from aotc.numpy.ordering import taken_along
from aotc.tracing.conversion import lift
from aotc.tracing.scopes import without_tracing
from aotc.tracing.tracing import emit


def _first(op: Op, *operands: Value) -> object:
    """Return a no-op custom call's operands, as many as it has results."""
    return operands[: len(op.op.results)]


def shape_assertion(op: Op, condition: Value, *shown: Value) -> tuple[()]:
    """Check an exporter's assumption on sizes: by their contracts, or at run time.

    Raises:
        InputError: the sizes that were promised break it.
    """
    holds = number(condition)
    message = op.text("error_message")
    if holds is False:
        raise InputError("shape-mismatch", _format_message(message, shown))
    if holds is None:
        debug.check(array(condition), message)
    return ()


def _format_message(message: str, shown: tuple[Value, ...]) -> str:
    """Return an assertion's message with {0}, {1}, … replaced by sizes."""
    for place, value in enumerate(shown):
        message = message.replace(f"{{{place}}}", str(number(value)))
    return message


def _top_k(op: Op, x: Value) -> object:
    """Return the k largest elements and indices: `mhlo.topk`."""
    options = ir.DictAttr(op.attribute("mhlo.attributes"))
    largest = ir.BoolAttr(options["largest"]).value if "largest" in options else True
    if not largest:
        raise InputError("unsupported-ops", "mhlo.topk of the smallest elements")
    return sorting.largest(array(x), int(ir.IntegerAttr(options["k"]).value))


def _dynamic_top_k(op: Op, x: Value, k: Value) -> object:
    """Return the k largest elements and indices, with k an operand."""
    (count,) = sizes(k)
    return sorting.largest(array(x), count)


def _approx_top_k(op: Op, x: Value, positions: Value, *rest: Value) -> object:
    """Compute approximate top-k exactly: its recall is 1."""
    config = ir.DictAttr(op.attribute("mhlo.backend_config"))
    axis = int(ir.IntegerAttr(config["reduction_dim"]).value)
    count = op.kind.shape[axis]
    keys, order = array(x), array(positions)
    descending = _precedes(op, 2.0, 1.0, keys.dtype)
    chosen = emit("argsort", keys, axis=axis, descending=descending, count=(count,))
    return tuple(taken_along(y, chosen, axis) for y in (keys, order))


def _precedes(op: Op, one: float, other: float, dtype: str) -> bool:
    """Return whether a custom call's comparator orders one number before another."""
    (name,) = ir.ArrayAttr(op.attribute("called_computations"))
    values = [lift(one, dtype), lift(other, dtype), lift(0), lift(0)]
    assert op.call is not None
    with without_tracing():
        (found,) = op.call(str(ir.FlatSymbolRefAttr(name).value), values)
    return bool(number(found))


CUSTOM_CALLS: dict[str, Callable[..., Any]] = {
    "ApproxTopK": _approx_top_k,
    "LayoutConstraint": _first,
    "Sharding": _first,
    "annotate_device_placement": _first,
    "mhlo.topk": _top_k,
    "shape_assertion": shape_assertion,
    "stablehlo.dynamic_reduce_window": windows.dynamic_reduce_window,
    "stablehlo.dynamic_top_k": _dynamic_top_k,
    **{
        name.replace("chlo.", "mhlo."): rule
        for name, rule in elementwise.OPS.items()
        if name.startswith("chlo.")
    },
    **lapack.LAPACK,
}

# prefixes of calls that leave the model, with the reason for which they stay out
_OUTSIDE = {
    "xla_python_": "it calls back into Python, which a compiled model has not",
    "xla_ffi_python_": "it calls back into Python, which a compiled model has not",
    "xla_ffi_partitioned_python_": "it calls back into Python",
    "tpu_custom_call": "it is a kernel for TPUs (Pallas)",
    "__gpu$": "it is a kernel for GPUs",
    "triton_kernel_call": "it is a kernel for GPUs",
    "lapack_c": "aotc factorises real matrices only",
    "lapack_z": "aotc factorises real matrices only",
    "lapack_": "no op of the graph computes what this function of LAPACK does",
}


def reason_against(op: Op) -> str | None:
    """Return why a custom call cannot be imported; None if it can."""
    target = op.text("call_target_name")
    if target in CUSTOM_CALLS:
        return None
    for prefix, reason in _OUTSIDE.items():
        if target.startswith(prefix):
            return reason
    return "aotc does not know what this call computes"


def custom_call(op: Op, *operands: Value) -> object:
    """Return the results of a custom call with a known target."""
    return CUSTOM_CALLS[op.text("call_target_name")](op, *operands)


def composite(op: Op, *operands: Value) -> object:
    """Return a composite op's results, by its name if known, else by its
    decomposition.
    """
    name = op.text("name")
    if name == "chlo.top_k":
        options = ir.DictAttr(op.attribute("composite_attributes"))
        return sorting.largest(array(operands[0]), ir.IntegerAttr(options["k"]).value)
    if name in elementwise.OPS:
        return elementwise.OPS[name](op, *operands)
    assert op.call is not None
    return op.call(op.text("decomposition"), operands)


def barrier(op: Op, *operands: Value) -> tuple[Value, ...]:
    """Return the operands behind an optimization barrier."""
    kept = [materialize(x) for x in operands if not isinstance(x, Token)]
    held = iter(debug.barrier(kept))
    return tuple(x if isinstance(x, Token) else next(held) for x in operands)


OPS: dict[str, Callable[..., Any]] = {
    "stablehlo.after_all": lambda op, *tokens: Token(),
    "stablehlo.composite": composite,
    "stablehlo.create_token": lambda op: Token(),
    "stablehlo.custom_call": custom_call,
    "stablehlo.optimization_barrier": barrier,
    "sdy.sharding_constraint": _first,
}
