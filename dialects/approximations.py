"""Scalar bodies of elementwise ops: what one element of a result is computed from.

Where IREE has no code for an operation (f64 tanh, erf, sin and cos), the formulas and
their sources stand here, with their reference in NumPy beside them.
"""

import math as pymath
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from aotc import dtypes
from aotc.dialects.lowering import lowered_element
from aotc.mlir import arith, ir, math


def constant(element: Any, value: float) -> Any:
    """`value` as a scalar of MLIR type `element`."""
    if isinstance(element, ir.IntegerType):
        return arith.ConstantOp(element, ir.IntegerAttr.get(element, int(value))).result
    return arith.ConstantOp(element, ir.FloatAttr.get(element, float(value))).result


def _add(x: Any, y: Any) -> Any:
    return arith.AddFOp(x, y).result


def _sub(x: Any, y: Any) -> Any:
    return arith.SubFOp(x, y).result


def _mul(x: Any, y: Any) -> Any:
    return arith.MulFOp(x, y).result


def _div(x: Any, y: Any) -> Any:
    return arith.DivFOp(x, y).result


def _select(condition: Any, x: Any, y: Any) -> Any:
    return arith.SelectOp(condition, x, y).result


def _float_compare(predicate: str, x: Any, y: Any) -> Any:
    return arith.CmpFOp(getattr(arith.CmpFPredicate, predicate), x, y).result


def _int_compare(predicate: str, x: Any, y: Any) -> Any:
    return arith.CmpIOp(getattr(arith.CmpIPredicate, predicate), x, y).result


def _polynomial(x: Any, coefficients: Sequence[float]) -> Any:
    """Horner's scheme, highest power first."""
    value = constant(x.type, coefficients[0])
    for coefficient in coefficients[1:]:
        value = math.FmaOp(value, x, constant(x.type, coefficient)).result
    return value


# ---- signs and bits -----------------------------------------------------------------


def sign_float(x: Any) -> Any:
    """-1, 0 or 1; zero and NaN stay what they are."""
    unit = math.CopySignOp(constant(x.type, 1.0), x).result
    nonzero = _float_compare("ONE", x, constant(x.type, 0.0))
    return _select(nonzero, unit, x)


def sign_int(x: Any) -> Any:
    """-1, 0 or 1: max(min(x, 1), -1)."""
    below = arith.MinSIOp(x, constant(x.type, 1)).result
    return arith.MaxSIOp(below, constant(x.type, -1)).result


def invert(x: Any) -> Any:
    """All bits flipped."""
    return arith.XOrIOp(x, constant(x.type, -1)).result


def shift(operation: Callable[..., Any], beyond: Callable[..., Any]) -> Any:
    """A shift that is also defined for negative counts and those beyond the width.

    Args:
        operation: the shift proper.
        beyond: the result for such a count, from the shifted element.
    """

    def body(x: Any, count: Any) -> Any:
        width = constant(x.type, x.type.width)
        defined = _int_compare("ult", count, width)
        shifted = operation(x, _select(defined, count, constant(x.type, 0)))
        return _select(defined, shifted, beyond(x))

    return body


def zero(x: Any) -> Any:
    """0 in the type of `x`."""
    return constant(x.type, 0)


def sign_bits(x: Any) -> Any:
    """The sign bit in every place: 0 or -1."""
    return arith.shrsi(x, constant(x.type, x.type.width - 1))


# ---- integer division ---------------------------------------------------------------


def divide_signed(x: Any, y: Any) -> Any:
    """Towards zero; -1 for y = 0, and no trap for the one overflowing quotient."""
    zero, minus_one = constant(x.type, 0), constant(x.type, -1)
    by_zero = _int_compare("eq", y, zero)
    negating = _int_compare("eq", y, minus_one)
    risky = arith.OrIOp(by_zero, negating).result
    quotient = arith.DivSIOp(x, _select(risky, constant(x.type, 1), y)).result
    negated = arith.SubIOp(zero, x).result
    return _select(by_zero, minus_one, _select(negating, negated, quotient))


def divide_unsigned(x: Any, y: Any) -> Any:
    """All ones for y = 0."""
    by_zero = _int_compare("eq", y, constant(x.type, 0))
    quotient = arith.DivUIOp(x, _select(by_zero, constant(x.type, 1), y)).result
    return _select(by_zero, constant(x.type, -1), quotient)


# ---- comparison and conversion ------------------------------------------------------


def comparison(dtype: str, direction: str) -> Callable[..., Any]:
    """The body that compares two elements of `dtype`."""
    if dtypes.is_float(dtype):
        predicate = "UNE" if direction == "ne" else f"O{direction.upper()}"
        return lambda x, y: _float_compare(predicate, x, y)
    if direction not in ("eq", "ne"):
        signed = dtype in dtypes.SIGNED
        direction = ("s" if signed else "u") + direction
    return lambda x, y: _int_compare(direction, x, y)


