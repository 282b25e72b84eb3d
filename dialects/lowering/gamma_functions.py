"""Scalar bodies of the gamma function's logarithm and derivatives, with references.

Stirling's series, to which smaller arguments are shifted by the recurrence, and the
reflection formula for those that are not positive (Abramowitz and Stegun, 6.1, 6.4).
"""

import math as pymath
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np

from aotc.dialects.lowering import approximations as approx
from aotc.dialects.lowering import coefficients
from aotc.dialects.lowering.scalars import (
    constant,
    float_compare,
    in_f32,
    polynomial,
)
from aotc.mlir import Value, arith, math


@cache
def _bernoulli(n: int) -> Fraction:
    """Return the Bernoulli number B_n, with B_1 = -1/2."""
    if n == 0:
        return Fraction(1)
    total = sum(pymath.comb(n + 1, k) * _bernoulli(k) for k in range(n))
    return -Fraction(total) / (n + 1)


# ---- lgamma -------------------------------------------------------------------------


def lgamma_numpy(x: np.ndarray) -> Any:
    """Return ln |gamma| of an array by the C library, one element at a time."""

    def one(value: float) -> float:
        at_pole = value <= 0 and value == np.floor(value)
        try:
            return pymath.inf if at_pole else pymath.lgamma(value)
        except OverflowError:  # beyond f64
            return pymath.inf

    return np.vectorize(one, otypes=[np.float64])(x).astype(x.dtype)


@in_f32
def lgamma(x: Value) -> Value:
    """Emit ln |gamma(x)|; infinite at the poles 0, -1, -2, …"""
    one, nothing = constant(x.type, 1.0), constant(x.type, 0.0)
    reflected = float_compare("OLE", x, nothing)
    z = arith.select(reflected, arith.subf(one, x), x)
    value = _lgamma_of_positive(z)
    sine = math.absf(approx.sin(_phase(x)))
    log_pi = constant(x.type, pymath.log(pymath.pi))
    mirrored = arith.subf(arith.subf(log_pi, math.log(sine)), value)
    value = arith.select(reflected, mirrored, value)
    infinity = constant(x.type, pymath.inf)
    endless = float_compare("OEQ", math.absf(x), infinity)
    # 0 times an infinity, where 1 - x has no finite value either
    at_pole = arith.andi(reflected, float_compare("OEQ", sine, nothing))
    return arith.select(arith.ori(endless, at_pole), infinity, value)


def _phase(x: Value) -> Value:
    """Emit pi (x - n), where n is the whole number nearest to x."""
    distance = arith.subf(x, math.roundeven(x))
    return arith.mulf(constant(x.type, pymath.pi), distance)


def _lgamma_of_positive(z: Value) -> Value:
    """Emit lgamma for z > 0: a series up to 3, without zeros 1 and 2, then Stirling's.

    One step of the recurrence leads from below 1 to the former, five to the latter.
    """
    one, nothing = constant(z.type, 1.0), constant(z.type, 0.0)
    below = float_compare("OLT", z, one)
    first = arith.select(below, z, arith.subf(z, one))  # z - 1 after the recurrence
    second = arith.subf(first, one)
    series = approx.chebyshev(arith.minimumf(second, one), coefficients.LGAMMA)
    centre = arith.mulf(arith.mulf(first, second), series)
    centre = arith.subf(centre, arith.select(below, math.log(z), nothing))
    near = float_compare("OLT", z, constant(z.type, 8.0))
    five = arith.select(near, constant(z.type, 5.0), nothing)
    passed = arith.select(near, _rising(z, 5), one)
    beyond = arith.subf(_stirling(arith.addf(z, five)), math.log(passed))
    return arith.select(float_compare("OLT", z, constant(z.type, 3.0)), centre, beyond)


def _rising(z: Value, count: int) -> Value:
    """Emit the rising factorial z (z + 1) … (z + count - 1)."""
    product = z
    for k in range(1, count):
        product = arith.mulf(product, arith.addf(z, constant(z.type, float(k))))
    return product


def _stirling(z: Value) -> Value:
    """Emit Stirling's series for ln gamma(z), within 1e-17 from z = 8 on.

    It is (z - 1/2) (ln z - 1) + (ln 2pi - 1) / 2 and a series in 1/z.
    """
    one = constant(z.type, 1.0)
    terms = [_bernoulli(2 * k) / (2 * k * (2 * k - 1)) for k in range(1, 11)]
    inverse = arith.divf(one, z)
    series = polynomial(arith.mulf(inverse, inverse), _floats(terms[::-1]))
    main = arith.mulf(
        arith.subf(z, constant(z.type, 0.5)), arith.subf(math.log(z), one)
    )
    rest = constant(z.type, (pymath.log(2 * pymath.pi) - 1) / 2)
    return arith.addf(main, arith.addf(rest, arith.mulf(inverse, series)))


def _floats(numbers: Sequence[Fraction]) -> list[float]:
    """Return fractions as floats."""
    return [float(number) for number in numbers]


# ---- polygamma ----------------------------------------------------------------------
#
# For z > 0 and order n,
#
#     psi_n(z) = (-1)**(n+1) (head + n!/(2 v**(n+1)) + sum_k a_k / v**(n+2k) + passed)
#
# where head is -ln v for n = 0 and (n-1)!/v**n else, a_k = B_2k (2k+n-1)! / (2k)!, and
# the recurrence has led from z to v = z + N past sum_j n! / (z+j)**(n+1). And
#
#     psi_n(x) = (-1)**n psi_n(1 - x) - pi**(n+1) cot_n(pi x)
#
# with the nth derivative of cot, a polynomial in cot.


