"""Elementwise ops of StableHLO and CHLO."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from aotc import complexes, special
from aotc import numpy as np
from aotc.complexes import Complex
from aotc.core import dtypes
from aotc.importers.stablehlo.operation import Op
from aotc.importers.stablehlo.values import (
    StableHloType,
    Value,
    array,
    as_pair,
    each_part,
)
from aotc.tracing.array import Array
from aotc.tracing.source_locations import fail
from aotc.tracing.tracing import emit

Rule = Callable[..., object]


def real(function: Callable[..., Any]) -> Rule:
    """Return a rule (op, operands) that calls a function of real arrays."""
    return lambda op, *xs: function(*(array(x) for x in xs))


def either(of_reals: Callable[..., Any], of_pairs: Callable[..., Any]) -> Rule:
    """Return a rule that calls one function for real operands, another for complex
    ones.
    """

    def rule(op: Op, *xs: Value) -> Value:
        if any(isinstance(x, Complex) for x in xs):
            pairs: Value = of_pairs(*map(as_pair, xs))
            return pairs
        result: Value = of_reals(*map(array, xs))
        return result

    return rule


def parts(function: Callable[..., Array]) -> Rule:
    """Return a rule that applies a function to real and imaginary parts separately."""
    return lambda op, *xs: each_part(function, *xs)


# ---- arithmetic ---------------------------------------------------------------------


def _numbers_or_bools(
    of_numbers: Callable[..., Array], of_bools: Callable[..., Array]
) -> Callable[[Array, Array], Array]:
    """Return a function that dispatches on the dtype of x: numbers or bools."""
    return lambda x, y: (of_bools if x.dtype == "bool" else of_numbers)(x, y)


_add = _numbers_or_bools(np.add, np.logical_or)
_multiply = _numbers_or_bools(np.multiply, np.logical_and)
_maximum = _numbers_or_bools(np.maximum, np.logical_or)
_minimum = _numbers_or_bools(np.minimum, np.logical_and)


def _divide(x: Array, y: Array) -> Array:
    """Return the quotient, broadcast; for integers rounded towards 0."""
    return emit("divide", *np.broadcast_arrays(x, y))


def _power(x: Array, y: Array) -> Array:
    """Return x to the power y, for floats or integers."""
    x, y = np.broadcast_arrays(x, y)
    if dtypes.is_float(x.dtype):
        return np.power(x, y)
    return _integer_power(x, y)


def _integer_power(x: Array, y: Array) -> Array:
    """Raise integers to powers; negative powers are 0, but for bases 1 and -1."""
    one = np.full_like(x, 1)
    whole = emit("power", x, np.maximum(y, 0))
    if x.dtype in dtypes.UNSIGNED:
        return whole
    odd = np.not_equal(np.bitwise_and(y, 1), 0)
    below = np.where(
        x == -1, np.where(odd, -one, one), np.where(x == 1, one, one - one)
    )
    return np.where(y < 0, below, whole)


def _abs(x: Array) -> Array:
    """Return the absolute value; unsigned integers as they are."""
    return x if x.dtype in dtypes.UNSIGNED else np.abs(x)


def _sign(x: Array) -> Array:
    """Return the sign, also of unsigned integers."""
    if x.dtype in dtypes.UNSIGNED:
        return np.astype(np.not_equal(x, 0), x.dtype)
    return np.sign(x)


def _negate(x: Array) -> Array:
    """Return -x, modulo 2**bits for unsigned integers."""
    return np.subtract(np.zeros_like(x), x) if x.dtype in dtypes.UNSIGNED else -x


def _round_away(x: Array) -> Array:
    """Return x rounded to the nearest integer, halves away from zero."""
    whole = np.trunc(x)
    away = np.greater_equal(np.abs(x - whole), 0.5)
    return whole + np.where(away, np.copysign(np.ones_like(x), x), np.zeros_like(x))


def clamp(op: Op, low: Value, x: Value, high: Value) -> Array:
    """Return min(max(x, low), high); the bounds may be scalars."""
    bounds = [np.broadcast_to(array(b), array(x).shape) for b in (low, high)]
    return emit("clamp", array(x), *bounds)


# ---- bits ---------------------------------------------------------------------------


def _shift_logical(x: Array, y: Array) -> Array:
    """Return x shifted right with zeros shifted in, whatever the sign."""
    if x.dtype in dtypes.UNSIGNED:
        return np.right_shift(x, y)
    unsigned = "u" + x.dtype[1:]
    return np.bitcast(
        np.right_shift(np.bitcast(x, unsigned), np.bitcast(y, unsigned)), x.dtype
    )


def _shift_arithmetic(x: Array, y: Array) -> Array:
    """Return x shifted right arithmetically; too large counts leave only the sign."""
    signed = x if x.dtype in dtypes.SIGNED else np.bitcast(x, "i" + x.dtype[1:])
    count = y if y.dtype in dtypes.SIGNED else np.bitcast(y, signed.dtype)
    last = dtypes.bits(x.dtype) - 1
    inside = np.logical_and(count >= 0, count <= last)
    shifted = np.right_shift(signed, np.where(inside, count, np.full_like(count, last)))
    return shifted if x.dtype in dtypes.SIGNED else np.bitcast(shifted, x.dtype)


def _count_ones(x: Array) -> Array:
    """Return the number of set bits."""
    bits = x if x.dtype in dtypes.UNSIGNED else np.bitcast(x, "u" + x.dtype[1:])
    return np.astype(np.bitwise_count(bits), x.dtype)


def _multiply_high(x: Array, y: Array) -> Array:
    """Return the upper half of the product of integers."""
    width, signed = dtypes.bits(x.dtype), x.dtype in dtypes.SIGNED
    if width < 64:
        wide = "i64" if signed else "u64"
        product = np.multiply(np.astype(x, wide), np.astype(y, wide))
        return np.astype(np.right_shift(product, width), x.dtype)
    half = 32
    a, c = np.right_shift(x, half), np.right_shift(y, half)
    b, d = (np.bitwise_and(z, 0xFFFFFFFF) for z in (x, y))
    low = _shift_logical(b * d, np.full_like(x, half))
    middle = a * d + low
    other = np.bitwise_and(middle, 0xFFFFFFFF) + b * c
    return a * c + np.right_shift(middle, half) + np.right_shift(other, half)


def bitcast(op: Op, x: Value) -> Value:
    """Return the bits of x as another dtype; a change of width adds or removes
    an axis.
    """
    if isinstance(x, Complex) and op.kind == StableHloType(
        op.kind.shape, x.dtype, True
    ):
        return x
    source, dtype = array(x), op.kind.dtype
    have, want = (1 if d == "bool" else dtypes.bits(d) for d in (source.dtype, dtype))
    if have == want:
        return source if source.dtype == dtype else np.bitcast(source, dtype)
    whole, part = f"u{max(have, want)}", f"u{min(have, want)}"
    if have > want:
        bits = np.bitcast(source, whole) if source.dtype != whole else source
        pieces = [np.right_shift(bits, n) for n in range(0, have, want)]
        split = np.stack([np.astype(piece, part) for piece in pieces], -1)
        return split if part == dtype else np.bitcast(split, dtype)
    bits = source if source.dtype == part else np.bitcast(source, part)
    wide = np.astype(bits, whole)
    total = wide[..., 0]
    for number in range(1, want // have):
        total = np.bitwise_or(total, np.left_shift(wide[..., number], number * have))
    return total if whole == dtype else np.bitcast(total, dtype)


_FORMATS = {"f32": (8, 23), "f64": (11, 52)}  # bits of exponent and mantissa


def reduce_precision(op: Op, x: Value) -> Array:
    """Return x rounded to fewer bits of exponent and mantissa, half to even."""
    source = array(x)
    if source.dtype not in _FORMATS:
        wide = reduce_precision(op, np.astype(source, "f32"))
        return np.astype(wide, source.dtype)
    exponent, mantissa = op.integer("exponent_bits"), op.integer("mantissa_bits")
    most, digits = _FORMATS[source.dtype]
    value = _round_mantissa(source, digits - mantissa) if mantissa < digits else source
    if exponent < most:
        value = _limit_exponent(value, exponent, mantissa)
    return np.where(np.isnan(source), source, value)


def _round_mantissa(x: Array, dropped: int) -> Array:
    """Return floats rounded to a mantissa shorter by `dropped` bits."""
    unsigned = f"u{dtypes.bits(x.dtype)}"
    bits = np.bitcast(x, unsigned)
    odd = np.bitwise_and(np.right_shift(bits, dropped), 1)
    carried = bits + odd + ((1 << (dropped - 1)) - 1)
    kept = np.left_shift(np.right_shift(carried, dropped), dropped)
    return np.bitcast(kept, x.dtype)


def _limit_exponent(x: Array, exponent: int, mantissa: int) -> Array:
    """Return floats with infinity above, and zero below, the range of an exponent."""
    bias = (1 << (exponent - 1)) - 1
    largest = 2.0**bias * (2.0 - 2.0**-mantissa)
    unit = np.copysign(np.ones_like(x), x)
    x = np.where(np.abs(x) > largest, unit * float("inf"), x)
    return np.where(np.abs(x) < 2.0 ** (1 - bias), unit * 0.0, x)


def convert(op: Op, x: Value) -> Value:
    """Return x in another dtype; real to complex gets a zero imaginary part."""
    kind = op.kind
    if isinstance(x, Complex):
        if kind.is_complex:
            return x.map(lambda part: np.astype(part, kind.dtype))
        return convert(op, x.real)
    real_part = np.astype(array(x), kind.dtype)
    if kind.is_complex:
        return Complex(real_part, np.zeros_like(real_part))
    return real_part


# ---- comparisons and choices --------------------------------------------------------

_COMPARISONS: dict[str, Callable[..., Array]] = {
    "EQ": np.equal,
    "NE": np.not_equal,
    "LT": np.less,
    "LE": np.less_equal,
    "GT": np.greater,
    "GE": np.greater_equal,
}
_OF_PAIRS = {"EQ": complexes.equal, "NE": complexes.not_equal}  # which have no order


def compare(op: Op, x: Value, y: Value) -> Array:
    """Return x compared with y; in TOTALORDER -NaN < … < -0 < 0 < … < NaN."""
    direction = op.word("comparison_direction")
    if isinstance(x, Complex) or isinstance(y, Complex):
        if direction not in _OF_PAIRS:
            fail("unsupported-ops", "complex numbers are equal or not, and not ordered")
        return _OF_PAIRS[direction](as_pair(x), as_pair(y))
    one, other = array(x), array(y)
    if op.word("compare_type") == "TOTALORDER" and dtypes.is_float(one.dtype):
        one, other = ordered_bits(one), ordered_bits(other)
    if one.dtype == "bool" and direction not in ("EQ", "NE"):
        one, other = np.astype(one, "u8"), np.astype(other, "u8")
    return _COMPARISONS[direction](one, other)


def ordered_bits(x: Array) -> Array:
    """Return integers that order as the floats do in the total order."""
    bits = np.bitcast(x, f"i{dtypes.bits(x.dtype)}")
    largest = (1 << (dtypes.bits(x.dtype) - 1)) - 1
    return np.where(bits < 0, np.bitwise_xor(bits, np.full_like(bits, largest)), bits)


def select(op: Op, which: Value, one: Value, other: Value) -> Value:
    """Return `one` where the condition holds, else `other`; it may be a scalar."""
    condition = array(which)
    return each_part(lambda x, y: np.where(condition, x, y), one, other)


OPS: dict[str, Rule] = {
    "stablehlo.abs": either(_abs, complexes.absolute),
    "stablehlo.add": either(_add, operator.add),
    "stablehlo.and": real(np.bitwise_and),
    "stablehlo.atan2": either(np.arctan2, complexes.arctan2),
    "stablehlo.bitcast_convert": bitcast,
    "stablehlo.cbrt": either(np.cbrt, complexes.cbrt),
    "stablehlo.ceil": real(np.ceil),
    "stablehlo.clamp": clamp,
    "stablehlo.compare": compare,
    "stablehlo.complex": lambda op, x, y: Complex(array(x), array(y)),
    "stablehlo.convert": convert,
    "stablehlo.cosine": either(np.cos, complexes.cos),
    "stablehlo.count_leading_zeros": real(np.count_leading_zeros),
    "stablehlo.divide": either(_divide, operator.truediv),
    "stablehlo.exponential": either(np.exp, complexes.exp),
    "stablehlo.exponential_minus_one": either(np.expm1, complexes.expm1),
    "stablehlo.floor": real(np.floor),
    "stablehlo.imag": lambda op, z: z.imag if isinstance(z, Complex) else array(z) * 0,
    "stablehlo.is_finite": real(np.isfinite),
    "stablehlo.log": either(np.log, complexes.log),
    "stablehlo.log_plus_one": either(np.log1p, complexes.log1p),
    "stablehlo.logistic": either(special.expit, complexes.expit),
    "stablehlo.maximum": real(_maximum),
    "stablehlo.minimum": real(_minimum),
    "stablehlo.multiply": either(_multiply, operator.mul),
    "stablehlo.negate": parts(_negate),
    "stablehlo.not": real(np.invert),
    "stablehlo.or": real(np.bitwise_or),
    "stablehlo.popcnt": real(_count_ones),
    "stablehlo.power": either(_power, complexes.power),
    "stablehlo.real": lambda op, z: z.real if isinstance(z, Complex) else array(z),
    "stablehlo.reduce_precision": reduce_precision,
    "stablehlo.remainder": real(np.fmod),
    "stablehlo.round_nearest_afz": real(_round_away),
    "stablehlo.round_nearest_even": real(np.rint),
    "stablehlo.rsqrt": either(np.rsqrt, complexes.rsqrt),
    "stablehlo.select": select,
    "stablehlo.shift_left": real(np.left_shift),
    "stablehlo.shift_right_arithmetic": real(_shift_arithmetic),
    "stablehlo.shift_right_logical": real(_shift_logical),
    "stablehlo.sign": either(_sign, complexes.sign),
    "stablehlo.sine": either(np.sin, complexes.sin),
    "stablehlo.sqrt": either(np.sqrt, complexes.sqrt),
    "stablehlo.subtract": either(np.subtract, operator.sub),
    "stablehlo.tan": either(np.tan, complexes.tan),
    "stablehlo.tanh": either(np.tanh, complexes.tanh),
    "stablehlo.xor": real(np.bitwise_xor),
    "chlo.acos": either(np.arccos, complexes.arccos),
    "chlo.acosh": either(np.arccosh, complexes.arccosh),
    "chlo.asin": either(np.arcsin, complexes.arcsin),
    "chlo.asinh": either(np.arcsinh, complexes.arcsinh),
    "chlo.atan": either(np.arctan, complexes.arctan),
    "chlo.atanh": either(np.arctanh, complexes.arctanh),
    "chlo.bessel_i1e": real(special.i1e),
    "chlo.conj": lambda op, z: complexes.conj(z) if isinstance(z, Complex) else z,
    "chlo.cosh": either(np.cosh, complexes.cosh),
    "chlo.digamma": real(special.digamma),
    "chlo.erf": real(special.erf),
    "chlo.erf_inv": real(special.erfinv),
    "chlo.erfc": real(special.erfc),
    "chlo.is_inf": real(np.isinf),
    "chlo.is_neg_inf": real(np.isneginf),
    "chlo.is_pos_inf": real(np.isposinf),
    "chlo.lgamma": real(special.gammaln),
    "chlo.mulhi": real(_multiply_high),
    "chlo.next_after": real(np.nextafter),
    "chlo.sinh": either(np.sinh, complexes.sinh),
    "chlo.square": either(np.square, complexes.square),
    "chlo.tan": either(np.tan, complexes.tan),
}
