"""Scalar bodies of elementary functions that IREE lacks or computes too inaccurately.

IREE 3.13 has no f64 code for tanh, sin, cos and the arc functions; its own f32 code
loses all digits of small results (asinh) or misses infinities (atan2, cbrt).
"""

import math as pymath
from collections.abc import Sequence

from aotc.dialects.lowering import coefficients
from aotc.dialects.lowering.powers import power_of_size
from aotc.dialects.lowering.quarter_turns import reduce_angle
from aotc.dialects.lowering.scalars import (
    constant,
    float_compare,
    in_f32,
    int_compare,
    is_negative,
    polynomial,
    power_of_two,
    with_sign,
)
from aotc.mlir import Value, arith, ir, math


def chebyshev(t: Value, series: Sequence[float]) -> Value:
    """Emit a Chebyshev series at t in [-1, 1] by Clenshaw's recurrence.

    f32 gets the coefficients that it can tell from zero.
    """
    least = 0.0 if isinstance(t.type, ir.F64Type) else 1e-9
    terms = [c for c in series if abs(c) > least]
    twice = arith.addf(t, t)
    ahead = behind = constant(t.type, 0.0)
    for coefficient in reversed(terms[1:]):
        step = math.fma(twice, ahead, constant(t.type, coefficient))
        ahead, behind = arith.subf(step, behind), ahead
    return arith.subf(math.fma(t, ahead, constant(t.type, terms[0])), behind)


def logistic(x: Value) -> Value:
    """Emit 1 / (1 + e**-x), which overflows to the right limit on both sides."""
    one = constant(x.type, 1.0)
    return arith.divf(one, arith.addf(one, math.exp(arith.negf(x))))


def gelu_tanh(x: Value) -> Value:
    """Emit x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x**3)))."""
    cube = arith.mulf(arith.mulf(x, x), x)
    inner = arith.addf(x, arith.mulf(constant(x.type, 0.044715), cube))
    inner = arith.mulf(constant(x.type, pymath.sqrt(2 / pymath.pi)), inner)
    value = tanh(inner)
    return arith.mulf(
        arith.mulf(constant(x.type, 0.5), x), arith.addf(constant(x.type, 1.0), value)
    )


@in_f32
def power(x: Value, y: Value) -> Value:
    """Emit x**y with the special cases of C's pow, most of which math.powf lacks."""
    size = math.absf(x)
    nothing, one = constant(x.type, 0.0), constant(x.type, 1.0)
    raised = math.powf if isinstance(x.type, ir.F64Type) else power_of_size
    value = arith.select(float_compare("OEQ", size, one), one, raised(size, y))
    whole = float_compare("OEQ", math.floor(y), y)
    odd = arith.andi(whole, _is_odd(y))
    value = arith.select(odd, with_sign(value, x), value)
    finite = float_compare("OGT", x, constant(x.type, -pymath.inf))
    negative = arith.andi(float_compare("OLT", x, nothing), finite)
    undefined = arith.andi(negative, float_compare("UNE", math.floor(y), y))
    value = arith.select(undefined, constant(x.type, pymath.nan), value)
    exact = arith.ori(float_compare("OEQ", y, nothing), float_compare("OEQ", x, one))
    return arith.select(exact, one, value)


def tanh(x: Value) -> Value:
    """Emit tanh x; in f64 as -m / (m + 2) of m = expm1(-2 |x|), which cannot cancel."""
    if not isinstance(x.type, ir.F64Type):
        return math.tanh(x)
    size = math.absf(x)
    m = expm1(arith.mulf(constant(x.type, -2.0), size))
    value = arith.divf(arith.negf(m), arith.addf(m, constant(x.type, 2.0)))
    return with_sign(value, x)


@in_f32
def sin(x: Value) -> Value:
    """Emit the sine of x; see `_sine_of_quadrant`."""
    return _sine_of_quadrant(x, 0)


