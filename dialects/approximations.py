"""Scalar bodies of smooth functions that MLIR or IREE does not give as we define them.

Where IREE has no code (f64 tanh, erf, sin and cos), the formulas and their sources
stand here, with their reference in NumPy beside them.
"""

import math as pymath
from collections.abc import Sequence
from typing import Any

import numpy as np

from aotc.dialects.scalars import constant, float_compare, int_compare, with_sign
from aotc.mlir import arith, ir, math


def _polynomial(x: Any, coefficients: Sequence[float]) -> Any:
    """Horner's scheme, highest power first."""
    value = constant(x.type, coefficients[0])
    for coefficient in coefficients[1:]:
        value = math.fma(value, x, constant(x.type, coefficient))
    return value


def logistic(x: Any) -> Any:
    """1 / (1 + e**-x): overflows to the right limit on both sides."""
    one = constant(x.type, 1.0)
    return arith.divf(one, arith.addf(one, math.exp(arith.negf(x))))


def gelu_exact(x: Any) -> Any:
    """x/2 (1 + erf(x / sqrt 2))."""
    scaled = arith.mulf(x, constant(x.type, pymath.sqrt(0.5)))
    value = erf(scaled) if isinstance(x.type, ir.F64Type) else math.erf(scaled)
    return arith.mulf(
        arith.mulf(constant(x.type, 0.5), x), arith.addf(constant(x.type, 1.0), value)
    )


def gelu_tanh(x: Any) -> Any:
    """x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x**3)))."""
    cube = arith.mulf(arith.mulf(x, x), x)
    inner = arith.addf(x, arith.mulf(constant(x.type, 0.044715), cube))
    inner = arith.mulf(constant(x.type, pymath.sqrt(2 / pymath.pi)), inner)
    value = tanh(inner) if isinstance(x.type, ir.F64Type) else math.tanh(inner)
    return arith.mulf(
        arith.mulf(constant(x.type, 0.5), x), arith.addf(constant(x.type, 1.0), value)
    )


def power(x: Any, y: Any) -> Any:
    """x**y with the special cases of C's pow, most of which math.powf leaves out."""
    size = math.absf(x)
    nothing, one = constant(x.type, 0.0), constant(x.type, 1.0)
    value = arith.select(float_compare("OEQ", size, one), one, math.powf(size, y))
    whole = float_compare("OEQ", math.floor(y), y)
    half = arith.mulf(y, constant(x.type, 0.5))
    odd = arith.andi(whole, float_compare("UNE", math.floor(half), half))
    value = arith.select(odd, with_sign(value, x), value)
    finite = float_compare("OGT", x, constant(x.type, -pymath.inf))
    negative = arith.andi(float_compare("OLT", x, nothing), finite)
    undefined = arith.andi(negative, float_compare("UNE", math.floor(y), y))
    value = arith.select(undefined, constant(x.type, pymath.nan), value)
    exact = arith.ori(float_compare("OEQ", y, nothing), float_compare("OEQ", x, one))
    return arith.select(exact, one, value)


def tanh(x: Any) -> Any:
    """Tanh |x| = -m / (m + 2) with m = expm1(-2 |x|); no cancellation, no overflow."""
    size = math.absf(x)
    m = math.expm1(arith.mulf(constant(x.type, -2.0), size))
    value = arith.divf(arith.negf(m), arith.addf(m, constant(x.type, 2.0)))
    return with_sign(value, x)


def erf_numpy(x: Any) -> Any:
    """The reference: the C library's erf, one element at a time."""
    return np.vectorize(pymath.erf, otypes=[np.float64])(x).astype(x.dtype)


def _erf_series() -> list[float]:
    """erf(x)/x in powers of x**2, highest first; 2e-17 at |x| = 0.5."""
    terms = [(-1) ** n / (pymath.factorial(n) * (2 * n + 1)) for n in range(14)]
    return [2 / pymath.sqrt(pymath.pi) * term for term in reversed(terms)]


