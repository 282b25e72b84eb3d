"""Scalar bodies of the error function and its kin, with their references in NumPy.

Each is a Chebyshev series of what is left when the steep part is divided out; the
tables are in `coefficients`.
"""

import functools
import math as pymath
from typing import Any

import numpy as np

from aotc.dialects.lowering import coefficients
from aotc.dialects.lowering.approximations import chebyshev
from aotc.dialects.lowering.scalars import (
    constant,
    float_compare,
    in_f32,
    polynomial,
    with_sign,
)
from aotc.mlir import Value, arith, ir, math

_ERF_STEP, _ERF_END = 1 / 2048, 6.0  # beyond the end it is 1 in f64
_PART = 1 << 14  # elements whose Taylor series stay in the processor's caches


@functools.cache
def _erf_table() -> np.ndarray:
    """Return erf and its Taylor coefficients at multiples of `_ERF_STEP`, row by row.

    Derivatives of erf are Hermite polynomials times its first one (Abramowitz and
    Stegun, 1964, 7.1.19); a fifth power would be below 1e-19 within half a step.
    """
    count = int(_ERF_END / _ERF_STEP)
    x = np.arange(-count, count + 1) * _ERF_STEP
    slope = 2 / np.sqrt(np.pi) * np.exp(-x * x)
    value = [pymath.erf(each) for each in x.tolist()]
    hermite = np.ones_like(x), -x, (2 * x**2 - 1) / 3, (3 * x - 2 * x**3) / 6
    return np.stack([value, *(slope * each for each in hermite)])


def erf_numpy(x: np.ndarray) -> Any:
    """Return erf of an array, by Taylor series about values of the C library.

    Within three units in the last place of f64.
    """
    flat = np.reshape(x, -1)
    found = np.empty_like(flat)
    for start in range(0, flat.size, _PART):
        part = slice(start, start + _PART)
        found[part] = _erf_of_part(flat[part])
    return found.reshape(x.shape)


def _erf_of_part(x: np.ndarray) -> Any:
    """Return erf of a short vector by the table of Taylor series."""
    wide = np.clip(x.astype(np.float64), -_ERF_END, _ERF_END)
    steps = np.rint(wide / _ERF_STEP)
    offset = wide - steps * _ERF_STEP
    table = _erf_table()
    middle = table.shape[1] // 2
    place = np.fmax(steps, -middle).astype(np.intp) + middle  # of NaN, any
    value, *powers = table.take(place, axis=1)
    total = np.zeros_like(offset)
    for each in reversed(powers):
        total = (total + each) * offset
    return (value + total).astype(x.dtype)


def erfc_numpy(x: np.ndarray) -> Any:
    """Return erfc of an array by the C library, one element at a time."""
    return np.vectorize(pymath.erfc, otypes=[np.float64])(x).astype(x.dtype)


def erfinv_numpy(x: np.ndarray) -> Any:
    """Return the inverse of erf of an array: the normal quantile, a Newton step."""
    return np.vectorize(_erfinv, otypes=[np.float64])(x).astype(x.dtype)


def _erfinv(x: float) -> float:
    """Return the inverse of erf of one float."""
    from statistics import NormalDist  # 2 ms, which only this reference needs

    size = abs(float(x))
    if not size < 1:
        return pymath.copysign(pymath.inf if size == 1 else pymath.nan, x)
    y = -NormalDist().inv_cdf((1 - size) / 2) / pymath.sqrt(2)
    excess = pymath.erf(y) - size if size < 0.5 else (1 - size) - pymath.erfc(y)
    y -= excess * pymath.sqrt(pymath.pi) / 2 * pymath.exp(y * y)
    return pymath.copysign(y, x)


def gelu_exact(x: Value) -> Value:
    """Emit x/2 (1 + erf(x / sqrt 2))."""
    scaled = arith.mulf(x, constant(x.type, pymath.sqrt(0.5)))
    value = erf(scaled)
    return arith.mulf(
        arith.mulf(constant(x.type, 0.5), x), arith.addf(constant(x.type, 1.0), value)
    )