def _tail_factors(order: int) -> list[float]:
    """Return the coefficients a_k of the asymptotic series for k = 1, 2, …, 10."""
    factorial = pymath.factorial
    return _floats(
        [
            _bernoulli(2 * k) * factorial(2 * k + order - 1) / factorial(2 * k)
            for k in range(1, 11)
        ]
    )


def _cotangent_factors(order: int) -> list[float]:
    """Return derivative `order` of cot as a polynomial in cot, highest power first."""
    p = np.polynomial.Polynomial([0, 1])
    for _ in range(order):
        p = -p.deriv() * np.polynomial.Polynomial([1, 0, 1])
    return [float(c) for c in p.coef[::-1]]


def _steps(order: int) -> int:
    """Return the argument from which the asymptotic series is exact to rounding."""
    return 10 + 2 * order


def polygamma_numpy(x: np.ndarray, order: int) -> np.ndarray:
    """Return derivative `order` of digamma of an array, by the same formulas in f64."""
    wide = np.asarray(x, np.float64)
    reflected = wide <= 0
    value = _polygamma_numpy_of_positive(np.where(reflected, 1 - wide, wide), order)
    phase = np.pi * (wide - np.rint(wide))
    slopes = np.polyval(_cotangent_factors(order), 1 / np.tan(phase))
    mirrored = (-1) ** order * value - np.pi ** (order + 1) * slopes
    at_pole = np.nan if order % 2 == 0 else np.inf
    mirrored = np.where(wide == np.rint(wide), at_pole, mirrored)
    return np.where(reflected, mirrored, value).astype(x.dtype)


def _polygamma_numpy_of_positive(z: np.ndarray, order: int) -> np.ndarray:
    """Return derivative `order` of digamma for arguments above 0."""
    steps, factorial = _steps(order) + 6, float(pymath.factorial(order))
    near = z < steps
    v = np.where(near, z + steps, z)
    head = -np.log(v) if order == 0 else factorial / order / v**order
    total = head + factorial / 2 / v ** (order + 1)
    for k, factor in enumerate(_tail_factors(order), 1):
        total = total + factor / v ** (order + 2 * k)
    passed = sum(factorial / (z + j) ** (order + 1) for j in range(steps))
    value = np.where(near, total + passed, total)
    return value if order % 2 else -value


def polygamma(order: int) -> Callable[[Value], Value]:
    """Return a function that emits derivative `order` of digamma."""
    return in_f32(lambda x: _polygamma(x, order))


def _polygamma(x: Value, order: int) -> Value:
    """Emit derivative `order` of digamma, by reflection for x <= 0."""
    nothing, one = constant(x.type, 0.0), constant(x.type, 1.0)
    reflected = float_compare("OLE", x, nothing)
    z = arith.select(reflected, arith.subf(one, x), x)
    value = _polygamma_of_positive(z, order)
    phase = _phase(x)
    cotangent = arith.divf(approx.cos(phase), approx.sin(phase))
    slopes = polynomial(cotangent, _cotangent_factors(order))
    slopes = arith.mulf(slopes, constant(x.type, pymath.pi ** (order + 1)))
    signed = value if order % 2 == 0 else arith.negf(value)
    mirrored = arith.subf(signed, slopes)
    at_pole = constant(x.type, pymath.nan if order % 2 == 0 else pymath.inf)
    is_pole = float_compare("OEQ", phase, nothing)
    mirrored = arith.select(is_pole, at_pole, mirrored)
    return arith.select(reflected, mirrored, value)


def _polygamma_of_positive(z: Value, order: int) -> Value:
    """Emit derivative `order` of digamma for z > 0, by its asymptotic series."""
    steps, factorial = _steps(order), float(pymath.factorial(order))
    near = float_compare("OLT", z, constant(z.type, float(steps)))
    shift = arith.select(near, constant(z.type, float(steps)), constant(z.type, 0.0))
    v = arith.addf(z, shift)
    inverse = arith.divf(constant(z.type, 1.0), v)
    square = arith.mulf(inverse, inverse)
    tail = polynomial(square, _tail_factors(order)[::-1])
    half = arith.mulf(constant(z.type, factorial / 2), inverse)
    total = arith.addf(half, arith.mulf(square, tail))
    if order == 0:
        total = arith.subf(total, math.log(v))
    else:
        total = arith.addf(total, constant(z.type, factorial / order))
        total = arith.mulf(total, _whole_power(inverse, order))
    passed = _skipped_terms(z, order, steps)
    total = arith.addf(total, arith.select(near, passed, constant(z.type, 0.0)))
    return arith.negf(total) if order % 2 == 0 else total


def _skipped_terms(z: Value, order: int, steps: int) -> Value:
    """Emit the sum of n! / (z+j)**(n+1) over j < steps, smallest term first."""
    total = constant(z.type, 0.0)
    for j in reversed(range(steps)):
        inverse = arith.divf(
            constant(z.type, 1.0), arith.addf(z, constant(z.type, float(j)))
        )
        total = arith.addf(total, _whole_power(inverse, order + 1))
    return arith.mulf(total, constant(z.type, float(pymath.factorial(order))))


def _whole_power(x: Value, exponent: int) -> Value:
    """Emit x to a positive integer power by repeated multiplication."""
    value = x
    for _ in range(exponent - 1):
        value = arith.mulf(value, x)
    return value
