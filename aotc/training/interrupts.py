"""Ctrl-C and SIGTERM as a wish to stop soon, for a loop that must end in order."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from aotc.training.history import History


class Interrupted(KeyboardInterrupt):
    """Raised when Ctrl-C or SIGTERM ended a loop in order, after a whole step.

    Args:
        signal: which of the two.
        history: of the steps that are done.
    """

    def __init__(self, signal: signal.Signals, history: History) -> None:
        super().__init__(f"stopped by {signal.name} after step {history.steps}")
        self.signal = signal
        self.history = history


class Interrupts:
    """A context in which the first signal is recorded, and the second one interrupts.

    Processes that work together end together: `settle` makes what one of them has
    received the `ending` of all.

    A signal that is ignored from the start, as under nohup, stays ignored. Outside of
    the main thread, where Python delivers no signals, nothing is noted.

    Args:
        agree: gives the greatest of the numbers that the processes give; None for one.
    """

    def __init__(self, agree: Callable[[int], int] | None = None) -> None:
        self.received: signal.Signals | None = None
        self._agree = agree
        self._agreed: signal.Signals | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is not threading.main_thread():
            return self
        for number in (signal.SIGINT, signal.SIGTERM):
            handler = signal.getsignal(number)
            if handler not in (signal.SIG_IGN, None):  # None: not Python's
                self._before[number] = handler
                signal.signal(number, self._record_signal)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @property
    def ending(self) -> signal.Signals | None:
        """The signal that ends the loop; None while it goes on."""
        return self.received if self._agree is None else self._agreed

    def settle(self) -> None:
        """Agree with the other ranks on a signal that ends the loop on all of them."""
        if self._agree is not None:
            number = self._agree(int(self.received or 0))
            self._agreed = signal.Signals(number) if number else None

    def _record_signal(self, number: int, frame: FrameType | None) -> None:
        """Record the signal and restore the former handlers."""
        self.received = signal.Signals(number)
        self.__exit__()
