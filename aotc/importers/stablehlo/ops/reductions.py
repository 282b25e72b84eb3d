"""Reductions over axes, by known reducers or any region."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy

from aotc import control
from aotc import numpy as np
from aotc.complexes import Complex
from aotc.core import dtypes
from aotc.dialects.types import Size
from aotc.importers.stablehlo.operation import Op
from aotc.importers.stablehlo.regions import (
    arg_reducer,
    elementwise,
    single_op,
)
from aotc.importers.stablehlo.values import (
    Value,
    array,
    each_part,
    materialize,
    number,
    shape_of,
)
from aotc.numpy.ordering import taken_along
from aotc.tracing.array import Array
from aotc.tracing.source_locations import fail
from aotc.tracing.tracing import emit

Reduce = Callable[[Array, Sequence[int]], Array]

# reducer → the reduction, and the value that changes nothing
NAMED: dict[str, tuple[str, Callable[[str], Any]]] = {
    "stablehlo.add": ("reduce_sum", lambda dtype: 0),
    "stablehlo.multiply": ("reduce_prod", lambda dtype: 1),
    "stablehlo.maximum": ("reduce_max", lambda dtype: lowest(dtype)),
    "stablehlo.minimum": ("reduce_min", lambda dtype: highest(dtype)),
}
_BOOLS = {
    "stablehlo.or": (np.any, False),
    "stablehlo.maximum": (np.any, False),
    "stablehlo.add": (np.any, False),
    "stablehlo.and": (np.all, True),
    "stablehlo.minimum": (np.all, True),
    "stablehlo.multiply": (np.all, True),
}
_COMBINE: dict[str, Callable[[Array, Array], Array]] = {
    "stablehlo.add": np.add,
    "stablehlo.multiply": np.multiply,
    "stablehlo.maximum": np.maximum,
    "stablehlo.minimum": np.minimum,
}


def lowest(dtype: str) -> float:
    """Return the least element of a dtype."""
    return -numpy.inf if dtypes.is_float(dtype) else _integer_bounds(dtype).min


def highest(dtype: str) -> float:
    """Return the greatest element of a dtype."""
    return numpy.inf if dtypes.is_float(dtype) else _integer_bounds(dtype).max


def _integer_bounds(dtype: str) -> numpy.iinfo:
    """Return NumPy's limits of an integer dtype."""
    return numpy.iinfo(dtypes.to_numpy(dtype))


# ---- over axes ----------------------------------------------------------------------


def reduce(op: Op, *operands: Value) -> Value | tuple[Value, ...]:
    """Return the reduction of operands along axes by a region, with initial
    elements.
    """
    count = len(operands) // 2
    xs, firsts = operands[:count], operands[count:]
    axes = op.ints("dimensions")
    if count == 1:
        found = reduce_by_name(single_op(op), xs[0], firsts[0], axes)
        if found is not None:
            return found
    if count == 2 and len(axes) == 1:
        pair = _arg_reduce(op, xs, firsts, axes[0])
        if pair is not None:
            return pair
    return reduce_by_region(op, xs, firsts, axes)


def reduce_by_name(
    name: str | None, x: Value, initial: Value, axes: Sequence[int]
) -> Value | None:
    """Return the reduction by a named op; None if the graph has no op for it."""
    if isinstance(x, Complex):
        if name != "stablehlo.add":
            return None
        return each_part(lambda p, f: _emit_reduction(name, p, f, axes), x, initial)
    source = array(x)
    if source.dtype == "bool":
        if name not in _BOOLS:
            return None
        function, neutral = _BOOLS[name]
        combine = np.logical_and if neutral else np.logical_or
        whole = function(source, tuple(axes)) if axes else source
        return whole if number(initial) is neutral else combine(whole, array(initial))
    return (
        _emit_reduction(name, source, array(initial), axes) if name in NAMED else None
    )


