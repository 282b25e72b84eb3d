"""Elementary functions on vectors of f32."""

from __future__ import annotations

from collections.abc import Sequence
from math import e, inf, log2, pi, sqrt

import numpy as np

from aotc.dialects.lowering.scalars import constant, float_compare
from aotc.kernels.cpu.vectors import bits_of, call_intrinsic, multiply_add
from aotc.mlir import Operation, Value, arith, ir, math

# 2**r for |r| <= 0.5: least relative error, 2e-9, of all polynomials with p(0) = 1
_POWER = (
    1.0,
    0.693147182,
    0.240226477,
    0.0555033237,
    0.00961843692,
    0.0013398875,
    0.00015353362,
)
# erf(x) / x in powers of x**2 up to |x| = 0.92, and -ln(1 - erf(x)) in those of x up
# to 3.95, from where erf(x) rounds to 1: least errors of erf, 1.5e-8 and 2.5e-8 of it
_ERF_NEAR = (
    1.12837915,
    -0.376124965,
    0.11281846,
    -0.02676772,
    0.00499483042,
    -0.000599940641,
)
_ERF_FAR = (
    0.00196589067,
    1.11988283,
    0.651175096,
    0.0908300278,
    -0.0154885547,
    0.00124012458,
)
_ERF_NEAREST, _ERF_FARTHEST = 0.92, 3.95
_LOWEST = -86.0  # e**x of less would not be a normal number
# e**x of more is infinite, and of less no normal number, which counts as 0
_EXP_RANGE = (-87.336544, 88.722839)
# beyond, n is not within -126 to 128, and the result 0 or 1
_LOGISTIC_RANGE = (-89.0, 87.0)
# tanh x as (x + x**3 n(x**2)) / d(x**2), where d(0) = 1, so that a small x stays what
# it is; from 7.92 on it is that of 7.92. Of all f32 it is off by 4.6 ulp at most, where
# the polynomials that IREE takes are by 4.9
_TANH_OVER = (0.134522542, 0.00358091271, 2.2054177e-05, 1.54698565e-08)
_TANH_UNDER = (1.0, 0.467855811, 0.026199596, 0.000342676067, 8.6161134e-07)
_TANH_FARTHEST = 7.92220974
_BIAS = 127  # of the exponent of a float
_ROUNDER = 1.5 * 2**23  # numbers next to it are whole; its last bits count them


def round_by_instructions(kernel: Operation) -> None:
    """Replace `math.roundeven` ops by LLVM's intrinsic, in a kernel, in place.

    IREE writes `math.roundeven` out, in some 40 operations on bits.
    """
    found: list[Operation] = []

    def note(op: Operation) -> ir.WalkResult:
        if op.name == "math.roundeven":
            found.append(op)
        return ir.WalkResult.ADVANCE

    kernel.walk(note)
    for op in found:
        with ir.InsertionPoint(op), op.location:
            rounded = call_intrinsic("llvm.roundeven", [*op.operands], op.result.type)
        op.result.replace_all_uses_with(rounded)
        op.erase()


def exp_of_negative(x: Value) -> Value:
    """Emit e**x for x <= 0, to 1.2 ulp: a third fewer operations than for any x.

    0 below -86; NaN for NaN. It is 2**n 2**r, where n is the whole number next to
    x log2(e) (Cody and Waite, "Software Manual for the Elementary Functions", 1980).
    """
    zero = constant(x.type, 0.0)
    otherwise = arith.select(float_compare("OLT", x, zero), zero, x)  # NaN stays
    is_normal = float_compare("OLE", constant(x.type, _LOWEST), x)
    return arith.select(is_normal, _normal_power(x), otherwise)


def _normal_power(x: Value) -> Value:
    """Emit e**x, to 1.2 ulp, where that is a normal number."""
    power, exponent = _power_parts(x, log2(e), 0)
    scaled = arith.addi(arith.bitcast(exponent.type, power), exponent)
    return arith.bitcast(x.type, scaled)


def exp(x: Value) -> Value:
    """Emit e**x, to 1.2 ulp; subnormal results are 0, and NaN stays NaN."""
    least, most, nothing, infinity = (
        constant(x.type, number) for number in (*_EXP_RANGE, 0.0, inf)
    )
    found = _normal_power(x)
    found = arith.select(float_compare("UNO", x, x), x, found)
    found = arith.select(float_compare("OLT", x, least), nothing, found)
    return arith.select(float_compare("OGT", x, most), infinity, found)


