"""Functions of `aotc.numpy` that find elements: those not 0, and the distinct ones.

How many there are only the values decide, and arrays have the shape that their types
say. So these functions take JAX's `size`: of more elements the first `size` are given,
of fewer the rest is filled.
"""

from __future__ import annotations

from typing import Any, overload

import numpy as np

from aotc.core import dtypes
from aotc.dialects.types import Size, bounds
from aotc.numpy.axes import one_axis
from aotc.numpy.broadcasting import new_shape
from aotc.numpy.creation import arange, full, positions_of
from aotc.numpy.cumulative import cumsum
from aotc.numpy.elementwise import (
    equal,
    invert,
    isnan,
    less,
    logical_and,
    logical_or,
    not_equal,
    subtract,
)
from aotc.numpy.elementwise import where as select
from aotc.numpy.gathering import take
from aotc.numpy.joining import concatenate, stack
from aotc.numpy.ordering import argsort, isin, taken_along
from aotc.numpy.reducing import argmax
from aotc.numpy.reducing import sum as total
from aotc.numpy.shaping import ravel, reshape, roll
from aotc.numpy.updating import At
from aotc.tracing.array import Array
from aotc.tracing.call_sizes import compiler_size
from aotc.tracing.conversion import ArrayLike, astype, lift, one_dtype
from aotc.tracing.source_locations import fail

__all__ = [
    "argwhere", "compress", "extract", "flatnonzero", "intersect1d", "nonzero",
    "setdiff1d", "union1d", "unique", "where",
]  # fmt: skip


def _required_size(size: Any) -> Size:
    """Return `size`; raise if the caller did not give it."""
    if size is None:
        fail(
            "bad-size",
            "expected size=…: how many elements are found only their values decide, "
            "but the shape of the result must be known",
            "give the most that you expect; the rest is filled",
        )
    (count,) = new_shape((size,))
    return count


# ---- what is true -------------------------------------------------------------------


def nonzero(
    a: ArrayLike, *, size: Size | None = None, fill_value: ArrayLike = 0
) -> tuple[Array, ...]:
    """Return the indices (i32) of the elements that are not 0: an array for each axis.

    Args:
        a: the array.
        size: how many are given.
        fill_value: the position given for what is missing, or one for each axis.
    """
    x = lift(a)
    if not x.ndim:
        fail("shape-mismatch", f"expected an array with axes; got {x.type}")
    fills = fill_value if isinstance(fill_value, tuple) else (fill_value,) * x.ndim
    if len(fills) != x.ndim:
        fail(
            "shape-mismatch",
            f"expected one fill_value, or one for each axis of {x.type}; got "
            f"{fill_value}",
        )
    count = _required_size(size)
    mask = ravel(astype(x, "bool"))
    found = positions_of(_true_places(mask, count, 0), x.shape)
    there = less(arange(count), total(mask))
    pairs = zip(found, fills, strict=True)
    return tuple(select(there, place, fill) for place, fill in pairs)


def flatnonzero(
    a: ArrayLike, *, size: Size | None = None, fill_value: ArrayLike = 0
) -> Array:
    """Return the flat row-major indices (i32) of the elements that are not 0."""
    return nonzero(ravel(a), size=size, fill_value=fill_value)[0]


def argwhere(
    a: ArrayLike, *, size: Size | None = None, fill_value: ArrayLike = 0
) -> Array:
    """`nonzero` as an array [size, axes]."""
    return stack(nonzero(a, size=size, fill_value=fill_value), 1)


@overload
def where(condition: ArrayLike, x: ArrayLike, y: ArrayLike, /) -> Array: ...


@overload
def where(
    condition: ArrayLike, /, *, size: Size | None, fill_value: ArrayLike = 0
) -> tuple[Array, ...]: ...


def where(
    condition: ArrayLike,
    x: ArrayLike | None = None,
    y: ArrayLike | None = None,
    /,
    *,
    size: Size | None = None,
    fill_value: ArrayLike = 0,
) -> Any:
    """`x` where the condition holds, `y` elsewhere; without both, `nonzero` of it.

    Args:
        condition: what is not 0 holds.
        x: taken where it does.
        y: taken where it does not.
        size: how many positions are given, without `x` and `y`.
        fill_value: as for `nonzero`.
    """
    if x is None and y is None:
        return nonzero(condition, size=size, fill_value=fill_value)
    if x is None or y is None or size is not None:
        fail(
            "bad-argument",
            "expected where(condition, x, y) or where(condition, size=…); got a "
            "mixture of both",
        )
    return select(condition, x, y)


def compress(
    condition: ArrayLike,
    a: ArrayLike,
    axis: int | None = None,
    *,
    size: Size | None = None,
    fill_value: ArrayLike = 0,
) -> Array:
    """Return the slices of `a` along `axis` where `condition` is true.

    Args:
        condition: one axis; parts of `a` beyond its end are left out.
        a: the array.
        axis: which one; all elements in a row without it.
        size: how many parts are given. A condition with known values needs none.
        fill_value: given for what is missing.
    """
    mask, x = astype(condition, "bool"), lift(a)
    if mask.ndim != 1:
        fail("bad-index", f"expected a condition of one axis; got {mask.type}")
    if size is None and mask._data is not None:
        return take(x, np.flatnonzero(mask._data).astype("i4"), axis)
    x, axis = (ravel(x), 0) if axis is None else (x, one_axis(x, axis))
    _require_covered(mask, x, axis)
    places = _true_places(mask, _required_size(size), x.shape[axis])
    return take(x, places, axis, mode="fill", fill_value=fill_value)


