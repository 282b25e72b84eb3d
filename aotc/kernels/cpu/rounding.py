"""Rounding vectors of f32 to narrower floats, which stay f32, and to bytes, as i32.

By an instruction of the processor, or by integer operations and sums: IREE takes a
conversion to bf16 or f16 and back again for nothing at all.
"""

from __future__ import annotations

from aotc.dialects.lowering.scalars import constant, float_compare
from aotc.kernels.cpu.vectors import (
    bits_of,
    call_intrinsic,
    concatenate,
    split,
    vector_type,
)
from aotc.kernels.machine import Machine
from aotc.kernels.quantization import Quantization
from aotc.mlir import Value, arith, ir, math

_LOWER_HALF = 0x0000FFFF
_QUIET = 0x00400000  # what makes any NaN one whose upper half is a NaN
_SIGN = 0x80000000
_EXPONENT = 0x7F800000
_FRACTION = 23  # bits of an f32

_WHOLE = 1.5 * 2**23  # a sum with it has no digits after the point
_WHOLE_BITS = 0x4B400000  # of it as f32

_F16_FRACTION = 10
_F16_LEAST, _F16_MOST = 2.0**-14, 65504.0  # of the numbers that are not subnormal
_F16_BEYOND = 2.0**16


def round_to(x: Value, dtype: str, machine: Machine | None = None) -> Value:
    """Emit f32 rounded to the nearest `dtype`, still f32; ties to even, NaN stays NaN.

    Args:
        x: the vector.
        dtype: `bf16` or `f16`; of another one the vector is as it is.
        machine: that computes it; None if that is not known.
    """
    if dtype == "bf16":
        return _round_to_bf16(x, machine)
    return _round_to_f16(x) if dtype == "f16" else x


def round_to_bytes(x: Value, quantization: Quantization) -> Value:
    """Emit the quantisation of a vector of f32 to bytes, held as i32; NaN gives 0.

    A sum with a large number rounds as `round_even` does (Knuth, The Art of Computer
    Programming 2, 4.2.2), and ends with the bits of the whole number.
    """
    low, high = (
        constant(x.type, number) for number in (quantization.low, quantization.high)
    )
    # of NaN and a number these give the number
    inside = arith.minnumf(arith.maxnumf(x, low), high)
    bits = bits_of(arith.addf(inside, constant(x.type, _WHOLE)))
    whole = arith.addi(bits, _integers(x, quantization.zero - _WHOLE_BITS))
    if quantization.low + quantization.zero == 0:
        return whole
    return arith.select(float_compare("UNO", x, x), _integers(x, 0), whole)


def _round_to_bf16(x: Value, machine: Machine | None) -> Value:
    """Emit rounding to bf16 by integer addition, or by the CPU's instruction.

    An instruction does that to whole vectors; what is below 2**-126 becomes 0.
    """
    count = 0 if machine is None or not machine.rounds_bf16 else machine.lanes
    if count and x.type.shape[0] % count == 0:
        assert machine is not None
        kind = vector_type(count, ir.BF16Type.get())
        parts = [
            call_intrinsic(machine.rounds_bf16, [part], kind)
            for part in split(x, count)
        ]
        return arith.extf(x.type, concatenate(parts))
    bits = bits_of(x)
    odd = arith.andi(arith.shrui(bits, _integers(x, 16)), _integers(x, 1))
    rounded = arith.addi(bits, arith.addi(odd, _integers(x, _LOWER_HALF >> 1)))
    nan = arith.ori(bits, _integers(x, _QUIET))
    found = arith.select(float_compare("UNO", x, x), nan, rounded)
    return arith.bitcast(x.type, arith.andi(found, _integers(x, ~_LOWER_HALF)))


def _round_to_f16(x: Value) -> Value:
    """Emit rounding to f16: add and subtract a number that drops the lower bits.

    That number is 1.5 times the power of two of `x`, times 2**13: f32 has so many bits
    more.
    """
    bits = bits_of(x)
    power = arith.andi(bits, _integers(x, _EXPONENT))
    power = arith.maxsi(power, bits_of(constant(x.type, _F16_LEAST)))
    power = arith.minsi(power, bits_of(constant(x.type, _F16_BEYOND)))
    more, half = _FRACTION - _F16_FRACTION << _FRACTION, 1 << _FRACTION - 1
    adder = arith.bitcast(x.type, arith.addi(power, _integers(x, more + half)))
    near = math.absf(arith.subf(arith.addf(x, adder), adder))
    infinity = constant(x.type, float("inf"))
    is_beyond = float_compare("OGT", near, constant(x.type, _F16_MOST))
    size = arith.select(is_beyond, infinity, near)
    sign = arith.andi(bits, _integers(x, _SIGN))
    return arith.bitcast(x.type, arith.ori(bits_of(size), sign))


def _integers(x: Value, value: int) -> Value:
    """Emit an i32 constant in all lanes of a vector like `x`."""
    signed = (value & 0xFFFFFFFF) - (value << 1 & 0x100000000)
    kind = ir.VectorType.get(x.type.shape, ir.IntegerType.get_signless(32))
    return constant(kind, signed)
