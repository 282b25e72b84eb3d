"""Sums of many floats, in blocks.

Note [sums in blocks]: a sum of n numbers that are added one after another is wrong by
up to n u times the sum of their sizes, where u is the unit roundoff (2**-24 in f32).
The sums of n / b blocks of b numbers, added up, are wrong by at most (b + n / b) u
(Higham, "The accuracy of floating point summation", SIAM Journal on Scientific
Computing 14, 1993). IREE adds along an axis in series, 8 lanes at once: 1e7 squares
lost 1e-2 of their sum, and lose 1e-6 in blocks.

A sum that may be long is marked here: its additions may be reassociated. The process
that compiles splits what is marked (`aotc/worker/long_sums.py`) once IREE has merged
into the sum what computes its elements, so that they need no memory.
"""

from collections.abc import Sequence
from typing import Any

from aotc import dtypes
from aotc.dialects.types import Tensor, bounds, element_count
from aotc.mlir import arith, ir

LONGEST = 1 << 14  # what is added in series; its error is below 1e-5 in f32
BLOCK = 1 << 12  # of a longer sum


def is_long(x: Tensor, axes: Sequence[int]) -> bool:
    """Whether a sum of `x` over these axes may be of more than `LONGEST` floats.

    A symbolic size without a maximum may be anything. But if another axis is always as
    long, as in scores of all tokens by all tokens, memory is full before sums are long:
    131072 by 131072 are 64 GiB of f32, and lose 1e-5 in series.
    """
    count = element_count(tuple(x.shape[axis] for axis in axes))
    if not dtypes.is_float(x.dtype) or bounds(count)[1] <= LONGEST:
        return False
    others = [size for axis, size in enumerate(x.shape) if axis not in axes]
    as_long = any(bounds(size - count)[0] >= 0 for size in others)
    return isinstance(count, int) or not as_long


def addition(dtype: str, *, is_long: bool) -> Any:
    """The body `total + element` of a sum, marked if that is long."""
    if not dtypes.is_float(dtype):
        return arith.addi
    if not is_long:
        return arith.addf
    mark = ir.Attribute.parse("#arith.fastmath<reassoc>")
    return lambda total, element: arith.addf(total, element, fastmath=mark)


def lowered_sum(low: Any, x: Any, source: Tensor, axes: Sequence[int]) -> Any:
    """`x`, of type `source`, summed over `axes`, in its dtype."""
    rest = source.with_shape([n for i, n in enumerate(source.shape) if i not in axes])
    add = addition(source.dtype, is_long=is_long(source, axes))
    return low.reduce(x, rest, axes, 0, add)
