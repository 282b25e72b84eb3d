"""Plans of orders along an axis."""

from __future__ import annotations

from math import log2

from aotc.dialects.lowering.sorting import BLOCK
from aotc.dialects.ops.ordering import Argsort, is_few
from aotc.dialects.types import Size, SymbolicDim, Tensor, element_count
from aotc.kernels.machine import Machine
from aotc.kernels.schedule import Schedule
from aotc.kernels.typical import SORTED, typical_size

_LARGEST_HEAP = 1 << 16  # of which elements are in the second cache
# Float operations, eight to a nanosecond as measured on an EPYC of Zen 4: to compare an
# element with the top, and for one that is wanted to go a level through the heap.
# IREE's code takes so many for each element and each of a few that are wanted, or else
# for each element and each merge, where sorting blocks takes as long as some merges.
_SCAN, _STEP, _PASS, _MERGE, _MERGES = 8.0, 88.0, 2.4, 200.0, 2


def plan(op: Argsort, machine: Machine) -> Schedule | None:
    """Return the (empty) schedule of an argsort on the last axis; None for no kernel.

    How many positions are wanted is static, or all of the row.
    """
    source, result = Tensor.of(op.x), Tensor.of(op.y)
    size, count = source.shape[-1], result.shape[-1]
    if op.axis != source.rank - 1 or 0 in result.shape:
        return None
    if isinstance(count, SymbolicDim) and count != size:
        return None
    row = typical_size(size, SORTED)
    wanted = count if isinstance(count, int) else row
    if wanted > _LARGEST_HEAP:
        return None
    return Schedule() if _work(row, wanted) < _work_of_iree(row, wanted) else None


def _work(size: int, count: int) -> float:
    """Return the estimated cost of a kernel that finds `count` of `size` by a heap."""
    return _SCAN * size + _STEP * count * log2(size + 1)


def _work_of_iree(size: int, count: int) -> float:
    """Return the estimated cost of IREE's code for the same argsort."""
    if is_few(count, size):
        return _PASS * count * size
    whole = -(-size // BLOCK) * BLOCK
    return _MERGE * whole * (log2(whole / BLOCK) + _MERGES)


def workgroups(op: Argsort, schedule: Schedule) -> tuple[Size, Size]:
    """Return the numbers of workgroups: one for each row, and 1."""
    return element_count(Tensor.of(op.operands[0]).shape[:-1]), 1
