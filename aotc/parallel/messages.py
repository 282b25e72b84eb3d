"""Arrays as bytes, and engines that send bytes: several libraries do no more."""

from __future__ import annotations

import json
import struct
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from mmap import mmap
from typing import TypeAlias

import numpy as np

from aotc.core import dtypes
from aotc.parallel.engine import Array, Arrays, require_same

Memory: TypeAlias = bytes | bytearray | memoryview | mmap
# of an array in a block: dtype, shape and the first byte
Place: TypeAlias = tuple[str, Sequence[int], int]

_ALIGNMENT = 64
_LENGTH = struct.Struct("<Q")


def layout(arrays: Arrays) -> tuple[list[Place], int]:
    """Return dtype, shape and byte offset of each array in one buffer, and its size.

    One row for each: dtype, shape and the first byte.
    """
    rows: list[Place] = []
    end = 0
    for array in arrays:
        rows.append((dtypes.canonical_dtype(array.dtype), list(array.shape), end))
        end += -(-array.nbytes // _ALIGNMENT) * _ALIGNMENT
    return rows, end


def view(memory: Memory, row: Place, start: int = 0) -> Array:
    """Return the array of a `layout` row as a view of the buffer."""
    dtype, shape, first = row
    kind = dtypes.to_numpy(dtype)
    count = int(np.prod(shape, dtype=np.int64))
    if not count:
        return np.empty(shape, kind)
    size = count * kind.itemsize
    found = np.frombuffer(memory, np.uint8, size, start + first)
    return found.view(kind).reshape(shape)


def write(array: Array, memory: Memory, row: Place, start: int = 0) -> None:
    """Copy an array into the buffer at the offset of its `layout` row."""
    if array.size:
        view(memory, row, start)[...] = array


def pack(what: str, arrays: Arrays) -> bytes:
    """Serialize arrays and their purpose to bytes, for `unpack`."""
    rows, size = layout(arrays)
    head = json.dumps([what, rows]).encode()
    start = -(-(_LENGTH.size + len(head)) // _ALIGNMENT) * _ALIGNMENT
    message = bytearray(start + size)
    message[: _LENGTH.size] = _LENGTH.pack(len(head))
    message[_LENGTH.size : _LENGTH.size + len(head)] = head
    for array, row in zip(arrays, rows, strict=True):
        write(array, message, row, start)
    return bytes(message)


def unpack(message: Memory) -> tuple[str, list[Array]]:
    """Return the purpose and the arrays of a message, as views of its bytes."""
    (length,) = _LENGTH.unpack_from(message)
    what, rows = json.loads(bytes(message[_LENGTH.size : _LENGTH.size + length]))
    start = -(-(_LENGTH.size + length) // _ALIGNMENT) * _ALIGNMENT
    return what, [view(message, row, start) for row in rows]


class MessageEngine(ABC):
    """Base of engines whose library gathers one byte message from each rank.

    Args:
        rank: of this process.
        size: of the group.
    """

    name: str

    def __init__(self, rank: int, size: int) -> None:
        self.rank, self.size = rank, size

    @abstractmethod
    def gather(self, message: bytes) -> Sequence[Memory]:
        """Send a message to all ranks; return the messages of all ranks in order."""

    @contextmanager
    def exchange(self, what: str, arrays: Arrays) -> Iterator[list[list[Array]]]:
        """Exchange as `Engine.exchange`, by one packed message per rank."""
        found = [unpack(each) for each in self.gather(pack(what, arrays))]
        require_same([said for said, _ in found])
        yield [given for _, given in found]

    def lost_ranks(self) -> set[int]:
        """Return no ranks, as the library does not tell which have ended."""
        return set()

    @abstractmethod
    def close(self) -> None:
        """Leave the group of ranks."""