@in_f32
def cos(x: Value) -> Value:
    """Emit the cosine of x: the sine a quadrant later."""
    return _sine_of_quadrant(x, 1)


def _sine_of_quadrant(x: Value, shift: int) -> Value:
    """Emit sin(x + shift pi/2): a reduction to [-pi/4, pi/4], then a polynomial."""
    width = x.type.width
    reduced, error, quadrant = reduce_angle(x)
    square = arith.mulf(reduced, reduced)
    terms = 9 if width == 64 else 5
    odd = [(-1) ** n / pymath.factorial(2 * n + 1) for n in range(terms)]
    even = [(-1) ** n / pymath.factorial(2 * n) for n in range(terms + 1)]
    # both add a small number to one that is exact, and what the error makes of it
    cube = arith.mulf(reduced, square)
    sine = math.fma(cube, polynomial(square, odd[:0:-1]), error)
    sine = arith.addf(reduced, sine)
    bent = arith.negf(arith.mulf(reduced, error))
    cosine = math.fma(square, polynomial(square, even[:0:-1]), bent)
    cosine = arith.addf(constant(x.type, 1.0), cosine)
    word = quadrant.type
    if shift:
        quadrant = arith.addi(quadrant, constant(word, shift))
    zero = constant(word, 0)
    is_odd = int_compare("ne", arith.andi(quadrant, constant(word, 1)), zero)
    is_turned = int_compare("ne", arith.andi(quadrant, constant(word, 2)), zero)
    if not shift:  # the sine is odd
        is_turned = arith.xori(is_turned, is_negative(x))
    value = arith.select(is_odd, cosine, sine)
    return arith.select(is_turned, arith.negf(value), value)


def _is_odd(whole: Value) -> Value:
    """Emit whether an integer, held in a float, is odd."""
    half = arith.mulf(whole, constant(whole.type, 0.5))
    return float_compare("UNE", math.floor(half), half)


def expm1(x: Value) -> Value:
    """Emit e**x - 1; in f64 by a Taylor series near 0: IREE loses half the digits."""
    if not isinstance(x.type, ir.F64Type):
        return math.expm1(x)
    terms = [1 / pymath.factorial(n) for n in range(1, 17)]
    near = arith.mulf(x, polynomial(x, terms[::-1]))
    far = arith.subf(math.exp(x), constant(x.type, 1.0))
    is_near = float_compare("OLT", math.absf(x), constant(x.type, 0.5))
    return arith.select(is_near, near, far)


def log1p(x: Value) -> Value:
    """Emit ln(1 + x); in f64, where IREE loses half the digits, by Kahan's formula.

    It is ln(u) x / (u - 1) with u = 1 + x, whose rounding errors cancel (Goldberg, What
    every computer scientist should know about floating-point arithmetic, 1991).
    """
    if not isinstance(x.type, ir.F64Type):
        return math.log1p(x)
    one = constant(x.type, 1.0)
    u = arith.addf(one, x)
    rest = arith.subf(u, one)
    exact = float_compare("OEQ", rest, x)
    scaled = arith.divf(x, arith.select(exact, one, rest))
    value = arith.mulf(math.log(u), arith.select(exact, one, scaled))
    return arith.select(float_compare("OEQ", u, one), x, value)


@in_f32
def exp2(x: Value) -> Value:
    """Emit 2**x by its whole part and e**(ln 2 times the rest): exact for whole x."""
    limit = constant(x.type, 252.0 if x.type.width == 32 else 2044.0)
    whole = math.roundeven(arith.minimumf(x, limit))
    whole = arith.maximumf(whole, arith.negf(limit))
    rest = arith.mulf(arith.subf(x, whole), constant(x.type, pymath.log(2)))
    count = arith.fptosi(ir.IntegerType.get_signless(x.type.width), whole)
    half = arith.shrsi(count, constant(count.type, 1))
    value = arith.mulf(math.exp(rest), power_of_two(half, x.type))
    return arith.mulf(value, power_of_two(arith.subi(count, half), x.type))


