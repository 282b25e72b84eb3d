"""Sums of many floats, in blocks.

Note [sums in blocks]: a sum of n numbers that are added one after another is wrong by
up to n u times the sum of their sizes, where u is the unit roundoff (2**-24 in f32).
The sums of n / b blocks of b numbers, added up, are wrong by at most (b + n / b) u
(Higham, "The accuracy of floating point summation", SIAM Journal on Scientific
Computing 14, 1993). IREE adds along an axis in series, 8 lanes at once: 1e7 squares
lost 1e-2 of their sum, and lose 1e-6 in blocks.

An axis of fixed size is split here. That only changes the shape of what is summed, so
what computes it is still merged with the sum. A size without a fit divisor is cut in
two: the blocks, and a rest.

A sum over a symbolic size is marked here: its additions may be reassociated. The
process that compiles splits what is marked (`aotc/worker/long_sums.py`) once IREE has
merged into the sum what computes its elements, so that they need no memory. Its last
block is of unknown length, and IREE's code for such blocks is slower: 4e6 numbers in 5
to 9 ms, where blocks of a fixed length take 1.5 ms (AVX2). So fixed sizes are split
here.
"""

from collections.abc import Sequence

from aotc.core import dtypes
from aotc.dialects.lowering import Lowering
from aotc.dialects.lowering.scalars import Body
from aotc.dialects.types import Tensor, bounds, element_count
from aotc.mlir import Value, arith, ir

LONGEST = 1 << 14  # what is added in series; its error is below 1e-5 in f32
BLOCK = 1 << 12  # of a longer sum over a symbolic size
_LEAST_BLOCK = 64
_LANES, _ROWS = 8, 32  # of the tiles that IREE makes of a reduction on AVX2


def is_long(x: Tensor, axes: Sequence[int]) -> bool:
    """Return whether a sum of `x` over these axes may have more than `LONGEST` floats.

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


def addition(dtype: str, *, is_long: bool) -> Body:
    """Return a body that emits `total + element`; long sums may be reassociated."""
    if not dtypes.is_float(dtype):
        return arith.addi
    if not is_long:
        return arith.addf
    mark = ir.Attribute.parse("#arith.fastmath<reassoc>")
    return lambda total, element: arith.addf(total, element, fastmath=mark)


def lowered_sum(low: Lowering, x: Value, source: Tensor, axes: Sequence[int]) -> Value:
    """Emit the sum of `x`, of type `source`, over `axes`, in its dtype."""
    in_blocks = is_long(source, axes)
    if in_blocks and all(isinstance(source.shape[axis], int) for axis in axes):
        for axis in sorted(axes, reverse=True):
            x = _along(low, x, source, axis)
            source = _reduced_type(source, [axis])
        return x
    add = addition(source.dtype, is_long=in_blocks)
    return low.reduce(x, _reduced_type(source, axes), axes, 0, add)


def with_few_axes(
    low: Lowering, x: Value, source: Tensor, axes: Sequence[int]
) -> tuple[Value, Tensor, list[int]]:
    """Emit a reshape that merges summed axes, if IREE would merge too many sums.

    Returns `x`, its type and the axes to sum over.

    Sums over three axes and more of which one is symbolic were one dispatch, which IREE
    3.13 refuses to compile, some in one of four runs ("large vector sizes", "exceeded
    stack allocation limit"): all but the last of such neighbours become one axis.
    """
    if all(isinstance(source.shape[axis], int) for axis in axes):
        return x, source, [*axes]
    groups: list[list[int]] = []
    for axis in range(source.rank):
        if groups and {groups[-1][-1], axis, axis + 1} <= set(axes):
            groups[-1].append(axis)
        else:
            groups.append([axis])
    shape = [element_count(tuple(source.shape[n] for n in group)) for group in groups]
    merged = source.with_shape(shape)
    summed = [n for n, group in enumerate(groups) if group[0] in axes]
    if len(groups) < source.rank:
        x = low.reshape(x, source, merged)
    return x, merged, summed


def block_of(size: int) -> int | None:
    """Return a divisor of `size` below and near its root; None if there is none.

    One that IREE vectorises whole is preferred: sum(exp(x)) of 4e6 numbers takes 2.7 ms
    in blocks of 1000, and 6 to 10 ms in blocks of 2000 (AVX2).
    """
    root = int(size**0.5)
    near = range(root, max(_LEAST_BLOCK, size // LONGEST) - 1, -1)
    blocks = [block for block in near if size % block == 0]
    even = (b for b in blocks if b % _LANES == 0 and size // b % _ROWS == 0)
    return next(even, blocks[0] if blocks else None)


def _reduced_type(source: Tensor, axes: Sequence[int]) -> Tensor:
    """Return a type without the axes."""
    return source.with_shape([n for i, n in enumerate(source.shape) if i not in axes])


def _along(low: Lowering, x: Value, source: Tensor, axis: int) -> Value:
    """Emit the sum along one axis, in blocks if it is long."""
    size, rest = source.shape[axis], _reduced_type(source, [axis])
    if not isinstance(size, int) or size <= LONGEST:
        return low.reduce(x, rest, [axis], 0, arith.addf)
    block = block_of(size)
    if block is None:
        parts = [_part(low, x, source, axis, *ends) for ends in _halves(size)]
        return low.pointwise(parts, rest, arith.addf)
    before, after = source.shape[:axis], source.shape[axis + 1 :]
    split = source.with_shape((*before, size // block, block, *after))
    sums = low.reshape(x, source, split)
    totals = _reduced_type(split, [axis + 1])
    sums = low.reduce(sums, totals, [axis + 1], 0, arith.addf)
    return _along(low, sums, totals, axis)


def _halves(size: int) -> list[tuple[int, int]]:
    """Return (start, end) of an axis' whole blocks, and of the rest."""
    block = 1 << (size.bit_length() // 2)
    whole = size - size % block
    return [(0, whole), (whole, size)]


def _part(
    low: Lowering, x: Value, source: Tensor, axis: int, start: int, end: int
) -> Value:
    """Emit the sum from `start` to `end` along one axis."""
    zeros = [0] * source.rank
    shape = [*source.shape]
    shape[axis] = end - start
    first = [*zeros]
    first[axis] = start
    part = source.with_shape(shape)
    taken = low.slice(x, part, tuple(first), [1] * source.rank)
    return _along(low, taken, part, axis)
