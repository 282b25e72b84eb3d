"""Functions of floats that have the same bits in NumPy and on every target.

Note [Exact functions]
Sums and single products are rounded correctly everywhere; little else is:

- `x * y + z` is one rounding on x86-64, aarch64 and riscv64 (IREE marks both ops as
  contractible), two in NumPy and on cuda and rocm, and either in a Vulkan or Metal
  driver.
- Square roots are approximate on cuda, divisions on Vulkan and Metal, and exp, log and
  the like differ in the last bits everywhere.

So what follows is made of sums, products, selections and bit patterns alone, and a
minimum stands between a product and a sum (`product`): no compiler can tell that its
bound is never reached, so none can take the two for one. 64-bit fixed point would do,
too, but Vulkan phones have no such integers. What is exact here is that all results
agree; the distance to the true value is a few units in the last place.

Arguments are arrays of f32 or f64. Derivatives follow from the sums and products.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from aotc import numpy as np
from aotc.dialects.lowering.coefficients import ERFC
from aotc.tracing.array import Array
from aotc.tracing.tracing import emit

_NEVER = 2.0**100  # larger than any product here


@dataclass(frozen=True)
class _SeriesConstants:
    """Constants of a dtype: its bits, and the number of terms that series need."""

    bits: str
    fraction: int  # width of the fraction
    bias: int  # of the exponent
    least: int  # exponent of the smallest result of `exp`: denormals may become zero
    guess: int  # bits of x -> guess - bits / 2 are near those of 1 / sqrt(x)
    steps: int  # of Newton's method from that guess
    artanh: int  # terms
    exp: int
    circular: int
    erfc: int


_F32 = _SeriesConstants("i32", 23, 127, -100, 0x5F3759DF, 3, 5, 8, 6, 13)
_F64 = _SeriesConstants(
    "i64", 52, 1023, -1000, 0x5FE6EB50C7B537A9, 4, 11, 14, 9, len(ERFC)
)
_FORMATS = {"f32": _F32, "f64": _F64}


def product(x: Array, y: Array | float) -> Array:
    """`x * y`, rounded before it is added to anything; see Note [Exact functions]."""
    return np.minimum(x * y, _NEVER)


def total(x: Array, axis: int) -> Array:
    """Return the sum over an axis of fixed size, in a fixed order: by halves."""
    parts = np.moveaxis(x, axis, 0)
    while len(parts) > 1:
        half = len(parts) // 2
        odd = parts[2 * half :]
        parts = parts[:half] + parts[half : 2 * half]
        parts = np.concatenate([parts, odd]) if len(odd) else parts
    return parts[0]


def running(function: Callable[[Array, Array], Array], x: Array, unit: float) -> Array:
    """Return cumulative sums or products along the last axis, in a fixed order.

    By doubling (Hillis and Steele 1986): scans choose their order. `unit` changes
    nothing that `function` joins it with.
    """
    size, before = len(np.moveaxis(x, -1, 0)), [(0, 0)] * (x.ndim - 1)
    for step in (1 << i for i in range((size - 1).bit_length())):
        moved = np.pad(x, [*before, (step, 0)], constant_values=unit)[..., :size]
        x = function(x, moved)
    return x


def first(x: Array, accepted: Array) -> Array:
    """Select the first accepted element along the last axis, or the first if none."""
    first = np.argmax(np.astype(accepted, "i32"), -1)
    place = emit("iota", shape=x.shape, axis=x.ndim - 1, dtype="i32")
    return np.sum(np.where(place == np.expand_dims(first, -1), x, 0.0), -1)


def polynomial(x: Array, coefficients: Sequence[float]) -> Array:
    """Evaluate a polynomial by Horner's scheme, highest power first."""
    value = np.full_like(x, coefficients[0])
    for coefficient in coefficients[1:]:
        value = product(value, x) + coefficient
    return value


# ---- algebra ------------------------------------------------------------------------


def rsqrt(x: Array) -> Array:
    """Return `1 / sqrt(x)` of positive x by Newton's method."""
    form = _FORMATS[x.dtype]
    bits = emit("bitcast", x, dtype=form.bits)
    guess = emit("bitcast", form.guess - (bits >> 1), dtype=x.dtype)
    half = x * 0.5
    for _ in range(form.steps):
        guess = guess * (1.5 - product(half * guess, guess))
    return np.minimum(guess, _NEVER)


