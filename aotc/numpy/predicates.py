"""Functions of `aotc.numpy` that tell kinds of numbers apart, and how near they are."""

from __future__ import annotations

import math

from aotc.core import dtypes
from aotc.dialects.types import compare_sizes, minimum
from aotc.numpy.cutting import cut
from aotc.numpy.elementwise import (
    absolute,
    add,
    common_floats,
    equal,
    isnan,
    less,
    less_equal,
    logical_and,
    logical_or,
    multiply,
    subtract,
    where,
)
from aotc.numpy.limits import finfo
from aotc.numpy.reducing import all as every
from aotc.tracing.array import Array
from aotc.tracing.conversion import ArrayLike, as_float, lift, one_dtype

__all__ = [
    "allclose", "array_equal", "isclose", "isfinite", "isinf", "isneginf", "isposinf",
    "nan_to_num",
]  # fmt: skip


def isinf(x: ArrayLike, /) -> Array:
    """Return whether each element is plus or minus infinity."""
    return equal(absolute(as_float(x)), math.inf)


def isposinf(x: ArrayLike, /) -> Array:
    """Return whether each element is plus infinity."""
    return equal(as_float(x), math.inf)


def isneginf(x: ArrayLike, /) -> Array:
    """Return whether each element is minus infinity."""
    return equal(as_float(x), -math.inf)


def isfinite(x: ArrayLike, /) -> Array:
    """Return whether each element is neither NaN nor infinite."""
    return less(absolute(as_float(x)), math.inf)


def nan_to_num(
    x: ArrayLike,
    *,
    nan: float = 0.0,
    posinf: float | None = None,
    neginf: float | None = None,
) -> Array:
    """`x` with numbers for NaN and infinities: the greatest finite ones by default."""
    array = lift(x)
    if not dtypes.is_float(array.dtype):
        return array
    most = float(finfo(array.dtype).max)
    above = where(isposinf(array), most if posinf is None else posinf, array)
    both = where(isneginf(array), -most if neginf is None else neginf, above)
    return where(isnan(array), nan, both)


def isclose(
    a: ArrayLike,
    b: ArrayLike,
    rtol: float = 1e-05,
    atol: float = 1e-08,
    equal_nan: bool = False,
) -> Array:
    """Return whether `|a - b| <= atol + rtol * |b|`; infinities are near themselves
    only.
    """
    x, y = common_floats(a, b)
    distance, bound = absolute(subtract(x, y)), add(multiply(absolute(y), rtol), atol)
    near = logical_and(less_equal(distance, bound), isfinite(y))
    near = logical_or(near, equal(x, y))
    if not equal_nan:
        return near
    return logical_or(near, logical_and(isnan(x), isnan(y)))


def allclose(
    a: ArrayLike,
    b: ArrayLike,
    rtol: float = 1e-05,
    atol: float = 1e-08,
    equal_nan: bool = False,
) -> Array:
    """Return whether all elements are close; see `isclose`."""
    return every(isclose(a, b, rtol, atol, equal_nan))


def array_equal(a1: ArrayLike, a2: ArrayLike, equal_nan: bool = False) -> Array:
    """Return whether two arrays have the same shape and elements."""
    x, y = one_dtype(a1, a2)
    if x.ndim != y.ndim:
        return lift(False)
    pairs = list(zip(x.type.shape, y.type.shape, strict=True))
    answers = [compare_sizes(n, "==", m) for n, m in pairs]
    if False in answers:
        return lift(False)
    # of sizes that each call decides, the elements that both have are compared, too
    for axis, (n, m) in enumerate(pairs):
        x, y = (cut(part, axis, 0, minimum(n, m)) for part in (x, y))
    same = _all_same(x, y, equal_nan)
    for (n, m), answer in zip(pairs, answers, strict=True):
        same = same if answer else logical_and(same, equal(n, m))
    return same


def _all_same(x: Array, y: Array, equal_nan: bool) -> Array:
    """Return whether all elements are equal; NaNs are if `equal_nan`."""
    same = equal(x, y)
    if equal_nan and dtypes.is_float(x.dtype):
        same = logical_or(same, logical_and(isnan(x), isnan(y)))
    return every(same)