def erf(x: Value) -> Value:
    """Emit the error function, to 2.5 ulp; NaN stays NaN.

    Near 0 it is x times a polynomial, else 1 - e**-p(|x|), where p is one, too.
    """
    size = math.absf(x)
    farthest = constant(x.type, _ERF_FARTHEST)
    size = arith.select(float_compare("OLT", size, farthest), size, farthest)
    rest = _normal_power(arith.negf(_polynomial(size, _ERF_FAR)))
    far = _with_sign(arith.subf(constant(x.type, 1.0), rest), x)
    near = arith.mulf(x, _polynomial(arith.mulf(x, x), _ERF_NEAR))
    is_far = float_compare("OGT", math.absf(x), constant(x.type, _ERF_NEAREST))
    return arith.select(is_far, far, near)


def _with_sign(size: Value, x: Value) -> Value:
    """Emit a non-negative `size` with the sign of x."""
    bits = bits_of(x)
    sign = arith.andi(bits, constant(bits.type, -(2**31)))
    return arith.bitcast(x.type, arith.ori(bits_of(size), sign))


def gelu_exact(x: Value) -> Value:
    """Emit x/2 (1 + erf(x / sqrt 2))."""
    share = erf(arith.mulf(x, constant(x.type, sqrt(0.5))))
    half = arith.mulf(x, constant(x.type, 0.5))
    return multiply_add(half, share, half)


def logistic(x: Value) -> Value:
    """Emit 1 / (1 + e**-x), to 3 ulp, or 0 below 2**-126; NaN stays NaN.

    e**-x is p 2**n, and 1 + p 2**n one multiply-add. There, 2**n is infinite for 128.
    """
    least, most = (constant(x.type, limit) for limit in _LOGISTIC_RANGE)
    near = arith.select(float_compare("OLT", x, least), least, x)  # NaN stays
    near = arith.select(float_compare("OGT", near, most), most, near)
    power, exponent = _power_parts(near, -log2(e), _BIAS)
    one = constant(x.type, 1.0)
    total = multiply_add(power, arith.bitcast(x.type, exponent), one)
    return arith.divf(one, total)


def tanh(x: Value) -> Value:
    """Emit the hyperbolic tangent, to 5 ulp; NaN stays NaN.

    A quotient of polynomials takes fewer operations than one with e**x.
    """
    least, most = (constant(x.type, n) for n in (-_TANH_FARTHEST, _TANH_FARTHEST))
    near = arith.select(float_compare("OLT", x, least), least, x)  # NaN stays
    near = arith.select(float_compare("OGT", near, most), most, near)
    square = arith.mulf(near, near)
    cube = arith.mulf(near, square)
    over = multiply_add(cube, _polynomial(square, _TANH_OVER), near)
    return arith.divf(over, _polynomial(square, _TANH_UNDER))


def gelu_tanh(x: Value) -> Value:
    """Emit x/2 (1 + tanh u), where u = sqrt(2/pi) (x + 0.044715 x**3)."""
    slope = constant(x.type, 2 * sqrt(2 / pi))
    bend = constant(x.type, 2 * sqrt(2 / pi) * 0.044715)
    inner = arith.mulf(x, multiply_add(arith.mulf(x, x), bend, slope))
    return arith.mulf(x, logistic(inner))


def _power_parts(x: Value, factor: float, bias: int) -> tuple[Value, Value]:
    """Emit p and exponent bits of 2**n, where 2**(factor x) is p 2**n, to 1.2 ulp.

    n is an integer, with a bias added, shifted to where a float has its exponent.
    """

    def splat(value: float) -> Value:
        return constant(x.type, value)

    high = float(np.float32(factor))
    shifted = multiply_add(x, splat(high), splat(_ROUNDER + bias))
    whole = arith.subf(shifted, splat(_ROUNDER + bias))
    rest = multiply_add(x, splat(high), arith.negf(whole))
    rest = multiply_add(x, splat(factor - high), rest)
    bits = bits_of(shifted)
    return _polynomial(rest, _POWER), arith.shli(bits, constant(bits.type, 23))


def _polynomial(x: Value, terms: Sequence[float]) -> Value:
    """Emit a polynomial by Horner's scheme, from its coefficients, constant first."""
    found = constant(x.type, terms[-1])
    for term in reversed(terms[:-1]):
        found = multiply_add(found, x, constant(x.type, term))
    return found
