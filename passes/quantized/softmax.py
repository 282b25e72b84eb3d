"""Recognise a softmax of bytes whose results end as bytes.

Of bytes q that stand for s q + c, the power of e of each, less the largest of its row,
is that of s times a difference of two bytes. There are 256 of them, which the op
`byte_softmax` adds up as whole numbers, in units of 2**-24: each is wrong by half a
unit and 1.5 * 2**-24 of itself at most, so the share p of one of n by

    (n p + 1) 2**-25 + 2**-22 p

at most, with the two roundings that follow. Bytes are those of the exact shares but
where these are so near to the middle between two levels; on all targets the same.
"""

from __future__ import annotations

import numpy as np

from aotc.dialects.graph import GraphOp
from aotc.dialects.lowering.conversion import integer_bounds
from aotc.dialects.ops.binary import Add, Divide, Maximum, Minimum, Multiply, Subtract
from aotc.dialects.ops.rounding import RoundEven
from aotc.dialects.ops.selection import Clamp
from aotc.mlir import Operation, Value
from aotc.passes.quantized.numbers import Numbers, is_quantization, known_number
from aotc.passes.quantized.reading import moves, operand_read

Array = np.ndarray

_BYTES = 256
_MOST_STEPS = 2.0**16  # of what a softmax is rounded to, in 1
_ROUNDED = 2.0**-22  # of a number that was rounded a few times
_STEADY = (Add, Clamp, Maximum, Minimum, RoundEven, Subtract)  # add no error


def even_step(numbers: Array, dtype: str) -> float | None:
    """Return the spacing of the numbers that byte values stand for; None unless it is
    even.

    None unless they are as far apart everywhere, and greater for greater bytes.

    Args:
        numbers: what each byte stands for, from 0 to 255 by its bits, of f32.
        dtype: of the bytes.
    """
    if len(numbers) != _BYTES or numbers.dtype != np.float32:
        return None
    found = np.roll(numbers, integer_bounds(dtype)[0]).astype(np.float64)
    spread = found[-1] - found[0]  # far from 0, floats are rounded to coarser steps
    step = spread / (_BYTES - 1)
    if not (np.isfinite(found).all() and step > 0):
        return None
    even = found[0] + step * np.arange(_BYTES)
    is_even = np.abs(even - found) <= _ROUNDED * spread
    return float(step) if is_even.all() else None


def is_rounded_coarsely(value: Value, numbers: Numbers) -> bool:
    """Return whether all uses of values up to 1 round them to coarse enough bytes.

    Args:
        value: of the numbers, which may be scaled and moved before they are rounded.
        numbers: weights that are one number.
    """
    return _is_read_coarsely(value, numbers, 1.0)


def _is_read_coarsely(value: Value, numbers: Numbers, steps: float) -> bool:
    """Return whether all uses round `steps` times a value to at most 2**16 levels."""
    readers = [use.owner.opview for use in value.uses]
    return bool(readers) and all(
        _rounds_coarsely(op, value, numbers, steps) for op in readers
    )


def _rounds_coarsely(
    op: Operation, value: Value, numbers: Numbers, steps: float
) -> bool:
    """Return whether one user of a value rounds it, directly or later, coarsely
    enough.
    """
    if is_quantization(op):
        return steps <= _MOST_STEPS
    factor = _scaling(op, value, numbers)
    if factor is None:
        return False
    return _is_read_coarsely(op.results[0], numbers, steps * factor)


def _scaling(op: Operation, value: Value, numbers: Numbers) -> float | None:
    """Return by what factor an op may scale differences of `value`; None if unknown."""
    if not isinstance(op, GraphOp):
        return None
    read = operand_read(op, numbers)
    if read is None or read != value:
        return None
    if moves(op) or isinstance(op, _STEADY):
        return 1.0
    if isinstance(op, Multiply):
        factor = known_number(op.rhs if op.lhs == value else op.lhs, numbers)
        return None if factor is None else abs(float(factor))
    if isinstance(op, Divide) and op.lhs == value:
        number = known_number(op.rhs, numbers)
        return None if number is None or not number else abs(1 / float(number))
    return None