def _emit_reduction(name: Any, x: Array, initial: Array, axes: Sequence[int]) -> Array:
    """Emit a reduction by a named op, combined with the initial element."""
    reduction, neutral = NAMED[name]
    if any(x.type.shape[axis] == 0 for axis in axes):  # there is only the first
        rest = [size for axis, size in enumerate(x.shape) if axis not in axes]
        return np.broadcast_to(initial, rest)
    whole = emit(reduction, x, axes=tuple(sorted(axes))) if axes else x
    if number(initial) == neutral(x.dtype):
        return whole
    return _COMBINE[name](whole, initial)


def _arg_reduce(
    op: Op, xs: Sequence[Value], firsts: Sequence[Value], axis: int
) -> tuple[Value, ...] | None:
    """Return (values, positions) if the region is argmax or argmin; None otherwise."""
    kind = arg_reducer(op)
    if kind is None or not _is_iota(op, 1, axis):
        return None
    x = array(xs[0])
    neutral = lowest if kind == "max" else highest
    ordinary = x.dtype if x.dtype != "bool" else "u8"
    x_ordered = np.astype(x, ordinary)
    if x.dtype != "bool" and number(firsts[0]) != neutral(x.dtype):
        return None
    find = np.argmax if kind == "max" else np.argmin
    place = find(x_ordered, axis)
    best = taken_along(x, np.expand_dims(place, axis), axis)
    positions = np.astype(place, array(xs[1]).dtype)
    return np.squeeze(best, axis), positions


def _is_iota(op: Op, operand: int, axis: int) -> bool:
    """Return whether an operand is an iota along the reduced axis."""
    value = op.op.operands[operand]
    maker = getattr(value.owner, "operation", value.owner)
    name = getattr(maker, "name", "")
    if name not in ("stablehlo.iota", "stablehlo.dynamic_iota"):
        return False
    return Op(maker).integer("iota_dimension") == axis


def reduce_by_region(
    op: Op, xs: Sequence[Value], firsts: Sequence[Value], axes: Sequence[int]
) -> tuple[Value, ...]:
    """Return the reduction by any elementwise region, as a tree of halves."""
    require_elementwise(op)
    kept = [axis for axis in range(len(shape_of(xs[0]))) if axis not in axes]
    shape = shape_of(xs[0])
    sizes = [size for axis in axes if isinstance(size := shape[axis], int)]
    if len(sizes) < len(axes):
        fail(
            "symbolic-size",
            "this reducer is none that aotc knows, and needs fixed sizes along the "
            f"axes that it reduces; got {shape} over {tuple(axes)}",
            "reduce by +, *, max, min, and, or, argmax or argmin, or fix the sizes",
        )
    total = math.prod(sizes)
    flat = [_flatten_axes(x, (*kept, *axes), len(kept), total) for x in xs]
    if total == 0:
        return _broadcast_initial(firsts, [shape[axis] for axis in kept])

    def combine(earlier: Sequence[Value], later: Sequence[Value]) -> list[Value]:
        return [materialize(value) for value in op.regions[0](*earlier, *later)]

    found = control.reduce(combine, flat, len(kept))
    starts = _broadcast_initial(firsts, shape_of(found[0]))
    return tuple(combine(starts, found))


def _broadcast_initial(
    firsts: Sequence[Value], shape: Sequence[Size]
) -> tuple[Value, ...]:
    """Return initial elements broadcast to a shape."""
    return tuple(
        each_part(lambda part: np.broadcast_to(part, tuple(shape)), materialize(first))
        for first in firsts
    )


def _flatten_axes(x: Value, order: Sequence[int], kept: int, total: int) -> Value:
    """Return x transposed by `order`, its axes after the first `kept` flattened into
    one.
    """

    def flatten(part: Array) -> Array:
        moved = np.transpose(part, order)
        return np.reshape(moved, (*moved.shape[:kept], total))

    return each_part(flatten, x)


def require_elementwise(op: Op) -> None:
    """Refuse an op whose region is not elementwise."""
    if not elementwise(op):
        fail(
            "unsupported-ops",
            f"the region of {op.name} does more than arithmetic on scalars",
        )


OPS: dict[str, Callable[..., Any]] = {"stablehlo.reduce": reduce}