def sqrt(x: Array) -> Array:
    """The square root of x >= 0."""
    return product(x, rsqrt(x))


def quotient(x: Array, y: Array) -> Array:
    """`x / y` of positive y."""
    root = rsqrt(y)
    return product(x, root * root)


# ---- logarithm and exponential ------------------------------------------------------

Logarithmic = tuple[Array, Array]


def logarithmic(x: Array) -> Logarithmic:
    """Split positive x into fraction f and exponent e with x = (1 + f) 2**e."""
    form = _FORMATS[x.dtype]
    bits = emit("bitcast", x, dtype=form.bits)
    exponent = (bits - _bits_of_root_half(form)) >> form.fraction
    return x * _power_of_two(-exponent, x.dtype) - 1.0, np.astype(exponent, x.dtype)


def logarithmic_complement(x: Array) -> Logarithmic:
    """Return 1 - x in the form of `logarithmic`, for x up to 1/2."""
    near = np.less(x, 1 - math.sqrt(0.5))
    return np.where(near, -x, 1.0 - 2.0 * x), np.astype(near, x.dtype) - 1.0


def _bits_of_root_half(form: _SeriesConstants) -> int:
    """Return the bit pattern of sqrt(1/2), with f32's digits."""
    fraction = round((math.sqrt(2) - 1) * 2**23)
    return ((form.bias - 1) << form.fraction) + (fraction << (form.fraction - 23))


def _power_of_two(exponent: Array, dtype: str) -> Array:
    """Return 2**exponent as a float of a dtype, by its bit pattern."""
    form = _FORMATS[dtype]
    return emit("bitcast", (exponent + form.bias) << form.fraction, dtype=dtype)


_LN2_HIGH = 0.693145751953125  # 16 bits
_LN2_LOW = math.log(2) - _LN2_HIGH


def log_of(parts: Logarithmic) -> Array:
    """Return the logarithm of a number in the form of `logarithmic`."""
    f, e = parts
    s = quotient(f, f + 2.0)
    square = product(s, s)
    count = _FORMATS[f.dtype].artanh
    series = polynomial(square, [1 / (2 * n + 1) for n in range(count, 0, -1)])
    small = product(2.0 * s * square, series) + product(e, _LN2_LOW)
    return (small + 2.0 * s) + product(e, _LN2_HIGH)


def log(x: Array) -> Array:
    """The natural logarithm of positive x; denormals are not supported."""
    return log_of(logarithmic(x))


def exp(x: Array) -> Array:
    """`e**x`, between 2**-100 (f64: 2**-1000) and 2**100: 2**n times a series."""
    form = _FORMATS[x.dtype]
    x = np.minimum(np.maximum(x, form.least * math.log(2)), 100 * math.log(2))
    n = np.floor(product(x, 1 / math.log(2)) + 0.5)
    rest = (x - product(n, _LN2_HIGH)) - product(n, _LN2_LOW)
    terms = [1 / math.factorial(k) for k in range(form.exp - 1, -1, -1)]
    scale = _power_of_two(np.astype(n, form.bits), x.dtype)
    return product(polynomial(rest, terms), scale)


def deviance(x: Array, mean: Array) -> Array:
    """`x ln(x / mean) - x + mean` of positive numbers, without cancellation.

    Loader, "Fast and accurate computation of binomial probabilities", 2000.
    """
    gap = x - mean
    s = quotient(gap, x + mean)
    square = product(s, s)
    count = _FORMATS[x.dtype].artanh
    series = polynomial(square, [1 / (2 * n + 1) for n in range(count, 0, -1)])
    near = product(gap, s) + product(product(2.0 * x, s), product(square, series))
    far = product(x, log(x) - log(mean)) - gap
    return np.where(np.absolute(s) < 0.15, near, far)


# ---- circles ------------------------------------------------------------------------


