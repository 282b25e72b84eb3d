"""Collect garbage less often while ops are looked at by the thousand."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

# Objects between two collections of the youngest ones, which Python's 700 are: those
# that passes make have few cycles, and the oldest, all over again, are a whole program.
THRESHOLD = 50_000

_lock = Lock()
_active: list[tuple[int, int, int]] = []  # what was set before, for each block


@contextmanager
def collecting_rarely() -> Iterator[None]:
    """Raise the garbage collector's threshold within the `with` block."""
    with _lock:
        _active.append(gc.get_threshold())
        youngest, *older = _active[0]
        gc.set_threshold(max(youngest, THRESHOLD) if youngest else 0, *older)
    try:
        yield
    finally:
        with _lock:
            first = _active[0]
            _active.pop()
            if not _active:
                gc.set_threshold(*first)