# (1 + 2x) exp(x**2) erfc(x) as a Chebyshev series in t = (x - 3.75) / (x + 3.75), the
# form of Shepherd and Laframboise, Mathematics of Computation 36 (1981) 249.
# Coefficients: interpolation at 40 Chebyshev nodes in 50 digits, cut below 1e-18;
# benchmarks/erf_coefficients.py prints them.
_ERFC_CHEBYSHEV = (
    1.1775789345674017,
    -0.004590054580646478,
    -0.08424913336651792,
    0.05920993999819189,
    -0.026658668435305753,
    0.009074997670705265,
    -0.002413163540417608,
    0.0004907758365258086,
    -6.916973302501207e-05,
    4.13902798607301e-06,
    7.74038306619849e-07,
    -2.1886401049234397e-07,
    1.076499946567091e-08,
    4.521959811218287e-09,
    -7.754400208831351e-10,
    -6.318088340886684e-11,
    2.86879501093067e-11,
    1.9455868545777347e-13,
    -9.65469674843344e-13,
    3.25254814814874e-14,
    3.3478119482868056e-14,
    -1.864562880419313e-15,
    -1.2507950530688648e-15,
    7.418235256624044e-17,
    5.068148904796111e-17,
    -2.2370566594359995e-18,
    -2.187342944303018e-18,
)


def erf(x: Any) -> Any:
    """f64 erf: a Taylor series below 0.5, 1 - erfc by a Chebyshev series above."""
    size = math.absf(x)
    small = arith.mulf(x, _polynomial(arith.mulf(x, x), _erf_series()))
    capped = arith.minimumf(size, constant(x.type, 6.5))  # erf is 1 from there
    k = constant(x.type, 3.75)
    t = arith.divf(arith.subf(capped, k), arith.addf(capped, k))
    series = _clenshaw(t, _ERFC_CHEBYSHEV)
    decay = math.exp(arith.negf(arith.mulf(capped, capped)))
    one = constant(x.type, 1.0)
    scale = arith.addf(one, arith.mulf(constant(x.type, 2.0), capped))
    tail = arith.subf(one, arith.divf(arith.mulf(decay, series), scale))
    is_small = float_compare("OLT", size, constant(x.type, 0.5))
    return arith.select(is_small, small, with_sign(tail, x))


def _clenshaw(t: Any, coefficients: Sequence[float]) -> Any:
    """A Chebyshev series at t by Clenshaw's recurrence."""
    twice = arith.addf(t, t)
    ahead = behind = constant(t.type, 0.0)
    for coefficient in reversed(coefficients[1:]):
        step = math.fma(twice, ahead, constant(t.type, coefficient))
        ahead, behind = arith.subf(step, behind), ahead
    return arith.subf(math.fma(t, ahead, constant(t.type, coefficients[0])), behind)


def sin(x: Any) -> Any:
    """f64 sine; see `_sine_of_quadrant`."""
    return _sine_of_quadrant(x, 0)


def cos(x: Any) -> Any:
    """f64 cosine: the sine a quadrant later."""
    return _sine_of_quadrant(x, 1)


# pi/2 in three parts of 33 bits or fewer, so that multiples below 2**20 are exact
# (Cody and Waite, Software Manual for the Elementary Functions, 1980)
_HALF_PI_PARTS = (1.5707963267341256, 6.077100506303966e-11, 2.0222662487959506e-21)


def _sine_of_quadrant(x: Any, shift: int) -> Any:
    """sin(x + shift pi/2): reduction to [-pi/4, pi/4], then Taylor polynomials.

    Accurate to 2e-16 absolute for |x| below 1e6; beyond, digits of x are lost.
    """
    turns = math.roundeven(arith.mulf(x, constant(x.type, 2 / pymath.pi)))
    reduced = x
    for part in _HALF_PI_PARTS:
        reduced = math.fma(turns, constant(x.type, -part), reduced)
    square = arith.mulf(reduced, reduced)
    odd = [(-1) ** n / pymath.factorial(2 * n + 1) for n in range(9)]
    even = [(-1) ** n / pymath.factorial(2 * n) for n in range(10)]
    sine = arith.mulf(reduced, _polynomial(square, odd[::-1]))
    cosine = _polynomial(square, even[::-1])
    i64 = ir.IntegerType.get_signless(64)
    quadrant = arith.addi(arith.fptosi(i64, turns), constant(i64, shift))
    odd_turn = _bit(quadrant, 1)
    value = arith.select(odd_turn, cosine, sine)
    return arith.select(_bit(quadrant, 2), arith.negf(value), value)


def _bit(value: Any, mask: int) -> Any:
    masked = arith.andi(value, constant(value.type, mask))
    return int_compare("ne", masked, constant(value.type, 0))
