"""Elementary functions on vectors of f32."""

from __future__ import annotations

from math import e, log2, pi, sqrt

import numpy as np

from aotc.dialects.lowering.scalars import constant, float_compare
from aotc.kernels.cpu.vectors import bits_of, call_intrinsic, multiply_add
from aotc.mlir import Operation, Value, arith, ir

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
_LOWEST = -86.0  # e**x of less would not be a normal number
# beyond, n is not within -126 to 128, and the result 0 or 1
_LOGISTIC_RANGE = (-89.0, 87.0)
_BIAS = 127  # of the exponent of a float
_ROUNDER = 1.5 * 2**23  # numbers next to it are whole; its last bits count them


def round_by_instructions(kernel: Operation) -> None:
    """Let the processor round to whole numbers, in all of a kernel.

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
    """e**x for x <= 0, to 1.2 ulp: a third fewer operations than for any x.

    0 below -86; NaN for NaN. It is 2**n 2**r, where n is the whole number next to
    x log2(e) (Cody and Waite, "Software Manual for the Elementary Functions", 1980).
    """
    power, exponent = _power_parts(x, log2(e), 0)
    scaled = arith.addi(arith.bitcast(exponent.type, power), exponent)
    zero = constant(x.type, 0.0)
    otherwise = arith.select(float_compare("OLT", x, zero), zero, x)  # NaN stays
    is_normal = float_compare("OLE", constant(x.type, _LOWEST), x)
    return arith.select(is_normal, arith.bitcast(x.type, scaled), otherwise)


def logistic(x: Value) -> Value:
    """1 / (1 + e**-x), to 3 ulp, or 0 below 2**-126; NaN for NaN.

    e**-x is p 2**n, and 1 + p 2**n one multiply-add. There, 2**n is infinite for 128.
    """
    least, most = (constant(x.type, limit) for limit in _LOGISTIC_RANGE)
    near = arith.select(float_compare("OLT", x, least), least, x)  # NaN stays
    near = arith.select(float_compare("OGT", near, most), most, near)
    power, exponent = _power_parts(near, -log2(e), _BIAS)
    one = constant(x.type, 1.0)
    total = multiply_add(power, arith.bitcast(x.type, exponent), one)
    return arith.divf(one, total)


def gelu_tanh(x: Value) -> Value:
    """x/2 (1 + tanh u) = x logistic(2 u), where u = sqrt(2/pi) (x + 0.044715 x**3)."""
    slope = constant(x.type, 2 * sqrt(2 / pi))
    bend = constant(x.type, 2 * sqrt(2 / pi) * 0.044715)
    inner = arith.mulf(x, multiply_add(arith.mulf(x, x), bend, slope))
    return arith.mulf(x, logistic(inner))


def _power_parts(x: Value, factor: float, bias: int) -> tuple[Value, Value]:
    """`p`, about 0.7 to 1.4, and n, where 2**(factor x) is p 2**n, to 1.2 ulp.

    n is an integer, with a bias added, shifted to where a float has its exponent.
    """

    def splat(value: float) -> Value:
        return constant(x.type, value)

    high = float(np.float32(factor))
    shifted = multiply_add(x, splat(high), splat(_ROUNDER + bias))
    whole = arith.subf(shifted, splat(_ROUNDER + bias))
    rest = multiply_add(x, splat(high), arith.negf(whole))
    rest = multiply_add(x, splat(factor - high), rest)
    power = splat(_POWER[-1])
    for term in reversed(_POWER[:-1]):
        power = multiply_add(power, rest, splat(term))
    bits = bits_of(shifted)
    return power, arith.shli(bits, constant(bits.type, 23))
