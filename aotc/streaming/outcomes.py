"""Data of a stream: items, calls, and the outcome of each item."""

from __future__ import annotations

from typing import Any, NamedTuple

from aotc.errors import AotcError


class StreamItem(NamedTuple):
    """An item of the source, in the form that its call takes."""

    number: int  # from 1
    inputs: Any
    arrived: float  # of time.monotonic


class PreparedCall(NamedTuple):
    """A call that is ready to run, for one item or for the rows of several.

    `prepared` is the call on the device, which took so many nanoseconds.
    """

    items: list[StreamItem]
    prepared: Any
    nanoseconds: int


class StreamResult(NamedTuple):
    """The result of an item."""

    value: Any


class Failure(NamedTuple):
    """The error that an item has in the place of its result."""

    error: AotcError


class End(NamedTuple):
    """The end of a stream: the source is over, or raised an error."""

    error: BaseException | None


Outcome = StreamResult | Failure | End
