"""Data of a stream: items, calls, and the outcome of each item."""

from __future__ import annotations

from typing import Any, NamedTuple

from aotc.errors import AotcError


class StreamItem(NamedTuple):
    """An item of the source: its number, its inputs as leaves, and its time of
    arrival.
    """

    number: int  # from 1
    inputs: Any
    arrived: float  # of time.monotonic


class PreparedCall(NamedTuple):
    """A prepared call for one item, or for the joined rows of several.

    `prepared` is the call on the device, which took so many nanoseconds.
    """

    items: list[StreamItem]
    prepared: Any
    nanoseconds: int


class StreamResult(NamedTuple):
    """The result of one item."""

    value: Any


class Failure(NamedTuple):
    """The error of one item, in place of its result."""

    error: AotcError


class End(NamedTuple):
    """Marks the end of a stream; has the error if the source raised one."""

    error: BaseException | None


Outcome = StreamResult | Failure | End
