"""Scalar bodies with exact results: signs, shifts, integer division, comparison.

Each takes elements of operands, inside of a `linalg.generic`, and returns an element.
"""

from collections.abc import Callable
from typing import Any

from aotc import dtypes
from aotc.mlir import arith, ir, math


def constant(element: Any, value: float) -> Any:
    """`value` as a scalar of MLIR type `element`."""
    if isinstance(element, ir.IntegerType):
        return arith.ConstantOp(element, ir.IntegerAttr.get(element, int(value))).result
    return arith.ConstantOp(element, ir.FloatAttr.get(element, float(value))).result


def float_compare(predicate: str, x: Any, y: Any) -> Any:
    """Compare floats; "greater" is asked the other way, where VMVX gets NaN right."""
    if predicate in ("OGT", "OGE"):
        predicate, x, y = predicate.replace("G", "L"), y, x
    return arith.cmpf(getattr(arith.CmpFPredicate, predicate), x, y)


def int_compare(predicate: str, x: Any, y: Any) -> Any:
    """Compare integers: eq, ne, and lt, le, gt, ge after `s` or `u` for the sign."""
    return arith.cmpi(getattr(arith.CmpIPredicate, predicate), x, y)


def sign_float(x: Any) -> Any:
    """-1, 0 or 1; zero and NaN stay what they are."""
    unit = with_sign(constant(x.type, 1.0), x)
    nonzero = float_compare("OLT", constant(x.type, 0.0), math.absf(x))
    return arith.select(nonzero, unit, x)


def with_sign(size: Any, x: Any) -> Any:
    """A `size` that is not negative, with the sign of `x` (VMVX has no copysign)."""
    bits = _bits(x)
    negative = int_compare("slt", bits, constant(bits.type, 0))
    return arith.select(negative, arith.negf(size), size)


def is_nan(x: Any) -> Any:
    """Whether a float is NaN, by its bits: VMVX takes `x != x` for false."""
    bits = _bits(x)
    width, exponent = x.type.width, _EXPONENT_BITS[str(x.type)]
    infinity = ((1 << exponent) - 1) << (width - 1 - exponent)
    size = arith.andi(bits, constant(bits.type, (1 << (width - 1)) - 1))
    return int_compare("sgt", size, constant(bits.type, infinity))


_EXPONENT_BITS = {"f16": 5, "bf16": 8, "f32": 8, "f64": 11}


def _bits(x: Any) -> Any:
    return arith.bitcast(ir.IntegerType.get_signless(x.type.width), x)


def sign_int(x: Any) -> Any:
    """-1, 0 or 1: max(min(x, 1), -1)."""
    below = arith.minsi(x, constant(x.type, 1))
    return arith.maxsi(below, constant(x.type, -1))


def invert(x: Any) -> Any:
    """All bits flipped."""
    return arith.xori(x, constant(x.type, -1))


def shift(operation: Callable[..., Any], beyond: Callable[..., Any]) -> Any:
    """A shift that is also defined for negative counts and those beyond the width.

    Args:
        operation: the shift proper.
        beyond: the result for such a count, from the shifted element.
    """

    def body(x: Any, count: Any) -> Any:
        width = constant(x.type, x.type.width)
        defined = int_compare("ult", count, width)
        shifted = operation(x, arith.select(defined, count, constant(x.type, 0)))
        return arith.select(defined, shifted, beyond(x))

    return body


def unsigned(operation: Callable[..., Any]) -> Callable[..., Any]:
    """`operation` in 32 bits or more: VMVX extends narrow integers by their sign."""

    def body(x: Any, y: Any) -> Any:
        if x.type.width >= 32:
            return operation(x, y)
        i32 = ir.IntegerType.get_signless(32)
        wide = operation(arith.extui(i32, x), arith.extui(i32, y))
        return arith.trunci(x.type, wide)

    return body


def zero(x: Any) -> Any:
    """0 in the type of `x`."""
    return constant(x.type, 0)


def sign_bits(x: Any) -> Any:
    """The sign bit in every place: 0 or -1."""
    return arith.shrsi(x, constant(x.type, x.type.width - 1))


def divide_signed(x: Any, y: Any) -> Any:
    """Towards zero; -1 for y = 0, and no trap for the one overflowing quotient."""
    zero, minus_one = constant(x.type, 0), constant(x.type, -1)
    by_zero = int_compare("eq", y, zero)
    negating = int_compare("eq", y, minus_one)
    risky = arith.ori(by_zero, negating)
    quotient = arith.divsi(x, arith.select(risky, constant(x.type, 1), y))
    negated = arith.subi(zero, x)
    return arith.select(by_zero, minus_one, arith.select(negating, negated, quotient))


def divide_unsigned(x: Any, y: Any) -> Any:
    """All ones for y = 0."""
    by_zero = int_compare("eq", y, constant(x.type, 0))
    quotient = unsigned(arith.divui)(x, arith.select(by_zero, constant(x.type, 1), y))
    return arith.select(by_zero, constant(x.type, -1), quotient)


def comparison(dtype: str, direction: str) -> Callable[..., Any]:
    """The body that compares two elements of `dtype`."""
    if dtypes.is_float(dtype):
        predicate = "UNE" if direction == "ne" else f"O{direction.upper()}"
        return lambda x, y: float_compare(predicate, x, y)
    if direction not in ("eq", "ne"):
        signed = dtype in dtypes.SIGNED
        direction = ("s" if signed else "u") + direction
    return lambda x, y: int_compare(direction, x, y)