def conversion(source: str, target: str) -> Callable[[Any], Any]:
    """The body that turns an element of dtype `source` into one of `target`."""
    if target == "bool":
        return _to_bool(source)
    if dtypes.is_float(source):
        return _from_float(source, target)
    return _from_integer(source, target)


def _to_bool(source: str) -> Callable[[Any], Any]:
    return lambda x: comparison(source, "ne")(x, constant(x.type, 0))


def _from_integer(source: str, target: str) -> Callable[[Any], Any]:
    signed = source in dtypes.SIGNED
    element = lowered_element(target)
    if dtypes.is_float(target):
        to_float = arith.sitofp if signed else arith.uitofp
        wide = lowered_element(_not_half(target))
        narrow = _bf16_bits if target == "bf16" else _rounded
        return lambda x: narrow(to_float(wide, x), target)
    width = 1 if source == "bool" else dtypes.bits(source)
    if dtypes.bits(target) == width:
        return lambda x: x
    if dtypes.bits(target) < width:
        return lambda x: arith.trunci(element, x)
    extend = arith.extsi if signed else arith.extui
    return lambda x: extend(element, x)


def _from_float(source: str, target: str) -> Callable[[Any], Any]:
    element = lowered_element(target)
    if not dtypes.is_float(target):
        return lambda x: _saturating(x, target, element)
    if dtypes.bits(target) > dtypes.bits(source):
        return lambda x: arith.extf(element, x)
    if dtypes.bits(target) == dtypes.bits(source):  # f16 and bf16
        return lambda x: arith.truncf(element, arith.extf(ir.F32Type.get(), x))
    return lambda x: _rounded(x, target)


def _not_half(dtype: str) -> str:
    return "f32" if dtypes.bits(dtype) == 16 else dtype


def _rounded(x: Any, target: str) -> Any:
    """A float in a dtype that is not wider; to half precision by way of f32.

    A direct conversion from f64 would call `__truncdfhf2`, which IREE's linker lacks.
    """
    for element in (lowered_element(_not_half(target)), lowered_element(target)):
        if x.type != element:
            x = arith.truncf(element, x)
    return x


def _bf16_bits(x: Any, _: str) -> Any:
    """An f32 that is not NaN, rounded to even, by its bits.

    For integers: LLVM makes one conversion of i32 → f32 → bf16, and that one is a call
    to `__truncsfbf2`, which IREE's linker lacks.
    """
    i16, i32 = ir.IntegerType.get_signless(16), ir.IntegerType.get_signless(32)
    sixteen = constant(i32, 16)
    bits = arith.bitcast(i32, x)
    odd = arith.andi(arith.shrui(bits, sixteen), constant(i32, 1))
    bits = arith.addi(bits, arith.addi(odd, constant(i32, 0x7FFF)))
    return arith.bitcast(ir.BF16Type.get(), arith.trunci(i16, arith.shrui(bits, sixteen)))


def integer_bounds(target: str) -> tuple[int, int]:
    """The least and the greatest value of an integer dtype."""
    info = np.iinfo(dtypes.to_numpy(target))
    return int(info.min), int(info.max)


def _saturating(x: Any, target: str, element: Any) -> Any:
    """Towards zero, clamped to the range of `target`; NaN gives 0."""
    if not isinstance(x.type, ir.F64Type):  # every 32-bit bound is exact in f64
        x = arith.ExtFOp(ir.F64Type.get(), x).result
    low, high = integer_bounds(target)
    # the first float above `high`: exact even where `high` itself is not
    top = constant(x.type, float(high + 1))
    to_int = arith.FPToSIOp if target in dtypes.SIGNED else arith.FPToUIOp
    above = _float_compare("OGE", x, top)
    below = _float_compare("OLE", x, constant(x.type, float(low)))
    invalid = arith.OrIOp(above, below).result
    invalid = arith.OrIOp(invalid, _float_compare("UNO", x, x)).result
    safe = _select(invalid, constant(x.type, 0.0), x)
    value = to_int(element, safe).result
    signed_high = -1 if target in dtypes.UNSIGNED else high
    value = _select(above, constant(element, signed_high), value)
    return _select(below, constant(element, low), value)


def saturate_numpy(x: Any, target: Any) -> Any:
    """The reference of `_saturating`."""
    info = np.iinfo(target)
    wide = np.nan_to_num(np.trunc(x.astype(np.float64)), nan=0.0)
    inside = (wide > info.min) & (wide < float(info.max) + 1)
    values = np.where(inside, wide, 0).astype(target)
    values = np.where(wide >= float(info.max) + 1, np.array(info.max, target), values)
    return np.where(wide <= info.min, np.array(info.min, target), values)


# ---- smooth functions ---------------------------------------------------------------


def logistic(x: Any) -> Any:
    """1 / (1 + e**-x): overflows to the right limit on both sides."""
    one = constant(x.type, 1.0)
    return _div(one, _add(one, math.ExpOp(arith.NegFOp(x).result).result))


