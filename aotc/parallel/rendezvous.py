"""Threads that meet: each brings something, and the last to arrive computes for all."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from aotc.errors import InputError

Found = TypeVar("Found")
Compute = Callable[[Sequence[Any]], Sequence[object]]


class Diverged(InputError):
    """Raised in a thread that waits for another one which has ended or does
    otherwise.
    """

    def __init__(self) -> None:
        super().__init__(
            "devices-diverge",
            "expected all devices to meet in the same collectives, in the same order",
            hint="keep collectives out of branches that only some devices take",
        )


class Rendezvous:
    """A reusable barrier at which threads of one program exchange data.

    Args:
        size: how many they are.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._changed = threading.Condition()
        self._arrived: dict[int, Any] = {}
        self._results: Sequence[Any] = ()
        self._round = 0
        self._someone_left = False

    def run(self, work: Callable[[int], Found]) -> list[Found]:
        """Call `work(number)` in one thread for each number; return the results in
        order.

        Raises:
            Diverged: they do not meet the same number of times, and none has failed.
        """
        from concurrent.futures import ThreadPoolExecutor  # few loaders need it

        with ThreadPoolExecutor(self._size) as pool:
            running = [pool.submit(self._run, i, work) for i in range(self._size)]
        errors = [error for each in running if (error := each.exception())]
        for error in sorted(errors, key=lambda error: isinstance(error, Diverged)):
            raise error
        return [each.result() for each in running]

    def _run(self, number: int, work: Callable[[int], Found]) -> Found:
        """Call `work(number)`; wake up waiting threads when it ends."""
        try:
            return work(number)
        finally:
            with self._changed:
                self._someone_left = True
                self._changed.notify_all()

    def meet(self, number: int, brought: object, compute: Compute) -> Any:
        """Wait for all threads; return this thread's part of what `compute` makes of
        all data.

        Args:
            number: of this thread.
            brought: by this thread.
            compute: gets what all have brought, and returns a part for each. One of
                the threads calls it.

        Raises:
            Diverged: another thread has ended, or `compute` has failed in it.
        """
        with self._changed:
            this_round = self._round
            self._arrived[number] = brought
            if len(self._arrived) == self._size:
                given = [self._arrived.pop(number) for number in range(self._size)]
                self._results = compute(given)
                self._round += 1
                self._changed.notify_all()
            self._changed.wait_for(
                lambda: self._round != this_round or self._someone_left
            )
            if self._round == this_round:
                raise Diverged
            return self._results[number]
