"""Shares of a dispatch, as code: their number, and the work of each.

See `aotc.kernels.sharing` for why there are shares.
"""

from __future__ import annotations

from collections.abc import Callable

from aotc.dialects.lowering.scalars import int_compare
from aotc.kernels import grain
from aotc.kernels.cpu import loops
from aotc.kernels.cpu.vectors import add, index
from aotc.kernels.sharing import COUNTS, MOST_RUNS, RUN
from aotc.mlir import Value, arith


def run_count_value(work: Value, workgroups: Value) -> Value:
    """Emit the most runs of a dispatch, as `run_count` of `kernels.sharing` has it."""
    runs = arith.ceildivui(workgroups, index(RUN))
    return arith.minui(share_count_value(work, runs), index(MOST_RUNS))


def share_count_value(work: Value, workgroups: Value) -> Value:
    """Emit the number of shares, as `share_count` of `kernels.sharing` has it."""
    wanted = arith.minui(arith.divui(work, index(grain.SHARE)), workgroups)
    found = index(COUNTS[0])
    for count in COUNTS[1:]:
        is_enough = int_compare("uge", wanted, index(count))
        found = arith.select(is_enough, index(count), found)
    return found


def run_of_share(
    number: Value, count: Value, workgroups: tuple[Value, Value]
) -> tuple[Value, Value]:
    """Emit the first workgroup of a share, and the one after its last.

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
    """Emit a loop over the workgroups of a share.

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
    loops.repeat_for(*run, 1, write_workgroup)
