"""How threads share the workgroups of a kernel: in runs, which IREE dispatches.

IREE's threads claim what is dispatched one by one, or by eights where there are eight
for each thread (`tiles_per_reservation` in block_processor.c of its driver local-task).
Panels of columns times blocks of rows divide badly by that: of 39, two threads compute
23 and 16. And a thread that waits for the other one's last claim sleeps after 10 µs,
so that the next dispatch has to wake it. So a dispatch has shares: runs of neighbouring
workgroups, of almost equal length, in a number that divides well and that the work is
worth. Where a call decides about sizes, it decides about that number, too.
"""

from __future__ import annotations

from collections.abc import Callable

from aotc.dialects.lowering.scalars import int_compare
from aotc.kernels import grain, vectors
from aotc.kernels.vectors import add, index
from aotc.mlir import Value, arith

# 2, 4, 8, … threads divide each of them evenly, one by one or by eights.
_COUNTS = (1, 2, 4, 8, 16, 64, 256)
_RUN = 2  # workgroups that most runs have at least, where neighbours compute some twice
_MOST_RUNS = 64  # memory for the scratch of each is set aside, however many there are


def share_count(work: int, workgroups: int) -> int:
    """How many shares a dispatch has: at least one, else no more than workgroups.

    Args:
        work: of all of them, as `facts.work_of` has it.
        workgroups: how many there are.
    """
    wanted = max(1, min(work // grain.SHARE, workgroups))
    return max(count for count in _COUNTS if count <= wanted)


def run_count(work: int, workgroups: int) -> int:
    """How many shares a dispatch of a family that `has_runs` has at most.

    Fewer than others have: each computes again some of what its neighbour computes.
    """
    return min(share_count(work, -(-workgroups // _RUN)), _MOST_RUNS)


def run_count_value(work: Value, workgroups: Value) -> Value:
    """`run_count` of index values, at the insertion point."""
    runs = arith.ceildivui(workgroups, index(_RUN))
    return arith.minui(share_count_value(work, runs), index(_MOST_RUNS))


def share_count_value(work: Value, workgroups: Value) -> Value:
    """`share_count` of index values, at the insertion point."""
    wanted = arith.minui(arith.divui(work, index(grain.SHARE)), workgroups)
    found = index(_COUNTS[0])
    for count in _COUNTS[1:]:
        is_enough = int_compare("uge", wanted, index(count))
        found = arith.select(is_enough, index(count), found)
    return found


def run_of_share(
    number: Value, count: Value, workgroups: tuple[Value, Value]
) -> tuple[Value, Value]:
    """The first workgroup of a share and the one after its last, of all in order.

    Args:
        number: of the share.
        count: of all shares.
        workgroups: how many there are along two axes.
    """
    total = arith.muli(*workgroups)
    first, last = (
        arith.divui(arith.muli(share, total), count)
        for share in (number, add(number, 1))
    )
    return first, last


def write_share(
    number: Value,
    count: Value,
    workgroups: tuple[Value, Value],
    write: Callable[[Value, Value], None],
) -> None:
    """Do something for each workgroup of a share, at the insertion point.

    Args:
        number: of the share.
        count: of all shares.
        workgroups: how many there are along two axes, the first of them innermost.
        write: is given the numbers of a workgroup.
    """
    columns, _ = workgroups

    def write_workgroup(item: Value) -> None:
        write(arith.remui(item, columns), arith.divui(item, columns))

    run = run_of_share(number, count, workgroups)
    vectors.repeat_for(*run, 1, write_workgroup)
