"""Powers of f32 numbers, whose logarithms have more digits than a float.

The error of y log2 x, which may be 128, is one of the result: so the logarithm is a sum
of two floats, as is the product (Markstein, "IA-64 and Elementary Functions", 2000, ch.
12; Dekker, "A floating-point technique for extending the available precision", 1971).
"""

import math as pymath

from aotc.dialects.lowering.scalars import (
    constant,
    float_compare,
    is_nan,
    polynomial,
    power_of_two,
)
from aotc.mlir import Value, arith, ir, math

_ROOT_OF_HALF = 0x3F3504F3  # the bits of sqrt(1/2)
_FRACTION = 23
_BEYOND = 200.0  # 2**-200 is 0, and 2**200 infinite

Sum = tuple[Value, Value]  # a float, and what it leaves


def power_of_size(x: Value, y: Value) -> Value:
    """Emit x**y in f32 for x >= 0."""
    high, low = _logarithm(x)
    exponent = arith.mulf(y, high)
    rest = arith.addf(math.fma(y, high, arith.negf(exponent)), arith.mulf(y, low))
    value = _power_of_two_of_sum(exponent, rest)
    nothing, infinity = constant(x.type, 0.0), constant(x.type, pymath.inf)
    falling = float_compare("OLT", y, nothing)
    at_zero = arith.select(falling, infinity, nothing)
    at_infinity = arith.select(falling, nothing, infinity)
    value = arith.select(float_compare("OEQ", x, nothing), at_zero, value)
    value = arith.select(float_compare("OEQ", x, infinity), at_infinity, value)
    undefined = arith.ori(is_nan(x), is_nan(y))
    return arith.select(undefined, constant(x.type, pymath.nan), value)


def _logarithm(x: Value) -> Sum:
    """Emit the binary logarithm of a normal f32 as a sum of two, to 2**-30 of it.

    x is m 2**e with m near 1, and ln m is 2 artanh s = 2 s + 2/3 s**3 + … of
    s = (m - 1) / (m + 1).
    """
    kind, word = x.type, ir.IntegerType.get_signless(32)
    bits = arith.bitcast(word, x)
    place = constant(word, _FRACTION)
    exponent = arith.shrsi(arith.subi(bits, constant(word, _ROOT_OF_HALF)), place)
    m = arith.bitcast(kind, arith.subi(bits, arith.shli(exponent, place)))
    one = constant(kind, 1.0)
    above, below = arith.subf(m, one), arith.addf(m, one)
    lost = arith.subf(m, arith.subf(below, one))  # when 1 was added
    inverse = arith.divf(one, below)
    s = arith.mulf(above, inverse)
    rest = math.fma(arith.negf(s), below, above)
    rest = arith.mulf(arith.subf(rest, arith.mulf(s, lost)), inverse)
    square = arith.mulf(s, s)
    series = polynomial(square, [2 / n for n in (13, 11, 9, 7, 5, 3)])
    high = arith.addf(s, s)
    low = math.fma(arith.mulf(s, square), series, arith.addf(rest, rest))
    high, low = _to_base_two(high, low)
    total, lost = _sum_of(arith.sitofp(kind, exponent), high)
    return _sum_of(total, arith.addf(lost, low))


def _to_base_two(high: Value, low: Value) -> Sum:
    """Emit a natural logarithm times log2(e), both sums of two floats."""
    factor = constant(high.type, 1.44269502162933349609375)
    more = constant(high.type, 1.925963033500011e-08)  # of log2(e)
    product = arith.mulf(high, factor)
    rest = math.fma(high, factor, arith.negf(product))
    rest = math.fma(high, more, rest)
    return product, math.fma(low, factor, rest)


def _sum_of(larger: Value, smaller: Value) -> Sum:
    """Emit a sum and its rounding error; |larger| >= |smaller|, or `larger` is 0."""
    total = arith.addf(larger, smaller)
    return total, arith.addf(arith.subf(larger, total), smaller)


def _power_of_two_of_sum(x: Value, rest: Value) -> Value:
    """Emit 2**(x + rest), where the rest is small."""
    kind, word = x.type, ir.IntegerType.get_signless(32)
    limit = constant(kind, _BEYOND)
    is_near = float_compare("OLT", math.absf(x), limit)
    rising = float_compare("OLT", constant(kind, 0.0), x)
    beyond = arith.select(rising, limit, arith.negf(limit))
    near = arith.select(is_near, x, beyond)
    whole = math.roundeven(near)
    part = arith.subf(near, whole)
    part = arith.addf(part, arith.select(is_near, rest, constant(kind, 0.0)))
    terms = [pymath.log(2) ** n / pymath.factorial(n) for n in range(8)]
    value = polynomial(part, terms[::-1])
    count = arith.fptosi(word, whole)
    half = arith.shrsi(count, constant(word, 1))
    value = arith.mulf(value, power_of_two(half, kind))
    return arith.mulf(value, power_of_two(arith.subi(count, half), kind))
