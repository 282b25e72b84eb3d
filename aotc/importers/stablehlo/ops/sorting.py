"""Sorting: by keys where the comparator is one, else by any order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from aotc import numpy as np
from aotc.core import dtypes
from aotc.importers.stablehlo.operation import Op
from aotc.importers.stablehlo.ops.elementwise import ordered_bits
from aotc.importers.stablehlo.ops.reductions import require_elementwise
from aotc.importers.stablehlo.regions import sort_keys
from aotc.importers.stablehlo.values import Value, array, each_part, shape_of
from aotc.numpy.ordering import taken_along
from aotc.tracing.array import Array
from aotc.tracing.tracing import emit


def sort(op: Op, *xs: Value) -> tuple[Value, ...]:
    """Return all operands sorted by a comparator, stably."""
    axis = op.integer("dimension", -1) % max(len(shape_of(xs[0])), 1)
    if not shape_of(xs[0]):
        return xs
    keys = sort_keys(op)
    order = _by_rank(op, xs, axis) if keys is None else _by_keys(xs, keys, axis)
    return tuple(each_part(lambda part: taken_along(part, order, axis), x) for x in xs)


def _by_keys(xs: Sequence[Value], keys: Sequence[tuple[int, bool]], axis: int) -> Array:
    """Return the permutation that sorts by several keys, the first the most
    significant.
    """
    order = None
    for number, descending in reversed(keys):
        key = array(xs[number])
        key = np.astype(key, "u8") if key.dtype == "bool" else key
        moved = key if order is None else taken_along(key, order, axis)
        count = (key.shape[axis],)
        step = emit("argsort", moved, axis=axis, descending=descending, count=count)
        order = step if order is None else taken_along(order, step, axis)
    assert order is not None
    return order


def _by_rank(op: Op, xs: Sequence[Value], axis: int) -> Array:
    """Return the permutation that sorts by any comparator, comparing all pairs."""
    require_elementwise(op)
    operands = []
    for x in xs:
        last = each_part(lambda part: np.moveaxis(part, axis, -1), x)
        operands.append(each_part(lambda part: np.expand_dims(part, -2), last))
        operands.append(each_part(lambda part: np.expand_dims(part, -1), last))
    size = shape_of(xs[0])[axis]
    pairs = (*shape_of(operands[0])[:-2], size, size)
    spread = [each_part(lambda p: np.broadcast_to(p, pairs), x) for x in operands]
    # [i, j]: whether element j comes before element i, and the other way round
    before = array(op.regions[0](*spread)[0])
    swapped = [spread[n ^ 1] for n in range(len(spread))]
    after = array(op.regions[0](*swapped)[0])
    rows, columns = (
        emit("iota", shape=pairs, axis=len(pairs) - n, dtype="i32") for n in (2, 1)
    )
    tied = np.logical_not(np.logical_or(before, after))
    earlier = np.logical_or(before, np.logical_and(tied, columns < rows))
    rank = np.sum(np.astype(earlier, "i32"), -1)
    return np.moveaxis(np.argsort(rank, -1), -1, axis)


def top_k(op: Op, x: Value) -> tuple[Array, Array]:
    """Return the k largest elements along the last axis, and their indices."""
    return largest(array(x), op.integer("k"), op.kinds[1].dtype)  # type: ignore[union-attr]


def largest(x: Array, k: Any, dtype: str = "i32") -> tuple[Array, Array]:
    """Return the k largest elements along the last axis, and their indices in `dtype`.

    In the total order of floats, where 0 comes before -0 and NaN first or last by sign.
    """
    axis = x.ndim - 1
    key = np.astype(x, "u8") if x.dtype == "bool" else x
    key = ordered_bits(key) if dtypes.is_float(x.dtype) else key
    order = emit("argsort", key, axis=axis, descending=True, count=(k,))
    return taken_along(x, order, axis), np.astype(order, dtype)


OPS: dict[str, Callable[..., Any]] = {
    "chlo.top_k": top_k,
    "stablehlo.sort": sort,
}
