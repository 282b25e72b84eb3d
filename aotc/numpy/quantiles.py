"""Order statistics: median, quantiles and percentiles."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from aotc.dialects.lowering.conversion import accumulator
from aotc.numpy.axes import Axes, other_axes, rising_axes
from aotc.numpy.broadcasting import broadcast_to
from aotc.numpy.elementwise import (
    add,
    floor,
    isnan,
    logical_not,
    logical_or,
    maximum,
    minimum,
    multiply,
    subtract,
    where,
)
from aotc.numpy.ordering import sort, taken_along
from aotc.numpy.predicates import isinf
from aotc.numpy.reducing import any as any_of
from aotc.numpy.reducing import sum as total
from aotc.numpy.shaping import moveaxis, ravel, reshape, transpose
from aotc.tracing.array import Array
from aotc.tracing.conversion import ArrayLike, as_float, astype, lift, to_accumulator
from aotc.tracing.source_locations import fail

__all__ = [
    "median", "nanmedian", "nanpercentile", "nanquantile", "percentile", "quantile",
]  # fmt: skip

METHODS = ("linear", "lower", "higher", "midpoint", "nearest")


def quantile(
    a: ArrayLike,
    q: ArrayLike,
    axis: Axes = None,
    *,
    method: str = "linear",
    keepdims: bool = False,
) -> Array:
    """The value below which the fraction `q` of the elements lies.

    Between two elements by `method`: linear, lower, higher, midpoint or nearest. NaN if
    any element is. The axes of `q` come first. Infinite elements are elements like
    others, where NumPy gives NaN: the largest of all is infinite if one is, and between
    two equal infinities is the same.
    """
    return _quantile(a, q, axis, method, keepdims, skip_nan=False)


def nanquantile(
    a: ArrayLike,
    q: ArrayLike,
    axis: Axes = None,
    *,
    method: str = "linear",
    keepdims: bool = False,
) -> Array:
    """Return quantiles, leaving NaNs out."""
    return _quantile(a, q, axis, method, keepdims, skip_nan=True)


def percentile(
    a: ArrayLike,
    q: ArrayLike,
    axis: Axes = None,
    *,
    method: str = "linear",
    keepdims: bool = False,
) -> Array:
    """`quantile`, with `q` from 0 to 100."""
    return quantile(a, _as_floats(a, q) / 100, axis, method=method, keepdims=keepdims)


def nanpercentile(
    a: ArrayLike,
    q: ArrayLike,
    axis: Axes = None,
    *,
    method: str = "linear",
    keepdims: bool = False,
) -> Array:
    """`nanquantile`, with `q` from 0 to 100."""
    return nanquantile(
        a, _as_floats(a, q) / 100, axis, method=method, keepdims=keepdims
    )


def median(a: ArrayLike, axis: Axes = None, *, keepdims: bool = False) -> Array:
    """The middle element, or the mean of the two in the middle; NaN if any is."""
    return quantile(a, 0.5, axis, method="midpoint", keepdims=keepdims)


def nanmedian(a: ArrayLike, axis: Axes = None, *, keepdims: bool = False) -> Array:
    """Return the median, leaving NaNs out."""
    return nanquantile(a, 0.5, axis, method="midpoint", keepdims=keepdims)


def _quantile(
    a: ArrayLike, q: ArrayLike, axis: Axes, method: str, keepdims: bool, skip_nan: bool
) -> Array:
    """Return the quantiles of `a` over `axis`, with or without NaNs."""
    x, parts = as_float(a), _as_floats(a, q)
    _check(parts, method)
    axes = rising_axes(x, axis)
    rows = _rows(x, axes)
    ordered = to_accumulator(sort(rows))  # positions need more digits than elements
    wanted = astype(ravel(parts), ordered.dtype)
    found = astype(_of_rows(ordered, wanted, method, skip_nan), x.dtype)
    shape = [1 if i in axes else n for i, n in enumerate(x.shape)]
    rest = shape if keepdims else [x.shape[i] for i in other_axes(x, axes)]
    return reshape(moveaxis(found, -1, 0), [*parts.shape, *rest])


def _as_floats(a: ArrayLike, q: ArrayLike) -> Array:
    """Return `q` as floats; plain numbers in the precision of `a`."""
    return as_float(lift(q, accumulator(as_float(a).dtype)))


def _check(quantiles: Array, method: str) -> None:
    """Raise for an unknown method, and quantiles outside [0, 1]."""
    if method not in METHODS:
        fail(
            "bad-mode", f"expected a method out of {', '.join(METHODS)}; got {method!r}"
        )
    if quantiles._data is not None and not np.all(
        (quantiles._data >= 0) & (quantiles._data <= 1)
    ):
        fail("bad-range", "expected quantiles from 0 to 1 (percentiles from 0 to 100)")


def _rows(x: Array, axes: tuple[int, ...]) -> Array:
    """Flatten `axes` of an array into one last axis."""
    others = other_axes(x, axes)
    moved = transpose(x, [*others, *axes])
    size: Any = math.prod(x.shape[i] for i in axes)
    if isinstance(size, int) and size == 0:
        fail("empty-reduction", f"expected elements along {axes} of {x.type}")
    return reshape(moved, [*(x.shape[i] for i in others), size])


def _of_rows(rows: Array, quantiles: Array, method: str, skip_nan: bool) -> Array:
    """Return the quantiles `quantiles` along the last axis of sorted rows."""
    missing = isnan(rows)
    shape = (*rows.shape[:-1], *quantiles.shape)
    if skip_nan:
        count = total(logical_not(missing), -1, keepdims=True)
        last = maximum(astype(count, quantiles.dtype) - 1, 0)
    else:
        size = rows.shape[-1]
        last = lift(
            float(size - 1) if isinstance(size, int) else size - 1, quantiles.dtype
        )
    place = multiply(broadcast_to(quantiles, shape), broadcast_to(last, shape))
    found = _interpolate(rows, place, last, method)
    if skip_nan:
        return found
    spoiled = any_of(missing, -1, keepdims=True)
    return where(broadcast_to(spoiled, shape), math.nan, found)


def _interpolate(rows: Array, position: Array, last: Array, method: str) -> Array:
    """Return the elements at fractional indices along the last axis."""
    below = floor(position)
    above = minimum(add(below, 1), last)
    share = subtract(position, below)
    if method == "nearest":
        even = subtract(below, multiply(floor(below / 2), 2))
        up = (share > 0.5) | ((share == 0.5) & (even > 0))
        share = astype(up, position.dtype)
    elif method != "linear":
        middle = {"lower": 0.0, "higher": 1.0, "midpoint": 0.5}[method]
        share = multiply(astype(share > 0, position.dtype), middle)
    axis = rows.ndim - 1
    low, high = (taken_along(rows, astype(at, "i32"), axis) for at in (below, above))
    if method == "midpoint":  # of the largest numbers, too
        mixed = add(multiply(low, 0.5), multiply(high, 0.5))
    else:
        mixed = add(low, multiply(share, subtract(high, low)))
        mixed = where(isinf(low), add(low, high), mixed)
    level = logical_or(share == 0, low == high)
    return where(level, low, where(share == 1, high, mixed))
