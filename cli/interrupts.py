"""SIGTERM ends a command as Ctrl-C does, and each has its exit code."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class CommandInterrupted(KeyboardInterrupt):
    """Raised on a signal to end a command early, with cleanup."""

    def __init__(self, message: str, number: signal.Signals) -> None:
        super().__init__(message)
        self.exit_code = 128 + number


@contextmanager
def termination() -> Iterator[None]:
    """Raise `CommandInterrupted` on SIGTERM within the block, as Ctrl-C raises."""
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
    """Signal handler: ignore further signals, and raise `CommandInterrupted`."""
    signal.signal(number, signal.SIG_IGN)  # a second one must not stop the clearing up
    raise CommandInterrupted("told to end by SIGTERM", signal.Signals(number))
