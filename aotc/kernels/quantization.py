"""Quantisation as graphs write it, in several ops that end with a cast to bytes.

    %1 = maximum(%x, low)         the least and the greatest byte, less the zero point
    %2 = minimum(%1, high)
    %3 = round_even(%2)        =  %5 = round_even(min(max(%x, low), high)) + zero
    %4 = add(%3, zero)
    %5 = cast(%4) : u8

Each op by itself keeps what a byte cannot hold: NaN through both bounds, and numbers
beyond i32 in the cast. Of all of them together one clamp and one sum are left.

Sums of bf16 and f16 are rounded, but none of those that are bytes: they have all whole
numbers up to 256, and what is beyond stays beyond.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from aotc.dialects.functions.walking import defining_op
from aotc.dialects.graph import GraphOp
from aotc.dialects.lowering.conversion import integer_bounds
from aotc.dialects.ops.binary import Add, Maximum, Minimum
from aotc.dialects.ops.rounding import RoundEven
from aotc.dialects.ops.selection import Cast, Clamp
from aotc.dialects.patterns.values import splat_of
from aotc.dialects.types import Tensor
from aotc.kernels.elementwise import FLOATS, NARROW
from aotc.mlir import Value

_MOST = 2**21  # of bounds: f32 has all sums of such numbers and bytes
_MOST_OF_HALVES = 2**8  # of what is added: bf16 has all whole numbers up to it


@dataclass(frozen=True)
class Quantization:
    """A quantisation to bytes: `round_even(min(max(source, low), high)) + zero`.

    Args:
        source: of floats that are f32 in vectors.
        low: the least number; whole.
        high: the greatest one; whole, and not less.
        zero: what is added, so that the sums are bytes.
    """

    source: Value
    low: int
    high: int
    zero: int

    @classmethod
    def of(cls, op: GraphOp) -> Quantization | None:
        """Match a cast to bytes and the quantisation ops before it, else None."""
        if not isinstance(op, Cast) or Tensor.of(op.x).dtype not in FLOATS:
            return None
        dtype = Tensor.of(op.y).dtype
        if dtype not in NARROW:
            return None
        found = _before_rounding(cls(op.x, *integer_bounds(dtype), 0))
        if found is None or not -_MOST <= found.low <= found.high <= _MOST:
            return None
        if Tensor.of(op.x).dtype != "f32" and abs(found.zero) > _MOST_OF_HALVES:
            return None
        return found


def _before_rounding(matched: Quantization) -> Quantization | None:
    """Extend a match backwards, past its rounding; None if there is no rounding."""
    is_rounded = False
    while True:
        op = defining_op(matched.source)
        inner = _before_clamp(matched, op)
        if isinstance(op, RoundEven):
            is_rounded = True
            inner = replace(matched, source=op.x)
        elif isinstance(op, Add) and not is_rounded:
            inner = _before_add(matched, op)
        if inner is None:
            return matched if is_rounded else None
        matched = inner


def _before_clamp(matched: Quantization, op: object) -> Quantization | None:
    """Extend a match backwards over one clamp to whole numbers; None for other ops."""
    low, high = float(matched.low), float(matched.high)
    below: float | None = low
    above: float | None = high
    source: Value
    if isinstance(op, Clamp):
        source, below, above = op.x, splat_of(op.low), splat_of(op.high)
    elif isinstance(op, Maximum):
        source, below = _split_constant(op)
    elif isinstance(op, Minimum):
        source, above = _split_constant(op)
    else:
        return None
    if below is None or above is None or below > high or above < max(low, below):
        return None
    if not (below.is_integer() and above.is_integer()):
        return None
    bounds = int(max(low, below)), int(min(high, above))
    return Quantization(source, *bounds, matched.zero)


def _before_add(matched: Quantization, op: Add) -> Quantization | None:
    """Extend a match backwards over an added whole number; None for other numbers."""
    source, number = _split_constant(op)
    if number is None or not number.is_integer() or abs(number) > _MOST:
        return None
    offset = int(number)
    low, high = matched.low - offset, matched.high - offset
    return Quantization(source, low, high, matched.zero + offset)


def _split_constant(op: Maximum | Minimum | Add) -> tuple[Value, float | None]:
    """Return an op's varying operand, and the other's constant number or None."""
    number = splat_of(op.rhs)
    if number is not None:
        return op.lhs, number
    return op.rhs, splat_of(op.lhs)