@in_f32
def cbrt(x: Value) -> Value:
    """Emit the cube root of x by logarithms, and one step of Newton's method."""
    size, third = math.absf(x), constant(x.type, 1 / 3)
    root = math.exp(arith.mulf(math.log(size), third))
    excess = arith.subf(root, arith.divf(size, arith.mulf(root, root)))
    root = arith.subf(root, arith.mulf(excess, third))
    own = arith.ori(
        float_compare("OEQ", size, constant(x.type, 0.0)),
        float_compare("OEQ", size, constant(x.type, pymath.inf)),
    )
    return with_sign(arith.select(own, size, root), x)


@in_f32
def hypot(x: Value, y: Value) -> Value:
    """Emit sqrt(x**2 + y**2) without overflow; infinite if either is, even by NaN."""
    a, b = math.absf(x), math.absf(y)
    ratio = _smaller_by_larger(a, b)
    root = math.sqrt(math.fma(ratio, ratio, constant(x.type, 1.0)))
    value = arith.mulf(arith.maximumf(a, b), root)
    infinity = constant(x.type, pymath.inf)
    infinite = arith.ori(
        float_compare("OEQ", a, infinity), float_compare("OEQ", b, infinity)
    )
    return arith.select(infinite, infinity, value)


@in_f32
def asinh(x: Value) -> Value:
    """Emit arsinh x by a log1p that does not cancel near 0."""
    size, one = math.absf(x), constant(x.type, 1.0)
    large = float_compare("OGT", size, constant(x.type, 1e9))
    a = arith.select(large, one, size)
    square = arith.mulf(a, a)
    root = math.sqrt(arith.addf(square, one))
    value = log1p(arith.addf(a, arith.divf(square, arith.addf(root, one))))
    far = arith.addf(math.log(size), constant(x.type, pymath.log(2)))
    return with_sign(arith.select(large, far, value), x)


@in_f32
def atan2(y: Value, x: Value) -> Value:
    """Emit the angle of (x, y): arctan on [0, tan(pi/8)], unfolded to the full circle.

    Beyond tan(pi/8), arctan(r) = pi/4 + arctan((r - 1) / (r + 1)).
    """
    a, b = math.absf(y), math.absf(x)
    one = constant(x.type, 1.0)
    ratio = _smaller_by_larger(a, b)
    steep = float_compare("OGT", ratio, constant(x.type, pymath.tan(pymath.pi / 8)))
    turned = arith.divf(arith.subf(ratio, one), arith.addf(ratio, one))
    u = arith.select(steep, turned, ratio)
    t = math.fma(arith.mulf(u, u), constant(x.type, 2 / 0.1716), arith.negf(one))
    angle = arith.mulf(u, chebyshev(t, coefficients.ARCTAN))
    eighth, half = constant(x.type, pymath.pi / 4), constant(x.type, pymath.pi / 2)
    angle = arith.select(steep, arith.addf(angle, eighth), angle)
    above = float_compare("OGT", a, b)
    angle = arith.select(above, arith.subf(half, angle), angle)
    behind = arith.subf(constant(x.type, pymath.pi), angle)
    return with_sign(arith.select(is_negative(x), behind, angle), y)


def _smaller_by_larger(a: Value, b: Value) -> Value:
    """Emit the smaller of two nonnegative floats divided by the larger.
    It is 0 for two zeros, and 1 for two infinities.
    """
    smaller, larger = arith.minimumf(a, b), arith.maximumf(a, b)
    nothing, one = constant(a.type, 0.0), constant(a.type, 1.0)
    equal = float_compare("OEQ", a, b)
    ratio = arith.select(equal, one, arith.divf(smaller, larger))
    return arith.select(float_compare("OEQ", larger, nothing), nothing, ratio)
