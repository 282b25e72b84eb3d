"""Calls and devices when the process forks or ends.

A fork copies memory and not the threads that work on it, so that nothing may be half
done in it: a fork waits until calls in flight are over. In the child, a pool of threads
is gone (`lost_pool`); calls that compute in the calling thread go on. To close a device
means to wait for its threads, which a child would do for ever: it keeps them open.

An interpreter that ends takes away what a call in another thread still uses. So the end
waits for calls in flight and lets no new one begin. (Daemon threads alone can be in a
call then; others are waited for anyway.)
"""

from __future__ import annotations

import atexit
import ctypes
import os
import threading
from contextlib import ExitStack
from typing import TYPE_CHECKING
from weakref import WeakSet

from aotc.errors import SetupError

if TYPE_CHECKING:
    from aotc.runtime.iree_types import HalDevice


class _Process:
    """Locks and devices of this process, for a fork or its end."""

    def __init__(self) -> None:
        self.calls: WeakSet[threading.RLock] = WeakSet()
        self.copies: WeakSet[threading.RLock] = WeakSet()
        self.devices: list[HalDevice] = []
        self.pooled: list[HalDevice] = []
        self.lost_pool = False
        self.held = ExitStack()

    def hold_calls(self) -> None:
        """Wait for running calls, and block new ones until `let_calls_go`.

        Locks of copies come last, as for whoever takes both.
        """
        held = ExitStack()
        for lock in [*self.calls, *self.copies]:
            held.enter_context(lock)
        self.held = held

    def let_calls_go(self) -> None:
        """Allow calls again."""
        self.held.close()

    def enter_child(self) -> None:
        """Prepare the child of a fork: allow calls, mark thread pools as lost, leak
        devices.
        """
        self.let_calls_go()
        self.lost_pool = self.lost_pool or bool(self.pooled)
        for device in self.devices:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(device))


_process = _Process()


def call_lock() -> threading.RLock:
    """Return a new lock for one VM context, which runs one call at a time.

    Who holds it may make several calls. It is held while IREE does anything for a call
    but the copying of its inputs.
    """
    lock = threading.RLock()
    _process.calls.add(lock)
    return lock


def copy_lock() -> threading.RLock:
    """Return a new lock for copying inputs, which a running call does not hold.

    Who holds it takes no `call_lock`.
    """
    lock = threading.RLock()
    _process.copies.add(lock)
    return lock


def note_open(device: HalDevice, *, pooled: bool) -> None:
    """Record an open device, and whether a pool of threads does its work."""
    _process.devices.append(device)
    if pooled:
        _process.pooled.append(device)


def has_pool(device: HalDevice) -> bool:
    """Return whether a device computes on a pool of threads."""
    return any(device is each for each in _process.pooled)


def require_pool() -> None:
    """Raise if this process is a fork, which has lost the threads of the pool.

    Raises:
        SetupError: `forked`.
    """
    if _process.lost_pool:
        raise SetupError(
            "forked",
            "expected the process that loaded a model with several threads, got a fork "
            "of it, which has none of these threads",
            hint="load with threads=1, or load after the fork, or start processes by "
            "multiprocessing's 'spawn'",
        )


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_process.hold_calls,
        after_in_parent=_process.let_calls_go,
        after_in_child=_process.enter_child,
    )
atexit.register(_process.hold_calls)
