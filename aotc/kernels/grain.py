"""Grain sizes: the work that is worth code, a workgroup or a thread, in one unit.

The unit is a float operation, as in the work of a region (`facts.work_of`); to read or
write a byte takes as long as `BYTE` of them. A workgroup has some microseconds of work:
to begin a smaller one would cost too much, and larger ones are shared less evenly.
Families differ in it, because schedules would with one value for all. Schedules of one
op for one machine are compared by cycles (`Machine.tile_cycles`).
"""

from __future__ import annotations

BYTE = 2
_ELEMENT = 2 * 4 * BYTE  # of f32, that is read and written

# of an op, at least: what IREE makes of smaller ones is as fast as a kernel
LEAST = 1 << 14
LEAST_OF_NORM = 1 << 11  # for which IREE has three dispatches or more

# of a workgroup, at least
PRODUCT = 100_000
WINDOWS = 50_000
ROWS = 1 << 17
COLUMNS = 1 << 20  # tens of microseconds
MOVEMENT = 1 << 18

LINE_OF_WINDOWS = 2_000_000  # of one workgroup, at most: else they share its channels
SHARE = 300_000  # of a run of workgroups that a thread claims, at least


def elements(work: int) -> int:
    """Return how many f32 elements can be read and written for the cost `work`."""
    return work // _ELEMENT
