"""Functions of `aotc.numpy` around e**x and its inverse, and roots."""

from __future__ import annotations

import math
from collections.abc import Callable

from aotc.numpy.elementwise import (
    add,
    common_floats,
    divide,
    equal,
    greater,
    logical_and,
    negative,
    subtract,
    where,
)
from aotc.numpy.predicates import isinf
from aotc.tracing.array import Array
from aotc.tracing.conversion import ArrayLike, as_float
from aotc.tracing.tracing import emit

__all__ = [
    "cbrt", "exp", "exp2", "expm1", "float_power", "hypot", "log", "log10", "log1p",
    "log2", "logaddexp", "logaddexp2", "rsqrt",
]  # fmt: skip


def exp(x: ArrayLike, /) -> Array:
    """`e ** x`."""
    return emit("exp", as_float(x))


def expm1(x: ArrayLike, /) -> Array:
    """`e ** x - 1`, without cancellation."""
    return emit("expm1", as_float(x))


def exp2(x: ArrayLike, /) -> Array:
    """`2 ** x`, exact for whole x."""
    return emit("exp2", as_float(x))


def log(x: ArrayLike, /) -> Array:
    """Return the natural logarithm."""
    return emit("log", as_float(x))


def log1p(x: ArrayLike, /) -> Array:
    """`ln(1 + x)`, without cancellation."""
    return emit("log1p", as_float(x))


def log2(x: ArrayLike, /) -> Array:
    """The logarithm to base 2."""
    return divide(log(x), math.log(2))


def log10(x: ArrayLike, /) -> Array:
    """The logarithm to base 10."""
    return divide(log(x), math.log(10))


def rsqrt(x: ArrayLike, /) -> Array:
    """`1 / sqrt(x)`, in one operation (JAX's; NumPy has none)."""
    return emit("rsqrt", as_float(x))


def cbrt(x: ArrayLike, /) -> Array:
    """The cube root, of negative numbers as well."""
    return emit("cbrt", as_float(x))


def hypot(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """`sqrt(x1**2 + x2**2)`, without overflow."""
    return emit("hypot", *common_floats(x1, x2))


def float_power(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """`x1 ** x2` in floats, so that integers have negative powers."""
    return emit("power", *common_floats(x1, x2))


def logaddexp(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """`log(exp(x1) + exp(x2))`, without overflow."""
    return _log_add(x1, x2, lambda gap: log1p(exp(gap)))


def logaddexp2(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """`log2(2**x1 + 2**x2)`, without overflow."""
    return _log_add(x1, x2, lambda gap: divide(log1p(exp2(gap)), math.log(2)))


def _log_add(x1: ArrayLike, x2: ArrayLike, rest: Callable[[Array], Array]) -> Array:
    """Return the larger operand plus `rest` of (smaller - larger).

    With selections, whose derivatives of every order are right at a tie as well: those
    of `maximum` and `absolute` are not.
    """
    x, y = common_floats(x1, x2)
    first = greater(x, y)
    gap = where(first, subtract(y, x), subtract(x, y))
    endless = logical_and(equal(x, y), isinf(x))
    return add(where(first, x, y), rest(where(endless, 0, gap)))


def softplus(x: ArrayLike) -> Array:
    """`log(1 + e**x)`, without overflow."""
    x = as_float(x)
    above = greater(x, 0)
    rest = log1p(exp(where(above, negative(x), x)))
    return add(where(above, x, 0), rest)
