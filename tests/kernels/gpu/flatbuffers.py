"""Reads the executables of GPUs in a module of IREE's."""

from __future__ import annotations

from collections.abc import Iterator

HEADER = 64  # bytes before the root of a flatbuffer, at most


class Table:
    """A table of a flatbuffer (https://flatbuffers.dev/internals/).

    Args:
        data: that it is in.
        at: where it begins.
    """

    def __init__(self, data: bytes, at: int) -> None:
        self._data, self._at = data, at

    def number(self, at: int, size: int = 4) -> int:
        return int.from_bytes(self._data[at : at + size], "little")

    def field(self, index: int) -> int | None:
        """Return the position of a field; None if it has its default."""
        signed = int.from_bytes(
            self._data[self._at : self._at + 4], "little", signed=True
        )
        table = self._at - signed
        place = 4 + 2 * index
        if place >= self.number(table, 2):
            return None
        offset = self.number(table + place, 2)
        return self._at + offset if offset else None

    def value(self, index: int) -> int:
        at = self.field(index)
        return 0 if at is None else self.number(at)

    def vector(self, index: int) -> tuple[int, int]:
        """Return the position of a vector's elements, and how many there are."""
        at = self.field(index)
        if at is None:
            return 0, 0
        begin = at + self.number(at)
        return begin + 4, self.number(begin)

    def text(self, index: int) -> bytes:
        begin, size = self.vector(index)
        return self._data[begin : begin + size]

    def tables(self, index: int) -> list[Table]:
        begin, count = self.vector(index)
        places = [begin + 4 * n for n in range(count)]
        return [Table(self._data, at + self.number(at)) for at in places]


def executables_in(vmfb: bytes, identifier: bytes) -> Iterator[Table]:
    """The executables of a module for GPUs, by the identifier of their format."""
    at = vmfb.find(identifier)
    while at >= 0:
        begin = at - 4
        root = begin + int.from_bytes(vmfb[begin:at], "little")
        if 0 < root - begin < HEADER:  # else it is that of what is around it
            yield Table(vmfb, root)
        at = vmfb.find(identifier, at + 1)
