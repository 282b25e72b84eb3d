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
    """Return the places of arrays in one block of memory, and its size.

    One row for each: dtype, shape and the first byte.
    """
    rows: list[Place] = []
    end = 0
    for array in arrays:
        rows.append((dtypes.canonical_dtype(array.dtype), list(array.shape), end))
        end += -(-array.nbytes // _ALIGNMENT) * _ALIGNMENT
    return rows, end


def view(memory: Memory, row: Place, start: int = 0) -> Array:
    """Return the array that a row of `layout` describes, as a view of memory."""
    dtype, shape, first = row
    kind = dtypes.to_numpy(dtype)
    count = int(np.prod(shape, dtype=np.int64))
    if not count:
        return np.empty(shape, kind)
    size = count * kind.itemsize
    found = np.frombuffer(memory, np.uint8, size, start + first)
    return found.view(kind).reshape(shape)


def write(array: Array, memory: Memory, row: Place, start: int = 0) -> None:
    """Copy an array to where a row of `layout` has it."""
    if array.size:
        view(memory, row, start)[...] = array


def pack(what: str, arrays: Arrays) -> bytes:
    """Return arrays, and their purpose, as bytes that `unpack` reads."""
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
    """Return the purpose of a message's arrays, and the arrays, as views of it."""
    (length,) = _LENGTH.unpack_from(message)
    what, rows = json.loads(bytes(message[_LENGTH.size : _LENGTH.size + length]))
    start = -(-(_LENGTH.size + length) // _ALIGNMENT) * _ALIGNMENT
    return what, [view(message, row, start) for row in rows]


class MessageEngine(ABC):
    """An engine whose library gathers bytes from all ranks.

    Args:
        rank: of this process.
        size: of the group.
    """

    name: str

    def __init__(self, rank: int, size: int) -> None:
        self.rank, self.size = rank, size

    @abstractmethod
    def gather(self, message: bytes) -> Sequence[Memory]:
        """Return the messages of all ranks, in their order."""

    @contextmanager
    def exchange(self, what: str, arrays: Arrays) -> Iterator[list[list[Array]]]:
        """Exchange as `Engine`: every rank gets all arrays of every other one."""
        found = [unpack(each) for each in self.gather(pack(what, arrays))]
        require_same([said for said, _ in found])
        yield [given for _, given in found]

    def lost_ranks(self) -> set[int]:
        """Return none: the library ends the other processes, or does not say which."""
        return set()

    @abstractmethod
    def close(self) -> None:
        """Leave the group."""
