"""Pause of garbage collection while calls are timed."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_paused() -> Iterator[None]:
    """Collect garbage, and disable the garbage collector within the context."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
