"""Locks between processes: one works, others wait for its result.

A lock is a file that is locked (`flock`), so that the lock of a process ends with it,
however it ends. Advisory: where files cannot be made or locked, nobody waits.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

try:
    import fcntl
except ImportError:  # not a POSIX system
    fcntl = None  # type: ignore[assignment]

_LONGEST = 1800.0  # seconds that a lock is waited for: its holder may hang
_TOLD = 1.0  # seconds after which a terminal is told
_POLLS = (0.01, 0.2)  # seconds between looks: the first, and the longest


@contextmanager
def file_lock(
    path: Path, work: str, is_stopped: Callable[[], bool] = lambda: False
) -> Iterator[None]:
    """Hold a path's lock against other processes and threads within the `with` block.

    Args:
        path: of the file, in a folder that is there; it is gone afterwards.
        work: what the holder does, for those who wait at a terminal.
        is_stopped: says whether there is no need to wait any more.
    """
    held = _acquire(path, work, is_stopped)
    try:
        yield
    finally:
        if held is not None:
            _release(path, held)


def _acquire(path: Path, work: str, is_stopped: Callable[[], bool]) -> int | None:
    """Lock a file, waiting if need be; return its descriptor, or None if that fails."""
    begun, pause, is_told = time.monotonic(), _POLLS[0], False
    while fcntl is not None:
        try:
            held = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError:
            return None
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_at(path, held):
                os.truncate(held, 0)
                os.write(held, str(os.getpid()).encode())
                return held
            os.close(held)  # its last holder has removed it: once more
            continue
        except BlockingIOError:
            holder = _holder(held)
            os.close(held)
        except OSError:  # this file system has no locks, or no room
            os.close(held)
            return None
        waited = time.monotonic() - begun
        if is_stopped() or waited > _LONGEST:
            return None
        if waited > _TOLD and not is_told and sys.stderr.isatty():
            print(f"waiting for {holder}, which {work}", file=sys.stderr)
            is_told = True
        time.sleep(pause)
        pause = min(2 * pause, _POLLS[1])
    return None


def _release(path: Path, descriptor: int) -> None:
    """Remove and unlock a lock file, in this order, so that nobody locks a removed
    one.
    """
    with suppress(OSError):
        if _is_at(path, descriptor):
            path.unlink()
    with suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_UN)  # forked processes have the file, too
    os.close(descriptor)


def _is_at(path: Path, descriptor: int) -> bool:
    """Return whether an open descriptor is of the file at a path."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _holder(descriptor: int) -> str:
    """Return the process that holds a lock, in words."""
    with suppress(OSError):
        number = os.pread(descriptor, 20, 0).decode(errors="replace")
        if number.isdigit():
            return f"process {number}"
    return "another process"
