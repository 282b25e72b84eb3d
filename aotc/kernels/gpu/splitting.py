"""Reductions in parts: the number of programs that share the sum of one result.

A chip is idle where few results are made of many elements each: a product of few rows
by a weight of much depth, the gradient of a bias, the statistics of a batch. Such an op
is better in two steps, of which the first makes the sums of parts, and the second adds
these up, in an order that is always the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import inf

from aotc.core.dtypes import bits
from aotc.dialects.graph import GraphOp
from aotc.dialects.ops.contraction import DotGeneral
from aotc.dialects.ops.normalization import Normalize
from aotc.dialects.ops.reduction import Reduction
from aotc.dialects.types import Size, Tensor, element_count
from aotc.kernels.gpu import matrices, products, rows
from aotc.kernels.gpu.machines import Gpu
from aotc.kernels.planning.reductions import leading_axes, reduced_axes
from aotc.kernels.terms import Term
from aotc.kernels.typical import typical_size

_MOST = 64  # parts
_MOST_OF_SUMS = 256
_LEAST = 64  # elements of a part
_NEAR = 1.1  # of the best time
_GAIN = 0.7  # of the time that one step takes, at most
_WIDE = 4  # bytes of a sum of a part


def part_count(
    op: GraphOp, machine: Gpu, term_of_op: Callable[[GraphOp], Term | None]
) -> int:
    """Return how many partial sums make a reduction fastest on a chip; 1 for no split.

    The sum is split along the first axis that a product sums over, or along all axes
    from the first one on that a reduction goes over.

    Args:
        op: a product, a reduction, or a norm over the first axes.
        machine: the chip.
        term_of_op: gives the term of an op by itself.
    """
    axis = split_axis(op)
    if axis is None:
        return 1
    with op.operation.context:
        term = term_of_op(op)
        if term is None:
            return 1
        read = _bytes_read(op)
        time = _product_time(term, machine) or _rows_time(term, machine, read)
    if time is None:
        return 1
    most = _MOST if isinstance(op, DotGeneral) else _MOST_OF_SUMS
    counts = [n for n in _divisors(axis, most) if _is_long(op, axis, n)]
    times = {count: time(count) for count in counts}
    if not times:
        return 1
    best = min(times, key=lambda count: times[count])
    first = _first_size(op)
    if times.get(first, inf) <= _NEAR * times[best]:
        best = first  # which is an axis already
    return best if times[best] < _GAIN * time(1) else 1


def split_axis(op: GraphOp) -> int | None:
    """Return the size of the summed axes that may be split; None if none may.

    None as well for what is no sum of products, no reduction and no norm.
    """
    size: Size
    if isinstance(op, DotGeneral) and op.lhs_contract:
        size = Tensor.of(op.lhs).shape[op.lhs_contract[0]]
    elif isinstance(op, (Reduction, Normalize)) and leading_axes(op):
        shape = Tensor.of(op.x).shape
        size = element_count(shape[: len(leading_axes(op))])
    else:
        return None
    return size if isinstance(size, int) else None


def _first_size(op: GraphOp) -> int:
    """Return the static size of the first axis that an op sums over."""
    axis = op.lhs_contract[0] if isinstance(op, DotGeneral) else 0
    size = Tensor.of(op.operands[0]).shape[axis]
    assert isinstance(size, int)
    return size


def _bytes_read(op: GraphOp) -> int | None:
    """Return the bytes of a norm's operand; None for other ops."""
    if not isinstance(op, Normalize):
        return None
    kind = Tensor.of(op.x)
    return typical_size(kind.elements, 1 << 20) * bits(kind.dtype) // 8


def _divisors(size: int, most: int) -> list[int]:
    """Return the divisors of a size from 2 to `most`."""
    return [count for count in range(2, most + 1) if size % count == 0]


def _is_long(op: GraphOp, axis: int, parts: int) -> bool:
    """Return whether each part of a split sum has enough elements for a program."""
    if isinstance(op, DotGeneral):
        inner = [Tensor.of(op.lhs).shape[n] for n in op.lhs_contract[1:]]
    else:
        others = reduced_axes(op)[len(leading_axes(op)) :]
        inner = [Tensor.of(op.operands[0]).shape[n] for n in others]
    rest = typical_size(element_count(tuple(inner)), _LEAST)
    return axis // parts * rest >= _LEAST


def _product_time(term: Term, machine: Gpu) -> Callable[[int], float] | None:
    """Return a function from a number of parts to the modelled time of a product."""
    anchor = products.anchor_of(term)
    if anchor is None:
        return None
    whole, dtype = matrices.Counts.of(anchor), matrices.factor_dtype(anchor)
    results = whole.batch * whole.rows * whole.columns

    def time(parts: int) -> float:
        own = matrices.Counts(
            whole.batch * parts, whole.rows, whole.columns, whole.depth // parts
        )
        tile = matrices.fastest((own,), dtype, machine)
        product = matrices.nanoseconds(tile, own, dtype, machine)
        return product + _sum_time(results, parts, machine)

    return time


def _rows_time(
    term: Term, machine: Gpu, read: int | None
) -> Callable[[int], float] | None:
    """Return a function from a number of parts to the modelled time of a reduction.

    Args:
        term: of it.
        machine: the chip.
        read: bytes that it reads; None for those of the term.
    """
    anchor = rows.anchor_of(term)
    if anchor is None:
        return None
    work = rows.ReductionWork.of(term, anchor)
    if read is not None:
        work = replace(work, moved=read)

    def time(parts: int) -> float:
        found = rows.nanoseconds(work.in_parts(parts), machine)
        return found + _sum_time(work.kept, parts, machine)

    return time


def _sum_time(results: int, parts: int, machine: Gpu) -> float:
    """Return the modelled nanoseconds of adding up the partial sums of each result."""
    if parts == 1:
        return 0
    moved = (parts + 1) * results * _WIDE
    return rows.nanoseconds(
        rows.ReductionWork(results, parts, moved, is_beside=True), machine
    )
