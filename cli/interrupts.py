"""Ctrl-C and SIGTERM as a wish to stop soon, for work that must end in order."""

from __future__ import annotations

import signal
from types import FrameType
from typing import Any


class Interrupted(KeyboardInterrupt):
    """Work ended early and in order, because of a signal."""

    def __init__(self, message: str, number: signal.Signals) -> None:
        super().__init__(message)
        self.exit_code = 128 + number


class Interrupts:
    """While the block lasts, the first signal is noted; the second one ends the work.

    A signal that is ignored from the start, as under nohup, stays ignored.
    """

    def __init__(self) -> None:
        self.received: signal.Signals | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Interrupts:
        for number in (signal.SIGINT, signal.SIGTERM):
            handler = signal.getsignal(number)
            if handler is not signal.SIG_IGN:
                self._before[number] = handler
                signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.received = signal.Signals(number)
        self.__exit__()
