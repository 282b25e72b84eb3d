"""Ranges of integers, by the ops that make them."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from aotc.core.dtypes import INTEGERS
from aotc.dialects.functions.walking import defining_op
from aotc.dialects.graph import GraphOp
from aotc.dialects.lowering.conversion import integer_bounds
from aotc.dialects.ops.binary import Maximum, Minimum, Subtract
from aotc.dialects.ops.bits import BitwiseAnd, ShiftRight
from aotc.dialects.ops.creation import Constant
from aotc.dialects.ops.padding import Pad
from aotc.dialects.ops.rounding import RoundEven
from aotc.dialects.ops.selection import Cast, Clamp
from aotc.dialects.ops.shape import Broadcast, Reshape
from aotc.dialects.ops.slicing import Concatenate
from aotc.dialects.patterns.values import splat_of
from aotc.dialects.types import Tensor
from aotc.mlir import Value

Range = tuple[int, int]
Known = Mapping[Value, Range]
_NOTHING: Known = {}


def value_range(value: Value, known: Known = _NOTHING) -> Range:
    """Return bounds on the integer elements of a value, by interval analysis of its
    ops.

    Args:
        value: of integers.
        known: the ranges of some arguments, such as weights.
    """
    low, high = integer_bounds(Tensor.of(value).dtype)
    found = known.get(value) or _range_of(value, known)
    if found is None or not low <= found[0] <= found[1] <= high:
        return low, high  # it may wrap around
    return found


def _range_of(value: Value, known: Known) -> Range | None:
    """Return the interval implied by the defining op, ignoring overflow; None if
    unknown.
    """
    op = defining_op(value)
    match op:
        case Constant():
            array = np.asarray(op.value)
            return (int(array.min()), int(array.max())) if array.size else None
        case Clamp():
            return _between(op, known)
        case Maximum() | Minimum() | BitwiseAnd() | ShiftRight() | Subtract():
            return _with_number(op, known)
        case Cast() if Tensor.of(op.x).dtype.lstrip("iu").isdigit():
            return value_range(op.x, known)
        case Cast():
            return _of_clamped(op.x)
        case Broadcast():
            return value_range(op.x, known)
        case Concatenate():
            ranges = [value_range(x, known) for x in op.operands]
            return min(x for x, _ in ranges), max(x for _, x in ranges)
        case Pad():
            low, high = value_range(op.x, known)
            return min(low, int(op.value)), max(high, int(op.value))
        case GraphOp() if type(op).rearranges and len(op.operands) == 1:
            return value_range(op.operands[0], known)
    return None


def _between(op: Clamp, known: Known) -> Range | None:
    """Return the interval of a clamp of integers; None if a bound is unknown."""
    bounds = splat_of(op.low), splat_of(op.high)
    return None if None in bounds else _within(value_range(op.x, known), *bounds)


def _of_clamped(x: Value) -> Range | None:
    """Return the integer interval of clamped floats after a cast (NaN is 0); None if
    unknown.
    """
    op = defining_op(x)
    while isinstance(op, (Reshape, Broadcast, RoundEven)):
        op = defining_op(op.x)
    bounds = (op.low, op.high) if isinstance(op, Clamp) else ()
    ends = [splat_of(bound) for bound in bounds]
    if not ends or any(end is None or not math.isfinite(end) for end in ends):
        return None
    found = [float(end or 0) for end in ends]  # the first may be the greater one
    return min(0, math.floor(min(found))), max(0, math.ceil(max(found)))


def _with_number(op: GraphOp, known: Known) -> Range | None:
    """Return the interval of a binary op of integers and one known number; else
    None.
    """
    lhs, rhs = op.operands
    number = splat_of(rhs)
    if number is None and type(op).commutes:
        lhs, number = rhs, splat_of(lhs)
    if number is None:
        return None
    low, high = value_range(lhs, known)
    other = int(number)
    if isinstance(op, Maximum):
        return _within((low, high), other, None)
    if isinstance(op, Minimum):
        return _within((low, high), None, other)
    if isinstance(op, Subtract):
        return low - other, high - other
    if isinstance(op, ShiftRight):
        return (low >> other, high >> other) if 0 <= other < 64 else None
    return (0, other) if other >= 0 else None


def _within(found: Range, low: float | None, high: float | None) -> Range:
    """Return an interval clamped to optional bounds, first from below, then from
    above.
    """
    least, greatest = found
    if low is not None:
        least, greatest = max(least, int(low)), max(greatest, int(low))
    if high is not None:
        least, greatest = min(least, int(high)), min(greatest, int(high))
    return least, greatest


def may_wrap(op: Subtract) -> bool:
    """Return whether a difference of integers may overflow its dtype."""
    (low, high), (least, most) = value_range(op.lhs), value_range(op.rhs)
    return not _holds(Tensor.of(op.y).dtype, (low - most, high - least))


def keeps_values(cast: Cast) -> bool:
    """Return whether a cast between integer dtypes preserves all possible values."""
    kinds = [Tensor.of(value).dtype for value in (cast.x, cast.y)]
    return all(kind in INTEGERS for kind in kinds) and _holds(
        kinds[1], value_range(cast.x)
    )


def _holds(dtype: str, found: Range) -> bool:
    """Return whether a range of integers fits a dtype."""
    low, high = integer_bounds(dtype)
    return low <= found[0] and found[1] <= high
