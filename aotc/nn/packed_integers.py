"""Integers of less than a byte, several of which share one."""

from __future__ import annotations

import numpy

from aotc import numpy as np
from aotc.tracing.array import Array
from aotc.tracing.conversion import astype


def unpack(packed: Array, bits: int, *, is_signed: bool = False) -> Array:
    """Unpack integers from bytes, to i8 or u8: the last axis is 8 / bits times as long.

    The first is in the lowest bits. By shifts alone, so that the range of the result
    is that of so many bits for who looks at the ops.

    Args:
        packed: of u8.
        bits: of an integer: 1, 2, 4 or 8.
        is_signed: whether its highest bit is a sign.
    """
    whole = astype(packed, "i8" if is_signed else "u8")
    if bits == 8:
        return whole
    *rest, count = whole.shape
    # the integer goes to the top of its byte, and from there down to the bottom
    tops = numpy.arange(8 - bits, -1, -bits).astype("i1" if is_signed else "u1")
    high = np.left_shift(np.expand_dims(whole, -1), tops)
    return np.reshape(np.right_shift(high, 8 - bits), (*rest, count * 8 // bits))
