"""Functions of `aotc.special`."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import wraps

from aotc.core import dtypes
from aotc.numpy.elementwise import (
    add,
    common_floats,
    equal,
    greater,
    isnan,
    less,
    logical_and,
    logical_not,
    logical_or,
    multiply,
    negative,
    reciprocal,
    square,
    subtract,
    where,
)
from aotc.numpy.exponential import log, log1p
from aotc.tracing.array import Array
from aotc.tracing.conversion import ArrayLike, as_float, astype, lift
from aotc.tracing.source_locations import fail
from aotc.tracing.tracing import emit

__all__ = [
    "betaln", "digamma", "entr", "erf", "erfc", "erfinv", "expit", "gammaln",
    "log_ndtr", "logit", "ndtr", "ndtri", "polygamma", "psi", "xlog1py", "xlogy",
]  # fmt: skip


def in_f32(function: Callable[..., Array]) -> Callable[..., Array]:
    """Wrap a function of floats to compute in f32 for half-precision dtypes."""

    @wraps(function)
    def wide(*xs: ArrayLike) -> Array:
        arrays = common_floats(*xs)
        dtype = arrays[0].dtype
        if dtypes.bits(dtype) > 16:
            return function(*arrays)
        return astype(function(*(astype(x, "f32") for x in arrays)), dtype)

    return wide


# ---- the error function and the normal distribution ---------------------------------


def erf(x: ArrayLike, /) -> Array:
    """The Gauss error function."""
    return emit("erf", as_float(x))


def erfc(x: ArrayLike, /) -> Array:
    """`1 - erf(x)`, without cancellation."""
    return emit("erfc", as_float(x))


def erfinv(x: ArrayLike, /) -> Array:
    """The inverse of erf; NaN beyond 1."""
    return emit("erfinv", as_float(x))


@in_f32
def ndtr(x: ArrayLike, /) -> Array:
    """The probability that a standard normal number is at most x."""
    return multiply(erfc(multiply(x, -math.sqrt(0.5))), 0.5)


@in_f32
def ndtri(p: ArrayLike, /) -> Array:
    """The inverse of ndtr."""
    return multiply(erfinv(subtract(multiply(p, 2), 1)), math.sqrt(2))


@in_f32
def log_ndtr(x: ArrayLike, /) -> Array:
    """The logarithm of ndtr, without underflow."""
    x = lift(x)
    far, terms = (-20.0, 10) if x.dtype == "f64" else (-8.0, 6)
    is_far, is_above = less(x, far), greater(x, 0)
    outside = _log_ndtr_far_out(where(is_far, x, far), terms)
    near = where(is_far, far, x)
    above = log1p(negative(ndtr(negative(where(is_above, near, 0)))))
    below = log(ndtr(where(is_above, 0, near)))
    return where(is_far, outside, where(is_above, above, below))


def _log_ndtr_far_out(x: Array, terms: int) -> Array:
    """Return log_ndtr of very negative x by an asymptotic series of `terms` terms."""
    inverse = reciprocal(square(x))
    series = multiply(inverse, 0)
    for k in range(terms, 0, -1):
        # each term is the one before it times -(2k - 1) / x**2
        series = multiply(multiply(inverse, 1 - 2 * k), add(series, 1))
    bell = add(multiply(square(x), 0.5), math.log(2 * math.pi) / 2)
    return subtract(log1p(series), add(bell, log(negative(x))))


# ---- logistic -----------------------------------------------------------------------


def expit(x: ArrayLike, /) -> Array:
    """`1 / (1 + e**-x)`."""
    return emit("logistic", as_float(x))


def logit(x: ArrayLike, /) -> Array:
    """`log(x / (1 - x))`, the inverse of expit."""
    x = as_float(x)
    return subtract(log(x), log1p(negative(x)))


# ---- entropy ------------------------------------------------------------------------


def xlogy(x: ArrayLike, y: ArrayLike, /) -> Array:
    """`x * log(y)`, and 0 for x = 0 unless y is NaN; the derivative at (0, 0) is 0."""
    x, y = common_floats(x, y)
    ordinary = logical_and(greater(y, 0), less(y, math.inf))
    return _times_log(log, x, y, ordinary)


def xlog1py(x: ArrayLike, y: ArrayLike, /) -> Array:
    """`x * log(1 + y)`, and 0 for x = 0 unless y is NaN."""
    x, y = common_floats(x, y)
    ordinary = logical_and(greater(y, -1), less(y, math.inf))
    return _times_log(log1p, x, y, ordinary)


def _times_log(
    function: Callable[[Array], Array], x: Array, y: Array, ordinary: Array
) -> Array:
    """Return `x * function(y)`; 0 for x = 0 unless y is NaN, with a finite slope."""
    vanishing = logical_and(equal(x, 0), logical_not(logical_or(ordinary, isnan(y))))
    return multiply(x, function(where(vanishing, 1, y)))


def entr(x: ArrayLike, /) -> Array:
    """`-x * log(x)`, 0 at 0, and minus infinity below."""
    x = as_float(x)
    return where(less(x, 0), -math.inf, negative(xlogy(x, x)))


# ---- gamma --------------------------------------------------------------------------


def gammaln(x: ArrayLike, /) -> Array:
    """The logarithm of `|gamma(x)|`; infinite at 0, -1, -2, …"""
    return emit("lgamma", as_float(x))


def digamma(x: ArrayLike, /) -> Array:
    """The derivative of `gammaln`; NaN at 0, -1, -2, …"""
    return polygamma(0, x)


psi = digamma


def polygamma(n: int, x: ArrayLike) -> Array:
    """The derivative number n of digamma."""
    if not isinstance(n, int) or n < 0:
        fail("bad-order", f"expected an order n, 0 or a greater int; got {n!r}")
    return emit("polygamma", as_float(x), order=n)


@in_f32
def betaln(a: ArrayLike, b: ArrayLike, /) -> Array:
    """The logarithm of `|gamma(a) gamma(b) / gamma(a + b)|`; -inf at infinity."""
    a, b = common_floats(a, b)
    whole = add(a, b)
    found = subtract(add(gammaln(a), gammaln(b)), gammaln(whole))
    return where(equal(whole, math.inf), -math.inf, found)