def gelu_exact(x: Any) -> Any:
    """x/2 (1 + erf(x / sqrt 2))."""
    scaled = _mul(x, constant(x.type, pymath.sqrt(0.5)))
    value = erf(scaled) if isinstance(x.type, ir.F64Type) else math.ErfOp(scaled).result
    return _mul(_mul(constant(x.type, 0.5), x), _add(constant(x.type, 1.0), value))


def gelu_tanh(x: Any) -> Any:
    """x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x**3)))."""
    cube = _mul(_mul(x, x), x)
    inner = _add(x, _mul(constant(x.type, 0.044715), cube))
    inner = _mul(constant(x.type, pymath.sqrt(2 / pymath.pi)), inner)
    value = tanh(inner) if isinstance(x.type, ir.F64Type) else math.TanhOp(inner).result
    return _mul(_mul(constant(x.type, 0.5), x), _add(constant(x.type, 1.0), value))


def power(x: Any, y: Any) -> Any:
    """x**y with the special cases of C's pow, most of which math.powf leaves out."""
    size = math.absf(x)
    nothing, one = constant(x.type, 0.0), constant(x.type, 1.0)
    value = _select(_float_compare("OEQ", size, one), one, math.powf(size, y))
    whole = _float_compare("OEQ", math.floor(y), y)
    half = _mul(y, constant(x.type, 0.5))
    odd = arith.andi(whole, _float_compare("UNE", math.floor(half), half))
    value = _select(odd, math.copysign(value, x), value)
    finite = _float_compare("OGT", x, constant(x.type, -pymath.inf))
    negative = arith.andi(_float_compare("OLT", x, nothing), finite)
    undefined = arith.andi(negative, _float_compare("UNE", math.floor(y), y))
    value = _select(undefined, constant(x.type, pymath.nan), value)
    exact = arith.ori(_float_compare("OEQ", y, nothing), _float_compare("OEQ", x, one))
    return _select(exact, one, value)


def tanh(x: Any) -> Any:
    """tanh |x| = -m / (m + 2) with m = expm1(-2 |x|); no cancellation, no overflow."""
    size = math.AbsFOp(x).result
    m = math.ExpM1Op(_mul(constant(x.type, -2.0), size)).result
    value = _div(arith.NegFOp(m).result, _add(m, constant(x.type, 2.0)))
    return math.CopySignOp(value, x).result


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
    size = math.AbsFOp(x).result
    small = _mul(x, _polynomial(_mul(x, x), _erf_series()))
    capped = arith.MinimumFOp(size, constant(x.type, 6.5)).result  # erf is 1 from there
    k = constant(x.type, 3.75)
    t = _div(_sub(capped, k), _add(capped, k))
    series = _clenshaw(t, _ERFC_CHEBYSHEV)
    decay = math.ExpOp(arith.NegFOp(_mul(capped, capped)).result).result
    one = constant(x.type, 1.0)
    scale = _add(one, _mul(constant(x.type, 2.0), capped))
    tail = _sub(one, _div(_mul(decay, series), scale))
    is_small = _float_compare("OLT", size, constant(x.type, 0.5))
    return _select(is_small, small, math.CopySignOp(tail, x).result)


def _clenshaw(t: Any, coefficients: Sequence[float]) -> Any:
    """A Chebyshev series at t by Clenshaw's recurrence."""
    twice = _add(t, t)
    ahead = behind = constant(t.type, 0.0)
    for coefficient in reversed(coefficients[1:]):
        step = math.FmaOp(twice, ahead, constant(t.type, coefficient)).result
        ahead, behind = _sub(step, behind), ahead
    return _sub(math.FmaOp(t, ahead, constant(t.type, coefficients[0])).result, behind)


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
    turns = math.RoundEvenOp(_mul(x, constant(x.type, 2 / pymath.pi))).result
    reduced = x
    for part in _HALF_PI_PARTS:
        reduced = math.FmaOp(turns, constant(x.type, -part), reduced).result
    square = _mul(reduced, reduced)
    odd = [(-1) ** n / pymath.factorial(2 * n + 1) for n in range(9)]
    even = [(-1) ** n / pymath.factorial(2 * n) for n in range(10)]
    sine = _mul(reduced, _polynomial(square, odd[::-1]))
    cosine = _polynomial(square, even[::-1])
    i64 = ir.IntegerType.get_signless(64)
    quadrant = arith.AddIOp(arith.FPToSIOp(i64, turns).result, constant(i64, shift)).result
    odd_turn = _bit(quadrant, 1)
    value = _select(odd_turn, cosine, sine)
    return _select(_bit(quadrant, 2), arith.NegFOp(value).result, value)


def _bit(value: Any, mask: int) -> Any:
    masked = arith.AndIOp(value, constant(value.type, mask)).result
    return _int_compare("ne", masked, constant(value.type, 0))