def _erf_series() -> list[float]:
    """Return coefficients of erf(x)/x in x**2, highest first; 2e-17 at |x| = 0.5."""
    terms = [(-1) ** n / (pymath.factorial(n) * (2 * n + 1)) for n in range(14)]
    return [2 / pymath.sqrt(pymath.pi) * term for term in reversed(terms)]


def erf(x: Value) -> Value:
    """Emit erf; in f64 as a Taylor series below 0.5, and 1 - erfc above."""
    if not isinstance(x.type, ir.F64Type):
        return math.erf(x)
    size = math.absf(x)
    small = arith.mulf(x, polynomial(arith.mulf(x, x), _erf_series()))
    tail = arith.subf(constant(x.type, 1.0), _erfc_of_magnitude(size))
    is_small = float_compare("OLT", size, constant(x.type, 0.5))
    return arith.select(is_small, small, with_sign(tail, x))


@in_f32
def erfc(x: Value) -> Value:
    """Emit 1 - erf x, without cancellation for positive x."""
    tail = _erfc_of_magnitude(math.absf(x))
    beyond = arith.subf(constant(x.type, 2.0), tail)
    negative = float_compare("OLT", x, constant(x.type, 0.0))
    return arith.select(negative, beyond, tail)


def _erfc_of_magnitude(size: Value) -> Value:
    """Emit erfc for x >= 0 by a Chebyshev series.

    The series is of (1 + 2x) exp(x**2) erfc(x), which is smooth in (x - 3.75) / (x +
    3.75).

    The form of Shepherd and Laframboise, Mathematics of Computation 36 (1981) 249.
    """
    one = constant(size.type, 1.0)
    x = arith.minimumf(size, constant(size.type, 30.0))  # erfc is 0 from there
    k = constant(size.type, 3.75)
    t = arith.divf(arith.subf(x, k), arith.addf(x, k))
    series = chebyshev(t, coefficients.ERFC)
    square = arith.mulf(x, x)
    lost = math.fma(x, x, arith.negf(square))  # by rounding
    decay = arith.mulf(math.exp(arith.negf(square)), arith.subf(one, lost))
    scale = math.fma(constant(x.type, 2.0), x, one)
    return arith.divf(arith.mulf(decay, series), scale)


@in_f32
def erfinv(x: Value) -> Value:
    """Emit the inverse of erf: its ratio to x is smooth in w = -log(1 - x**2).

    The variable of Giles, GPU Computing Gems Jade Edition (2011) chapter 10.
    """
    one = constant(x.type, 1.0)
    product = arith.mulf(arith.subf(one, x), arith.addf(one, x))
    w = arith.negf(math.log(product))
    s = math.sqrt(w)
    ratio = _between(w, 0.0, 6.25, coefficients.ERFINV_CENTRE)
    beyond = _between(s, 2.5, 4.0, coefficients.ERFINV_SLOPE)
    ratio = arith.select(_above(w, 6.25), beyond, ratio)
    if isinstance(x.type, ir.F64Type):  # in f32, sqrt(w) reaches 4 only at x = 1
        beyond = _between(s, 4.0, 6.25, coefficients.ERFINV_TAIL)
        ratio = arith.select(_above(s, 4.0), beyond, ratio)
    infinity = constant(x.type, pymath.inf)
    at_end = float_compare("OEQ", math.absf(x), one)
    return arith.mulf(x, arith.select(at_end, infinity, ratio))


def _between(x: Value, low: float, high: float, series: tuple[float, ...]) -> Value:
    """Emit a Chebyshev series on [low, high] at x."""
    offset = arith.subf(x, constant(x.type, (low + high) / 2))
    return chebyshev(arith.mulf(offset, constant(x.type, 2 / (high - low))), series)


def _above(x: Value, bound: float) -> Value:
    """Emit whether x is greater than a number."""
    return float_compare("OGT", x, constant(x.type, bound))