def cotangent(x: Array) -> Array:
    """cot(pi x) for 0 < x < 1/2, by the series of sine and cosine up to pi/4."""
    near = np.less(x, 0.25)
    angle = product(np.where(near, x, 0.5 - x), math.pi)
    square = product(angle, angle)
    terms = range(_FORMATS[x.dtype].circular - 1, -1, -1)
    odd = [(-1) ** n / math.factorial(2 * n + 1) for n in terms]
    even = [(-1) ** n / math.factorial(2 * n) for n in terms]
    sine, cosine = product(angle, polynomial(square, odd)), polynomial(square, even)
    return quotient(np.where(near, cosine, sine), np.where(near, sine, cosine))


# ---- the normal distribution --------------------------------------------------------


def normal_tail(x: Array) -> Array:
    """The probability that a standard normal number is below x <= 0."""
    size = product(np.absolute(x), math.sqrt(0.5))
    form = _FORMATS[x.dtype]
    t = quotient(size - 3.75, size + 3.75)
    series = _chebyshev(t, ERFC[: form.erfc])
    decay = exp(product(x, x) * -0.5)
    return product(decay * 0.5, quotient(series, 2.0 * size + 1.0))


def _chebyshev(t: Array, coefficients: Sequence[float]) -> Array:
    """Evaluate a Chebyshev series at t by Clenshaw's recurrence."""
    ahead = behind = np.full_like(t, 0.0)
    for coefficient in reversed(coefficients[1:]):
        ahead, behind = (product(t + t, ahead) + coefficient) - behind, ahead
    return (product(t, ahead) - behind) + coefficients[0]


# Numerators and denominators of the normal quantile, highest power first: near the
# centre, in the tail, and far out. Wichura, "Algorithm AS 241: the percentage points of
# the normal distribution", Applied Statistics 37 (1988) 477: PPND7 and PPND16.
_QUANTILE = {
    "f32": (
        ([59.10937472, 159.29113202, 50.434271938, 3.3871327179],
         [67.1875636, 78.757757664, 17.895169469, 1.0]),
        ([0.17023821103, 1.3067284816, 2.75681539, 1.4234372777],
         [0.12021132975, 0.7370016425, 1.0]),
        ([0.017337203997, 0.42868294337, 3.081226386, 6.657905115],
         [0.012258202635, 0.24197894225, 1.0]),
    ),
    "f64": (
        ([2509.0809287301226727, 33430.575583588128105, 67265.770927008700853,
          45921.953931549871457, 13731.693765509461125, 1971.5909503065514427,
          133.14166789178437745, 3.387132872796366608],
         [5226.495278852854561, 28729.085735721942674, 39307.89580009271061,
          21213.794301586595867, 5394.1960214247511077, 687.1870074920579083,
          42.313330701600911252, 1.0]),
        ([7.7454501427834140764e-4, 0.0227238449892691845833, 0.24178072517745061177,
          1.27045825245236838258, 3.64784832476320460504, 5.7694972214606914055,
          4.6303378461565452959, 1.42343711074968357734],
         [1.05075007164441684324e-9, 5.475938084995344946e-4, 0.0151986665636164571966,
          0.14810397642748007459, 0.68976733498510000455, 1.6763848301838038494,
          2.05319162663775882187, 1.0]),
        ([2.01033439929228813265e-7, 2.71155556874348757815e-5,
          0.0012426609473880784386, 0.026532189526576123093, 0.29656057182850489123,
          1.7848265399172913358, 5.4637849111641143699, 6.6579046435011037772],
         [2.04426310338993978564e-15, 1.4215117583164458887e-7,
          1.8463183175100546818e-5, 7.868691311456132591e-4, 0.0148753612908506148525,
          0.13692988092273580531, 0.59983220655588793769, 1.0]),
    ),
}  # fmt: skip


def normal_quantile(tail: Array) -> Array:
    """Return the x >= 0 that a standard normal exceeds with probability `tail` <=
    1/2.
    """
    centre, near, far = _QUANTILE[tail.dtype]
    q = 0.5 - tail
    inner = product(q, _rational(0.180625 - product(q, q), *centre))
    r = sqrt(-log(tail))
    outer = np.where(
        np.less(r, 5.0), _rational(r - 1.6, *near), _rational(r - 5.0, *far)
    )
    return np.where(np.less(q, 0.425), inner, outer)


def _rational(x: Array, above: Sequence[float], below: Sequence[float]) -> Array:
    """Return the quotient of two polynomials at x."""
    return quotient(polynomial(x, above), polynomial(x, below))
