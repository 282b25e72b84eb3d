"""The reduction of angles to [-pi/4, pi/4], exact for all floats.

Note [exact reduction]: x is m 2**e with a whole m, so x 2/pi is m times the binary
digits of 2/pi from a place that e tells: those before it make whole turns. Three words
of digits are multiplied as integers, and all that is left of x near a multiple of pi/2
is right (Payne and Hanek, "Radian reduction for trigonometric functions", SIGNUM
Newsletter 18, 1983; Muller, "Elementary Functions", 3rd ed., ch. 11). No branch and no
table in memory is needed: code of vectors computes it for all lanes, in words that
have the width of a float.
"""

import math as pymath
from collections.abc import Sequence
from functools import cache

from aotc.dialects.lowering.scalars import constant, float_compare, int_compare
from aotc.mlir import ElementType, Value, arith, ir, math

_FRACTION_BITS = {32: 23, 64: 52}
_GREATEST_EXPONENT = {32: 127, 64: 1023}


def reduce_angle(x: Value) -> tuple[Value, Value, Value]:
    """Emit r, s and n with |x| = r + s + n pi/2, |r| <= pi/4, s the error of r.

    Two bits of n count.

    Args:
        x: f32 or f64; r is NaN for infinities and NaN.
    """
    word = ir.IntegerType.get_signless(x.type.width)
    size = math.absf(x)
    high, low = _quarter_turns(arith.bitcast(word, size), x.type)
    rest, error, count = _nearest_angle(high, low, x.type)
    small = float_compare("OLT", size, constant(x.type, 0.785))
    rest = arith.select(small, size, rest)
    error = arith.select(small, constant(x.type, 0.0), error)
    count = arith.select(small, constant(word, 0), count)
    finite = float_compare("OLT", size, constant(x.type, pymath.inf))
    return arith.select(finite, rest, constant(x.type, pymath.nan)), error, count


def _quarter_turns(bits: Value, kind: ElementType) -> tuple[Value, Value]:
    """Emit |x| 2/pi modulo 4 in two words: two integer bits, then the fraction."""
    word, width = bits.type, kind.width
    fraction = _FRACTION_BITS[width]
    lead = constant(word, 1 << fraction)
    rest = arith.andi(bits, constant(word, (1 << fraction) - 1))
    whole = arith.ori(rest, lead)
    bias = constant(word, _GREATEST_EXPONENT[width])
    exponent = arith.subi(arith.shrui(bits, constant(word, fraction)), bias)
    place = arith.maxsi(exponent, constant(word, 0))
    # from 1 on, m is doubled, so that the digits for 0.5 to 1 are those for 1 to 2
    is_above = int_compare("sge", exponent, constant(word, 0))
    whole = arith.shli(whole, arith.extui(word, is_above))
    first, second, third = _digits_from(place, width)
    high = arith.addi(arith.muli(whole, first), _high_product(whole, second))
    low = arith.muli(whole, second)
    total = arith.addi(low, _about_high_product(whole, third))
    carried = int_compare("ult", total, low)
    return arith.addi(high, arith.extui(word, carried)), total


def _digits_from(place: Value, width: int) -> list[Value]:
    """Emit three words of the binary digits of 2/pi, from number `place` on."""
    word = place.type
    steps = _GREATEST_EXPONENT[width] // width + 1  # a power of two
    count = steps + 3
    known = _words_of_two_over_pi(width, count)
    words = [constant(word, each) for each in known]
    index = arith.shrui(place, constant(word, width.bit_length() - 1))
    step = steps // 2
    while step:
        bit = arith.andi(index, constant(word, step))
        moved = int_compare("ne", bit, constant(word, 0))
        words = [
            arith.select(moved, words[number + step], words[number])
            for number in range(min(len(words) - step, step + 3))
        ]
        step //= 2
    offset = arith.andi(place, constant(word, width - 1))
    return _shifted_left(words, offset, width)


def _shifted_left(words: Sequence[Value], count: Value, width: int) -> list[Value]:
    """Emit the first three of four words, highest first, shifted left by `count`."""
    word = count.type
    rest = arith.subi(constant(word, width - 1), count)
    found = []
    for this, following in zip(words[:3], words[1:4], strict=True):
        half = arith.shrui(following, constant(word, 1))  # a shift by all is undefined
        found.append(arith.ori(arith.shli(this, count), arith.shrui(half, rest)))
    return found


