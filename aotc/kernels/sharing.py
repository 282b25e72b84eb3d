"""Shares of a kernel's workgroups among threads: runs that IREE dispatches.

IREE's threads claim what is dispatched one by one, or by eights where there are eight
for each thread (`tiles_per_reservation` in block_processor.c of its driver local-task).
Panels of columns times blocks of rows divide badly by that: of 39, two threads compute
23 and 16. And a thread that waits for the other one's last claim sleeps after 10 µs,
so that the next dispatch has to wake it. So a dispatch has shares: runs of neighbouring
workgroups, of almost equal length, in a number that divides well and that the work is
worth. Where a call decides about sizes, it decides about that number, too.
"""

from __future__ import annotations

from aotc.kernels import grain

# 2, 4, 8, … threads divide each of them evenly, one by one or by eights.
COUNTS = (1, 2, 4, 8, 16, 64, 256)
RUN = 2  # workgroups that most runs have at least, where neighbours compute some twice
MOST_RUNS = 64  # memory for the scratch of each is set aside, however many there are


def share_count(work: int, workgroups: int) -> int:
    """Return how many shares, claimed by threads, a dispatch's workgroups form.

    Args:
        work: of all of them, as `facts.work_of` has it.
        workgroups: how many there are.
    """
    wanted = max(1, min(work // grain.SHARE, workgroups))
    return max(count for count in COUNTS if count <= wanted)


def run_count(work: int, workgroups: int) -> int:
    """Return the most shares of a dispatch of a kernel family that `has_runs`.

    Fewer than others have: each computes again some of what its neighbour computes.
    """
    return min(share_count(work, -(-workgroups // RUN)), MOST_RUNS)
