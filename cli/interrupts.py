"""SIGTERM ends a command as Ctrl-C does, and each has its exit code."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class CommandInterrupted(KeyboardInterrupt):
    """Work ended early and in order, because of a signal."""

    def __init__(self, message: str, number: signal.Signals) -> None:
        super().__init__(message)
        self.exit_code = 128 + number


@contextmanager
def termination() -> Iterator[None]:
    """Turn SIGTERM into an orderly end like Ctrl-C within the block."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGTERM)
    if before is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _end)
    try:
        yield
    finally:
        if before is signal.SIG_DFL:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _end(number: int, frame: FrameType | None) -> None:
    signal.signal(number, signal.SIG_IGN)  # a second one must not stop the clearing up
    raise CommandInterrupted("told to end by SIGTERM", signal.Signals(number))