@cache
def _words_of_two_over_pi(width: int, count: int) -> list[int]:
    """Return the binary digits of 2/pi as signed words, after leading zeros.

    Those for an exponent of 0 come first: of 2 m 2**-(fraction + 1) two bits are whole,
    so the digits stand behind `fraction` + 3 zeros.
    """
    zeros = _FRACTION_BITS[width] + 3
    bits = width * count - zeros
    guard = 64
    digits = (2 << (2 * (bits + guard))) // _pi_times(1 << (bits + guard)) >> guard
    mask = (1 << width) - 1
    found = [digits >> width * n & mask for n in reversed(range(count))]
    return [each - (each >> (width - 1) << width) for each in found]


def _pi_times(scale: int) -> int:
    """Return pi * scale as an integer, by Machin's formula, to within a few units."""
    scale <<= 32
    total = 16 * _arctan_of_inverse(5, scale) - 4 * _arctan_of_inverse(239, scale)
    return total >> 32


def _arctan_of_inverse(x: int, scale: int) -> int:
    """Return arctan(1/x) * scale as an integer."""
    power = total = scale // x
    n, sign = 3, -1
    while power:
        power //= x * x
        total += sign * (power // n)
        n, sign = n + 2, -sign
    return total


def _halves(word: Value) -> tuple[Value, Value]:
    """Emit the upper and the lower half of a word."""
    half = word.type.width // 2
    return (
        arith.shrui(word, constant(word.type, half)),
        arith.andi(word, constant(word.type, (1 << half) - 1)),
    )


def _high_product(x: Value, y: Value) -> Value:
    """Emit the upper word of x * y (Knuth, TAOCP 2, 4.3.1, with halves for digits)."""
    half = constant(x.type, x.type.width // 2)
    mask = constant(x.type, (1 << x.type.width // 2) - 1)
    (a, b), (c, d) = _halves(x), _halves(y)
    upper = arith.addi(arith.muli(a, d), arith.shrui(arith.muli(b, d), half))
    lower = arith.addi(arith.muli(b, c), arith.andi(upper, mask))
    carried = arith.addi(arith.shrui(upper, half), arith.shrui(lower, half))
    return arith.addi(arith.muli(a, c), carried)


def _about_high_product(x: Value, y: Value) -> Value:
    """Emit the upper word of x * y, or up to 3 less."""
    half = constant(x.type, x.type.width // 2)
    (a, b), (c, d) = _halves(x), _halves(y)
    mixed = arith.addi(
        arith.shrui(arith.muli(a, d), half), arith.shrui(arith.muli(b, c), half)
    )
    return arith.addi(arith.muli(a, c), mixed)


def _nearest_angle(
    high: Value, low: Value, kind: ElementType
) -> tuple[Value, Value, Value]:
    """Emit the angle from the nearest quarter turn, its error and the turn's number."""
    word, width = high.type, kind.width
    two, rest = constant(word, 2), constant(word, width - 2)
    near = arith.addi(high, constant(word, 1 << (width - 3)))
    count = arith.shrui(near, rest)
    high = arith.ori(arith.shli(high, two), arith.shrui(low, rest))  # signed
    low = arith.shli(low, two)
    # the digits that a float holds, and a word of those behind them
    kept = width - _FRACTION_BITS[width] - 1
    mask = (1 << kept) - 1
    upper = arith.sitofp(kind, arith.andi(high, constant(word, ~mask)))
    behind = arith.shli(
        arith.andi(high, constant(word, mask)), constant(word, width - 1 - kept)
    )
    behind = arith.ori(behind, arith.shrui(low, constant(word, kept + 1)))
    lower = arith.sitofp(kind, behind)
    half_pi, more = _half_pi_parts(width)
    unit = 2.0**-width
    small = arith.mulf(upper, constant(kind, more * unit))
    scale = constant(kind, half_pi * unit * 2.0 ** (kept + 1 - width))
    small = math.fma(lower, scale, small)
    main = constant(kind, half_pi * unit)
    rest = math.fma(upper, main, small)
    error = arith.addf(math.fma(upper, main, arith.negf(rest)), small)
    return rest, error, count


def _half_pi_parts(width: int) -> tuple[float, float]:
    """Return pi/2 rounded to a float, and what rounding took away."""
    if width == 32:
        return 1.57079637050628662109375, -4.371139000186241e-08
    return pymath.pi / 2, 6.123233995736766e-17
