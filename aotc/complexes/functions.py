"""Functions of complex numbers, from real ones of their parts.

Branch cuts are those of C99, on both sides of zero. Absolute values, logarithms,
square roots and, up to half of the greatest number, quotients are computed without
overflow in between. Products are not, nor what is made of them, inverse trigonometric
and hyperbolic functions and powers included: these may be NaN where the square of
`|z|` is more than the dtype holds, as may exponentials, sines and cosines where one
of the two factors of a part is infinite and the other one 0. Results for infinities
are those of C99 only for absolute values, logarithms, and exponentials with an angle
of 0. Where no source is named, the formula is the definition by real functions.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from aotc import numpy as np
from aotc.complexes.pairs import (
    Complex,
    ComplexLike,
    absolute,
    angle,
    as_complex,
    conj,
    exp,
    length_of,
    polar,
    times_sine,
)
from aotc.tracing.array import Array

_MOST_FACTORS = 64  # of powers that are computed as products

# ---- logarithms and powers ----------------------------------------------------------


def log(z: Complex) -> Complex:
    """The natural logarithm; the cut is the negative axis."""
    return Complex(_log_size(z, np.log), angle(z))


def log2(z: Complex) -> Complex:
    """The logarithm to the base 2."""
    return Complex(_log_size(z, np.log2), angle(z) / math.log(2))


def log10(z: Complex) -> Complex:
    """The logarithm to the base 10."""
    return Complex(_log_size(z, np.log10), angle(z) / math.log(10))


def _log_size(z: Complex, log: Callable[[Array], Array]) -> Array:
    """Return `log(|z|)` where `|z|` itself may overflow its dtype."""
    length = length_of(z)
    return log(length.most) + 0.5 * log(length.square)


def log1p(z: Complex) -> Complex:
    """`log(1 + z)`: by `|1 + z|**2 - 1 = x (x + 2) + y**2` where that is small."""
    above = z.real * (z.real + 2.0) + z.imag * z.imag
    moved = _plus(z, 1.0)
    # near -1 the sum has lost digits; far from it, it may overflow
    small = np.logical_and(above >= -0.5, above <= 4.0)
    near = 0.5 * np.log1p(np.where(small, above, 0.0))
    return Complex(np.where(small, near, _log_size(moved, np.log)), angle(moved))


def expm1(z: Complex) -> Complex:
    """`exp(z) - 1`: `(e**x - 1) cos y + (cos y - 1)` and `e**x sin y`."""
    half = np.sin(z.imag * 0.5)
    real = np.expm1(z.real) * np.cos(z.imag) - 2.0 * half * half
    return Complex(real, exp(z).imag)


def exp2(z: Complex) -> Complex:
    """`2**z`."""
    return polar(np.exp2(z.real), z.imag * math.log(2))


def expit(z: Complex) -> Complex:
    """The logistic function `1 / (1 + exp(-z))`, without overflow."""
    right = z.real >= 0.0
    small = exp(z.map(lambda part: np.where(right, -part, part)))
    above = small.map(lambda part: np.where(right, 0.0, part))
    return _plus(above, np.astype(right, z.dtype)) / _plus(small, 1.0)


def square(z: Complex) -> Complex:
    """`z * z`."""
    return z * z


def sqrt(z: Complex) -> Complex:
    """The square root with a real part of 0 or more."""
    # signs as factors: the derivative of an absolute value at 0 would be 0
    right, up = z.real >= 0.0, _sign_of(z.imag)
    # a power of 4, so that nothing overflows and no digit is lost
    big = np.maximum(np.abs(z.real), np.abs(z.imag)) > 1.0
    w = z.map(lambda part: np.where(big, part * 0.0625, part))
    root = np.sqrt((absolute(w) + np.where(right, w.real, -w.real)) * 0.5)
    larger = np.where(big, 4.0 * root, root)
    # an infinite imaginary part is that of the root, whatever the real one is
    tall = np.isinf(z.imag)
    divisor = np.where(np.logical_or(larger == 0.0, tall), 1.0, 2.0 * larger)
    smaller = z.imag / divisor
    return Complex(
        np.where(right, larger, up * smaller), np.where(right, smaller, up * larger)
    )


def rsqrt(z: Complex) -> Complex:
    """`1 / sqrt(z)`."""
    return 1.0 / sqrt(z)


def cbrt(z: Complex) -> Complex:
    """The cube root with the smallest angle."""
    return polar(np.cbrt(absolute(z)), angle(z) * (1.0 / 3.0))


def power(z: Complex, w: ComplexLike) -> Complex:
    """`z**w`: products for small whole numbers w, else `exp(w log z)`; 0**0 is 1.

    Args:
        z: the base.
        w: the exponent: a Complex, an array, or a number of Python's.
    """
    # the size first: an infinity or a NaN has no int
    if isinstance(w, int | float) and abs(w) <= _MOST_FACTORS and w == int(w):
        return _product_of(z, int(w)) if w >= 0 else 1.0 / _product_of(z, int(-w))
    exponent = as_complex(w, z.dtype)
    zero, none = _is_zero(z), _is_zero(exponent)
    found = exp(exponent * log(_plus(z, np.astype(zero, z.dtype))))
    return Complex(
        np.where(zero, np.astype(none, z.dtype), found.real),
        np.where(zero, 0.0, found.imag),
    )


def _product_of(z: Complex, count: int) -> Complex:
    """Return `z**count` for a whole number, by repeated squaring."""
    if count == 0:
        return Complex(np.ones_like(z.real), np.zeros_like(z.imag))
    if count == 1:
        return z
    half = _product_of(z, count // 2)
    return half * half * z if count % 2 else half * half


# ---- trigonometric and hyperbolic functions -----------------------------------------


def sin(z: Complex) -> Complex:
    """The sine."""
    return Complex(
        times_sine(np.cosh(z.imag), z.real), np.cos(z.real) * np.sinh(z.imag)
    )


def cos(z: Complex) -> Complex:
    """The cosine."""
    return Complex(
        np.cos(z.real) * np.cosh(z.imag), -times_sine(np.sinh(z.imag), z.real)
    )


def tan(z: Complex) -> Complex:
    """The tangent."""
    return _over_i(tanh(_times_i(z)))


def sinh(z: Complex) -> Complex:
    """The hyperbolic sine."""
    return _over_i(sin(_times_i(z)))


def cosh(z: Complex) -> Complex:
    """The hyperbolic cosine."""
    return cos(_times_i(z))


def tanh(z: Complex) -> Complex:
    """The hyperbolic tangent, from tanh and tan of the parts, which do not overflow."""
    t, u, c = np.tanh(z.real), np.tan(z.imag), np.cosh(z.real)
    scale = 1.0 + (t * u) * (t * u)
    return Complex(t * (1.0 + u * u) / scale, u / (c * c) / scale)


# Inverse functions, by square roots: Hull, Fairgrieve and Tang, Implementing the
# complex arcsine and arccosine functions using exception handling, ACM TOMS 23 (1997).


def arcsin(z: Complex) -> Complex:
    """The inverse of `sin`; the cuts are the real axis beyond -1 and 1."""
    left, right = sqrt(_one_minus(z)), sqrt(_plus(z, 1.0))
    real = np.arctan2(z.real, (left * right).real)
    return Complex(real, np.arcsinh((conj(left) * right).imag))


def arccos(z: Complex) -> Complex:
    """The inverse of `cos`; the cuts are the real axis beyond -1 and 1."""
    left, right = sqrt(_one_minus(z)), sqrt(_plus(z, 1.0))
    real = 2.0 * np.arctan2(left.real, right.real)
    return Complex(real, np.arcsinh((conj(right) * left).imag))


def arctan(z: Complex) -> Complex:
    """The inverse of `tan`; the cuts are the imaginary axis beyond -i and i."""
    return _over_i(arctanh(_times_i(z)))


def arcsinh(z: Complex) -> Complex:
    """The inverse of `sinh`; the cuts are the imaginary axis beyond -i and i."""
    return _over_i(arcsin(_times_i(z)))


def arccosh(z: Complex) -> Complex:
    """The inverse of `cosh`; the cut is the real axis below 1."""
    left, right = sqrt(_plus(z, -1.0)), sqrt(_plus(z, 1.0))
    real = np.arcsinh((conj(left) * right).real)
    return Complex(real, 2.0 * np.arctan2(left.imag, right.real))


def arctanh(z: Complex) -> Complex:
    """The inverse of `tanh`; the cuts are the real axis beyond -1 and 1."""
    up, size = _sign_of(z.real), absolute(z)
    is_far = size > 1e18  # where squares overflow, and the tangent is 1 / z
    x = np.where(is_far, 0.0, up * z.real)
    y = np.where(is_far, 0.0, z.imag)
    real = 0.25 * np.log1p(4.0 * x / ((1.0 - x) * (1.0 - x) + y * y))
    imag = 0.5 * np.arctan2(2.0 * y, (1.0 - x) * (1.0 + x) - y * y)
    length = np.where(is_far, size, 1.0)
    far_real = np.where(np.isinf(size), 0.0, up * z.real / length / length)
    far_imag = np.copysign(np.full_like(imag, math.pi / 2), z.imag)
    return Complex(
        up * np.where(is_far, far_real, real), np.where(is_far, far_imag, imag)
    )


def arctan2(y: Complex, x: Complex) -> Complex:
    """The angle of y over x, continued: `-i log((x + i y) / sqrt(x**2 + y**2))`."""
    return _over_i(log((x + _times_i(y)) / sqrt(x * x + y * y)))


def _sign_of(x: Array) -> Array:
    """Return 1 or -1, by the sign bit, so for zeros too."""
    return np.copysign(np.ones_like(x), x)


def _times_i(z: Complex) -> Complex:
    """Return `i * z`."""
    return Complex(-z.imag, z.real)


def _over_i(z: Complex) -> Complex:
    """Return `z / i`."""
    return Complex(z.imag, -z.real)


def _plus(z: Complex, x: Array | float) -> Complex:
    """Return `z + x` for a real x; keeps the sign of an imaginary zero."""
    return Complex(z.real + x, z.imag)


def _one_minus(z: Complex) -> Complex:
    """Return `1 - z`; an imaginary zero has the opposite sign of that of z."""
    return Complex(1.0 - z.real, -z.imag)


# ---- signs and comparisons ----------------------------------------------------------


def sign(z: Complex) -> Complex:
    """`z / |z|`, and 0 for 0."""
    size = absolute(z)
    zero = size == 0.0
    return z.map(lambda part: np.where(zero, 0.0, part / np.where(zero, 1.0, size)))


def equal(z: Complex, w: Complex) -> Array:
    """Return whether both parts are equal, elementwise; complex numbers have no
    order.
    """
    return np.logical_and(z.real == w.real, z.imag == w.imag)


def _is_zero(z: Complex) -> Array:
    """Return a mask of the elements with both parts 0."""
    return np.logical_and(z.real == 0.0, z.imag == 0.0)


def not_equal(z: Complex, w: Complex) -> Array:
    """Return whether one of the two parts differs, elementwise."""
    return np.logical_not(equal(z, w))