def _require_covered(mask: Array, x: Array, axis: int) -> None:
    """Raise unless a mask is provably no longer than the axis."""
    if bounds(x.shape[axis] - mask.shape[0])[0] < 0:
        fail(
            "shape-mismatch",
            f"expected a condition no longer than axis {axis} of {x.type}; got "
            f"{mask.type}",
        )


def extract(
    condition: ArrayLike,
    arr: ArrayLike,
    *,
    size: Size | None = None,
    fill_value: ArrayLike = 0,
) -> Array:
    """The elements of `arr` where `condition` is not 0, row by row."""
    x, mask = ravel(arr), ravel(astype(condition, "bool"))
    if x.type.shape != mask.type.shape:
        fail(
            "shape-mismatch",
            f"expected a condition for each element of {x.type}; got {mask.type}",
        )
    return _elements_where(x, mask, _required_size(size), fill_value)


def _true_places(mask: Array, count: Size, fill: ArrayLike) -> Array:
    """Return the indices of the first `count` true elements of a vector, then
    `fill`.
    """
    number = subtract(cumsum(mask, 0, "i32"), 1)
    found = At(full((count,), fill, "i32"))
    places = found[select(mask, number, count)]  # `count` is left out
    return places.set(arange(mask.shape[0]), mode="drop")


def _elements_where(
    x: Array, mask: Array, count: Size, fill_value: ArrayLike | None
) -> Array:
    """Return the first `count` elements of a vector where `mask` is true, then the
    fill.
    """
    if fill_value is None:
        _require_elements(x, count)
        return take(x, _true_places(mask, count, argmax(mask)), 0)
    places = _true_places(mask, count, x.shape[0])
    return take(x, places, 0, mode="fill", fill_value=fill_value)


def _require_elements(x: Array, count: Size) -> None:
    """Raise unless an array provably has an element to fill with."""
    if bounds(x.size)[0] < 1 and compiler_size(count) != 0:
        fail(
            "shape-mismatch",
            f"expected at least one element; got {x.type}",
            "give fill_value, which an array without elements is filled with",
        )


# ---- sets ---------------------------------------------------------------------------


def unique(
    ar: ArrayLike,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: None = None,
    *,
    equal_nan: bool = True,
    size: Size | None = None,
    fill_value: ArrayLike | None = None,
) -> Any:
    """Return the distinct elements in rising order, and for each, if asked for:

    Args:
        ar: at least one element.
        return_index: where (i32) each of them comes first.
        return_inverse: for each element of `ar` its number in the result; numbers that
            are not below `size` are of those left out.
        return_counts: how often each comes; 0 for what is filled.
        axis: None; only single elements are compared.
        equal_nan: whether NaN is equal to NaN.
        size: how many are given.
        fill_value: given for what is missing; the least element without it.
    """
    if axis is not None:
        fail("bad-axis", f"expected axis None; got {axis}")
    count, x = _required_size(size), ravel(ar)
    order = argsort(x)
    ordered = taken_along(x, order, 0)
    first = _differs(ordered, equal_nan)
    found: list[Array] = [_elements_where(ordered, first, count, fill_value)]
    if return_index:
        found.append(taken_along(order, _true_places(first, count, 0), 0))
    if return_inverse:
        group = subtract(cumsum(first, 0, "i32"), 1)
        inverse = taken_along(group, argsort(order), 0)
        found.append(reshape(inverse, lift(ar).shape))
    if return_counts:
        ends = _true_places(first, count + 1, x.shape[0])
        found.append(subtract(ends[1:], ends[:-1]))
    return tuple(found) if len(found) > 1 else found[0]


def _differs(ordered: Array, equal_nan: bool = True) -> Array:
    """Return a mask of elements of a sorted vector that differ from their
    predecessor.
    """
    before = roll(ordered, 1)
    differs = not_equal(ordered, before)
    if equal_nan and dtypes.is_float(ordered.dtype):
        both = logical_and(isnan(ordered), isnan(before))
        differs = logical_and(differs, invert(both))
    return logical_or(differs, equal(arange(ordered.shape[0]), 0))


def union1d(
    ar1: ArrayLike,
    ar2: ArrayLike,
    *,
    size: Size | None = None,
    fill_value: ArrayLike | None = None,
) -> Array:
    """The distinct elements of two arrays, as `unique` gives them."""
    both = [ravel(x) for x in one_dtype(ar1, ar2)]
    found: Array = unique(concatenate(both), size=size, fill_value=fill_value)
    return found


def intersect1d(
    ar1: ArrayLike,
    ar2: ArrayLike,
    *,
    size: Size | None = None,
    fill_value: ArrayLike | None = None,
) -> Array:
    """The distinct elements that both arrays have; filled as by `unique`."""
    return _distinct_among(ar1, ar2, True, size, fill_value)


def setdiff1d(
    ar1: ArrayLike,
    ar2: ArrayLike,
    *,
    size: Size | None = None,
    fill_value: ArrayLike | None = None,
) -> Array:
    """The distinct elements of `ar1` that `ar2` has not; filled as by `unique`."""
    return _distinct_among(ar1, ar2, False, size, fill_value)


def _distinct_among(
    ar1: ArrayLike,
    ar2: ArrayLike,
    inside: bool,
    size: Size | None,
    fill_value: ArrayLike | None,
) -> Array:
    """Return the distinct elements of `ar1` that are, or are not, `inside` `ar2`."""
    count = _required_size(size)
    x, others = (ravel(x) for x in one_dtype(ar1, ar2))
    ordered = taken_along(x, argsort(x), 0)
    wanted = isin(ordered, others, invert=not inside)
    return _elements_where(
        ordered, logical_and(_differs(ordered), wanted), count, fill_value
    )
