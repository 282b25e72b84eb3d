"""Functions of `aotc.numpy` that reduce over axes and leave out NaN."""

from __future__ import annotations

import math
from collections.abc import Callable

from aotc.core import dtypes
from aotc.core.dtypes import DTypeLike
from aotc.numpy import reducing
from aotc.numpy.axes import Axes
from aotc.numpy.elementwise import isnan, less_equal, logical_not, where
from aotc.numpy.reducing import highest, lowest
from aotc.tracing.array import Array
from aotc.tracing.conversion import ArrayLike, as_float, lift

__all__ = [
    "nanargmax", "nanargmin", "nanmax", "nanmean", "nanmin", "nanprod", "nanstd",
    "nansum", "nanvar",
]  # fmt: skip


def without_nan(a: ArrayLike, instead: float) -> Array:
    """Replace NaN by `instead`."""
    x = lift(a)
    return where(isnan(x), instead, x) if dtypes.is_float(x.dtype) else x


def _not_nan(x: Array) -> Array:
    """Return a mask of elements other than NaN."""
    return logical_not(isnan(x))


def nansum(
    a: ArrayLike,
    axis: Axes = None,
    dtype: DTypeLike | None = None,
    *,
    keepdims: bool = False,
) -> Array:
    """Sum over `axis`, leaving NaNs out."""
    return reducing.sum(without_nan(a, 0.0), axis, dtype, keepdims=keepdims)


def nanprod(
    a: ArrayLike,
    axis: Axes = None,
    dtype: DTypeLike | None = None,
    *,
    keepdims: bool = False,
) -> Array:
    """Multiply over `axis`, leaving NaNs out."""
    return reducing.prod(without_nan(a, 1.0), axis, dtype, keepdims=keepdims)


def nanmax(a: ArrayLike, axis: Axes = None, *, keepdims: bool = False) -> Array:
    """The largest element over `axis` that is not NaN; NaN if all are."""
    return _nan_extreme(reducing.max, lowest, a, axis, keepdims)


def nanmin(a: ArrayLike, axis: Axes = None, *, keepdims: bool = False) -> Array:
    """The smallest element over `axis` that is not NaN; NaN if all are."""
    return _nan_extreme(reducing.min, highest, a, axis, keepdims)


def _nan_extreme(
    reduce: Callable[..., Array],
    worst: Callable[[str], float],
    a: ArrayLike,
    axis: Axes,
    keepdims: bool,
) -> Array:
    """Reduce by `max` or `min` without NaNs; NaN where all are."""
    x = lift(a)
    if not dtypes.is_float(x.dtype):
        return reduce(x, axis, keepdims=keepdims)
    found = reduce(without_nan(x, worst(x.dtype)), axis, keepdims=keepdims)
    none = reducing.all(isnan(x), axis, keepdims=keepdims)
    return where(none, math.nan, found)


def nanmean(
    a: ArrayLike,
    axis: Axes = None,
    dtype: DTypeLike | None = None,
    *,
    keepdims: bool = False,
) -> Array:
    """Return the mean over `axis`, leaving NaNs out; NaN if all are."""
    x = as_float(a)
    return reducing.mean(x, axis, dtype, keepdims=keepdims, where=_not_nan(x))


def nanvar(
    a: ArrayLike,
    axis: Axes = None,
    dtype: DTypeLike | None = None,
    *,
    ddof: float = 0,
    keepdims: bool = False,
) -> Array:
    """Return the variance over `axis`, leaving NaNs out; NaN of no more than `ddof`."""
    return _nan_spread(reducing.var, a, axis, dtype, ddof, keepdims)


def nanstd(
    a: ArrayLike,
    axis: Axes = None,
    dtype: DTypeLike | None = None,
    *,
    ddof: float = 0,
    keepdims: bool = False,
) -> Array:
    """The square root of `nanvar`."""
    return _nan_spread(reducing.std, a, axis, dtype, ddof, keepdims)


def _nan_spread(
    spread: Callable[..., Array],
    a: ArrayLike,
    axis: Axes,
    dtype: DTypeLike | None,
    ddof: float,
    keepdims: bool,
) -> Array:
    """Reduce by `var` or `std` without NaNs; NaN where at most `ddof` are left."""
    x = as_float(a)
    found = spread(x, axis, dtype, ddof=ddof, keepdims=keepdims, where=_not_nan(x))
    if ddof <= 0:
        return found
    count = reducing.sum(_not_nan(x), axis, keepdims=keepdims)
    return where(less_equal(count, ddof), math.nan, found)


def nanargmax(
    a: ArrayLike, axis: int | None = None, *, keepdims: bool = False
) -> Array:
    """The position (i32) of the first largest number; 0 if all are NaN."""
    return reducing.argmax(without_nan(a, -math.inf), axis, keepdims=keepdims)


def nanargmin(
    a: ArrayLike, axis: int | None = None, *, keepdims: bool = False
) -> Array:
    """The position (i32) of the first smallest number; 0 if all are NaN."""
    return reducing.argmin(without_nan(a, math.inf), axis, keepdims=keepdims)
