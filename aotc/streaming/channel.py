"""A queue between threads that can be closed."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterable
from typing import Generic, TypeVar

T = TypeVar("T")


class Closed(Exception):
    """Raised by a channel that was closed."""


class Channel(Generic[T]):
    """An unbounded thread-safe queue; closing it wakes up all waiting threads.

    Args:
        items: that are in it from the start.
    """

    def __init__(self, items: Iterable[T] = ()) -> None:
        self._items = deque(items)
        self._changed = threading.Condition()
        self._is_closed = False

    def put(self, item: T) -> None:
        """Add an item.

        Raises:
            Closed: nobody would get it.
        """
        with self._changed:
            if self._is_closed:
                raise Closed
            self._items.append(item)
            self._changed.notify()

    def get(self) -> T:
        """Wait for the next item; remove and return it.

        Raises:
            Closed: none comes.
        """
        with self._changed:
            while not self._items and not self._is_closed:
                self._changed.wait()
            return self._next()

    def get_until(self, deadline: float) -> T | None:
        """Wait for the next item until a time of `time.monotonic`; None if it is too
        late.

        Raises:
            Closed: none comes.
        """
        with self._changed:
            while not self._items and not self._is_closed:
                left = deadline - time.monotonic()
                if left <= 0:
                    return None
                self._changed.wait(left)
            return self._next()

    def _next(self) -> T:
        """Remove and return the first item; raise if the channel is closed."""
        if self._is_closed:
            raise Closed
        return self._items.popleft()

    def close(self) -> None:
        """Close the channel, and drop its items."""
        with self._changed:
            self._is_closed = True
            self._items.clear()
            self._changed.notify_all()
