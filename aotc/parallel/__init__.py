"""Processes that compute together: their exchange of arrays, and their ranks.

    group = parallel.current()                 # of `aotc run --ranks`, torchrun, mpirun
    total = group.all_reduce(np.ones(3))       # the same bits on each rank

A process is a rank of a group. An engine moves arrays between ranks; all that is
computed of them is computed here, in the order of the ranks, so that every engine gives
the same bits. The devices of a model (`aotc.collectives.Axis`) are divided among the
ranks: a process computes one of them, or several in threads (`devices`).

Needs NumPy, and nothing of the compiler.
"""

from __future__ import annotations

from aotc.parallel.devices import Device, LocalDevices
from aotc.parallel.environment import current
from aotc.parallel.group import Group

__all__ = ["Device", "LocalDevices", "Group", "current"]
