"""Functions of `aotc.numpy` that sort, and those that search sorted arrays."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import NamedTuple, SupportsIndex

from aotc.core import dtypes
from aotc.dialects.types import Size, SymbolicDim, bounds
from aotc.numpy.axes import one_axis
from aotc.numpy.broadcasting import broadcast_to
from aotc.numpy.elementwise import (
    equal,
    greater,
    isnan,
    less,
    logical_and,
    logical_not,
    logical_or,
    subtract,
    where,
)
from aotc.numpy.reducing import any as any_of
from aotc.numpy.reducing import sum as total
from aotc.numpy.shaping import expand_dims, flip, ravel, reshape
from aotc.tracing.array import Array
from aotc.tracing.conversion import ArrayLike, astype, lift, one_dtype
from aotc.tracing.source_locations import fail
from aotc.tracing.tracing import emit

__all__ = [
    "argpartition", "argsort", "digitize", "isin", "lexsort", "partition",
    "searchsorted", "sort", "top_k",
]  # fmt: skip

# Up to this size, counting what is smaller is faster than a bisection.
SMALL = 256


def _array_and_axis(a: ArrayLike, axis: SupportsIndex | None) -> tuple[Array, int]:
    """Return an array and its axis; None flattens the array first."""
    x = lift(a)
    return (ravel(x), 0) if axis is None else (x, one_axis(x, axis))


def _order(x: Array, axis: int, descending: bool, count: Size) -> Array:
    """Return the indices that sort `x` along an axis, the first `count` of them."""
    x = astype(x, "i8") if x.dtype == "bool" else x
    return emit("argsort", x, axis=axis, descending=descending, count=(count,))


def taken_along(x: Array, positions: Array, axis: int) -> Array:
    """Gather elements of x at `positions` along `axis`; other axes correspond."""
    every = tuple(range(x.ndim))
    others = tuple(number for number in every if number != axis)
    maps = {"axes": (axis,), "along": every, "kept": others, "mode": "clip"}
    return emit("gather", x, positions, **maps)


# ---- sorting ------------------------------------------------------------------------


def argsort(a: ArrayLike, axis: int | None = -1, *, descending: bool = False) -> Array:
    """Return the indices (i32) that sort the elements along an axis, stably.

    NaN counts as greater than any number.
    """
    x, number = _array_and_axis(a, axis)
    return _order(x, number, descending, x.shape[number])


def sort(a: ArrayLike, axis: int | None = -1, *, descending: bool = False) -> Array:
    """The elements in rising order along `axis`, as `argsort` has it."""
    x, number = _array_and_axis(a, axis)
    order = _order(x, number, descending, x.shape[number])
    return taken_along(x, order, number)


def argpartition(
    a: ArrayLike, kth: int | Sequence[int], axis: int | None = -1
) -> Array:
    """Return positions that put the elements named by `kth` in place: a full sort."""
    return argsort(a, _checked_axis(a, kth, axis))


def partition(a: ArrayLike, kth: int | Sequence[int], axis: int | None = -1) -> Array:
    """Put the elements that `kth` names in place, by a full sort."""
    return sort(a, _checked_axis(a, kth, axis))


def _checked_axis(
    a: ArrayLike, kth: int | Sequence[int], axis: int | None
) -> int | None:
    """Return `axis`; raise if `kth` is out of its range."""
    x, number = _array_and_axis(a, axis)
    size = x.shape[number]
    for k in (kth,) if isinstance(kth, int) else kth:
        if isinstance(size, int) and not -size <= k < size:
            fail("bad-index", f"kth {k} is out of bounds for axis {number} of {x.type}")
    return axis


def lexsort(keys: Sequence[ArrayLike], axis: int = -1) -> Array:
    """The order by several keys: by the last one first, then the one before it, …"""
    arrays = [lift(key) for key in keys]
    if not arrays or any(key.type.shape != arrays[0].type.shape for key in arrays):
        fail("shape-mismatch", "expected keys of one shape, at least one of them")
    number = one_axis(arrays[0], axis)
    order = argsort(arrays[0], number)
    for key in arrays[1:]:
        finer = argsort(taken_along(key, order, number), number)
        order = taken_along(order, finer, number)
    return order


class TopK(NamedTuple):
    """The result of `top_k`: the elements and their positions (i32)."""

    values: Array
    indices: Array


def top_k(a: ArrayLike, k: int, axis: int = -1, *, largest: bool = True) -> TopK:
    """The `k` largest (or smallest) elements along `axis`, the most extreme first.

    Among equal elements the first comes first. NaN counts as greater than any number.
    """
    x = lift(a)
    number = one_axis(x, axis)
    size, count = x.type.shape[number], operator.index(k)
    if not 0 <= count <= bounds(size)[0]:
        fail(
            "bad-size",
            f"expected k from 0 to {size} (at least {bounds(size)[0]}) for {x.type}; "
            f"got {k}",
            f"promise aotc.Dim('{size}', min={k})"
            if isinstance(size, SymbolicDim)
            else None,
        )
    order = _order(x, number, largest, count)
    return TopK(taken_along(x, order, number), order)


# ---- searching ----------------------------------------------------------------------


def searchsorted(a: ArrayLike, v: ArrayLike, side: str = "left") -> Array:
    """Find positions (i32) to insert `v` into the sorted `a`, before or after equal
    elements.

    `a` is a vector; or its last axis is sorted, and the axes before it are those of `v`
    (PyTorch's). NaN counts as greater than any number.
    """
    table, values = one_dtype(a, v)
    if side not in ("left", "right"):
        fail("bad-mode", f"expected side 'left' or 'right'; got {side!r}")
    if table.ndim == 0 or (
        table.ndim > 1 and table.type.shape[:-1] != values.type.shape[:-1]
    ):
        fail(
            "shape-mismatch",
            f"expected a vector to search, or {values.type} without its last axis and "
            f"a sorted one; got {table.type}",
        )
    size = table.shape[-1]
    if isinstance(size, int) and size <= SMALL:
        return _search_by_counting(table, values, side)
    return _search_by_bisection(table, values, side)


def _is_before(one: Array, other: Array, side: str) -> Array:
    """Return whether a table element sorts before a value, by the side of equal
    ones.
    """
    if side == "right":
        return logical_not(_is_less(other, one))
    return _is_less(one, other)


def _is_less(one: Array, other: Array) -> Array:
    """`one < other` with NaN above all."""
    below = less(one, other)
    if not dtypes.is_float(one.dtype):
        return below
    return logical_or(below, logical_and(logical_not(isnan(one)), isnan(other)))


def _search_by_counting(table: Array, values: Array, side: str) -> Array:
    """Return how many table elements sort before each value."""
    shape = (*values.shape, table.shape[-1])
    spread = broadcast_to(expand_dims(values, -1), shape)
    if table.ndim > 1:
        table = expand_dims(table, -2)
    before = _is_before(broadcast_to(table, shape), spread, side)
    return total(before, -1)


def _search_by_bisection(table: Array, values: Array, side: str) -> Array:
    """Binary search each value in the table; 31 steps if its size is unknown."""
    size = table.shape[-1]
    flat = reshape(values, (-1,)) if table.ndim == 1 else values
    low = broadcast_to(lift(0, "i32"), flat.shape)
    high = broadcast_to(lift(size, "i32"), flat.shape)
    for _ in range(31 if isinstance(size, SymbolicDim) else size.bit_length()):
        middle = low + (high - low) // 2
        found = taken_along(table, middle, table.ndim - 1)
        open_ = less(low, high)
        before = logical_and(open_, _is_before(found, flat, side))
        behind = logical_and(open_, logical_not(before))
        low, high = where(before, middle + 1, low), where(behind, middle, high)
    return reshape(low, values.shape)


def digitize(x: ArrayLike, bins: ArrayLike, right: bool = False) -> Array:
    """Return the bin number (i32) of each element; `bins` rise, or fall.

    An element on an edge is above it, or below it with `right`. Which of both they do
    is read off the first and the last; what is between them must be in order.
    """
    edges = lift(bins)
    if edges.ndim != 1:
        fail("shape-mismatch", f"expected a vector of bins; got {edges.type}")
    rising = searchsorted(edges, x, "left" if right else "right")
    if edges.type.shape[0] == 0:
        return rising
    is_falling = greater(edges[0], edges[-1])
    if is_falling._data is not None and not is_falling._data:
        return rising
    after = searchsorted(flip(edges), x, "right" if not right else "left")
    falling = subtract(edges.shape[0], after)
    return where(is_falling, falling, rising)


def isin(
    element: ArrayLike, test_elements: ArrayLike, *, invert: bool = False
) -> Array:
    """Return whether each element is one of `test_elements`."""
    values, tests = one_dtype(element, test_elements)
    found = any_of(equal(expand_dims(values, -1), ravel(tests)), -1)
    return logical_not(found) if invert else found
