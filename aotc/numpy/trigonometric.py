"""Trigonometric and hyperbolic functions of `aotc.numpy`, and their inverses.

The formulas lose no digits near zeros and do not overflow before the result does.
"""

from __future__ import annotations

import math

from aotc.numpy.elementwise import (
    absolute,
    add,
    common_floats,
    divide,
    equal,
    less,
    multiply,
    negative,
    sqrt,
    square,
    subtract,
    where,
)
from aotc.numpy.exponential import expm1, log1p
from aotc.tracing.array import Array
from aotc.tracing.conversion import ArrayLike, as_float
from aotc.tracing.tracing import emit

__all__ = [
    "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctan2", "arctanh", "cos",
    "cosh", "deg2rad", "rad2deg", "sin", "sinc", "sinh", "tan", "tanh",
]  # fmt: skip

# ---- of an angle --------------------------------------------------------------------


def sin(x: ArrayLike, /) -> Array:
    """The sine of x radians."""
    return emit("sin", as_float(x))


def cos(x: ArrayLike, /) -> Array:
    """The cosine of x radians."""
    return emit("cos", as_float(x))


def tan(x: ArrayLike, /) -> Array:
    """`sin x / cos x`."""
    return divide(sin(x), cos(x))


def sinc(x: ArrayLike) -> Array:
    """`sin(pi x) / (pi x)`, and 1 at 0."""
    angle = multiply(as_float(x), math.pi)
    small = less(absolute(angle), 0.01)
    ratio = where(small, 1, angle)
    ratio = divide(sin(ratio), ratio)
    power = square(angle)
    series = add(multiply(power, subtract(divide(power, 120), 1 / 6)), 1)
    return where(small, series, ratio)


def deg2rad(x: ArrayLike, /) -> Array:
    """Convert degrees to radians."""
    return multiply(as_float(x), math.pi / 180)


def rad2deg(x: ArrayLike, /) -> Array:
    """Convert radians to degrees."""
    return multiply(as_float(x), 180 / math.pi)


# ---- angles -------------------------------------------------------------------------


def arctan2(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """The angle of the point (x2, x1), in [-pi, pi]."""
    return emit("atan2", *common_floats(x1, x2))


def arctan(x: ArrayLike, /) -> Array:
    """The angle in [-pi/2, pi/2] with tangent x."""
    return arctan2(x, 1)


def arcsin(x: ArrayLike, /) -> Array:
    """The angle in [-pi/2, pi/2] with sine x; NaN beyond 1."""
    x = as_float(x)
    return arctan2(x, _sqrt_one_minus_square(x))


def arccos(x: ArrayLike, /) -> Array:
    """The angle in [0, pi] with cosine x; NaN beyond 1."""
    x = as_float(x)
    return arctan2(_sqrt_one_minus_square(x), x)


def _sqrt_one_minus_square(x: Array) -> Array:
    """Return `sqrt(1 - x**2)` as a product of two roots, without NaN slopes at ±1."""
    return multiply(sqrt(subtract(1, x)), sqrt(add(x, 1)))


# ---- hyperbolic ---------------------------------------------------------------------


def sinh(x: ArrayLike, /) -> Array:
    """The hyperbolic sine: (e**h - e**-h) (e**h + e**-h) / 2 with h = x / 2."""
    above, below = _half_expm1(x)
    return multiply(multiply(subtract(above, below), 0.5), add(add(above, below), 2))


def cosh(x: ArrayLike, /) -> Array:
    """The hyperbolic cosine: (e**2h + e**-2h) / 2 with h = x / 2."""
    above, below = (add(part, 1) for part in _half_expm1(x))
    return add(*(multiply(multiply(part, 0.5), part) for part in (above, below)))


def _half_expm1(x: ArrayLike) -> tuple[Array, Array]:
    """Return `expm1(x / 2)` and `expm1(-x / 2)`."""
    half = multiply(as_float(x), 0.5)
    return expm1(half), expm1(negative(half))


def tanh(x: ArrayLike, /) -> Array:
    """Return the hyperbolic tangent."""
    return emit("tanh", as_float(x))


def arcsinh(x: ArrayLike, /) -> Array:
    """The inverse of sinh."""
    return emit("asinh", as_float(x))


def arccosh(x: ArrayLike, /) -> Array:
    """The inverse of cosh on [0, inf]; NaN below 1.

    `2 ln(sqrt(u) + sqrt(u + 1))` with u = (x - 1) / 2, as a log1p (W. Kahan, Branch
    cuts for complex elementary functions, 1987).
    """
    x = as_float(x)
    u = multiply(subtract(where(equal(x, math.inf), 1, x), 1), 0.5)
    beyond = divide(u, add(sqrt(add(u, 1)), 1))
    value = multiply(log1p(add(sqrt(u), beyond)), 2)
    return where(equal(x, math.inf), x, value)


def arctanh(x: ArrayLike, /) -> Array:
    """The inverse of tanh; NaN beyond 1."""
    x = as_float(x)
    return multiply(subtract(log1p(x), log1p(negative(x))), 0.5)
