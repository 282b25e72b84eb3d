"""IREE's parameter archives (.irpa): written as a stream, read as a mapped file.

`read_archive` gives the arrays that `ArchiveParts` was given. A tensor that repeats one
element is written as that element (a splat entry of the format); others are evaluated
when their turn comes, and written in parts, each content once. So an archive of any
size takes the memory of its largest tensor, or less where that is a view.

Source: `iree/schemas/parameter_archive.h` of IREE, version 0 of the format, whose own
writer makes the same bytes. A header of 88 bytes is followed by entries that are
aligned to 16 bytes, their names, and the data, aligned to 64.
"""

from __future__ import annotations

import hashlib
import math
import mmap
import struct
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from aotc.core.dtypes import DTypeLike

MAGIC = b"IRPA"
# Smaller tensors are written as they are, also where they repeat an element, or are
# those of another: they take no room, and IREE would allocate memory for each splat.
LARGE = 1 << 16  # bytes
PART = 4 << 20  # bytes that are copied and written at once
PROBE = 1 << 12  # bytes of two arrays that are compared first

_SPLAT, _DATA = 1, 2  # types of entries
_HEADER = struct.Struct("<4sHHQQQQ6Q")
_ENTRY = struct.Struct("<QI8x4QQ")  # size, type, name, metadata, alignment
_DATA_TAIL = struct.Struct("<QQ")  # offset and length
_SPLAT_TAIL = struct.Struct("<Q16sB")  # length, pattern and its length
_ENTRY_ALIGNMENT = 16
_ALIGNMENT = 64  # of data
_FILE_ALIGNMENT = 4096

Array = np.ndarray


class UnevaluatedArray(ABC):
    """A lazy array, computed each time that `numpy.asarray` is called.

    Args:
        shape: of the array.
        dtype: of the array.
    """

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype) -> None:
        self.shape, self.dtype = shape, dtype

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def nbytes(self) -> int:
        """The size in bytes."""
        return math.prod(self.shape) * self.dtype.itemsize

    @abstractmethod
    def __array__(
        self, dtype: DTypeLike | None = None, copy: bool | None = None
    ) -> Array:
        """Compute the array."""

    def computed_parts(self) -> Iterator[Array]:
        """Yield consecutive slices of the array along axis 0, each computed on
        demand.
        """
        yield np.asarray(self)


# ---- writing ------------------------------------------------------------------------


class ArchiveParts:
    """An iterable of an archive's bytes; its `head` is final once all are written.

    A large tensor whose bytes are those of one before it is not written again: its
    entry leads to the other's. Which are so is known when the tensors are evaluated, so
    the first part is what the head would be without, and `head`, of the same length,
    is to be written over it in the end.

    Args:
        parameters: by name: arrays, some of which are computed when their turn comes.
    """

    def __init__(self, parameters: Mapping[str, Any]) -> None:
        self._parameters = parameters
        self._splats = {name: _splat_of(array) for name, array in parameters.items()}
        self._sizes = {
            name: array.nbytes
            for name, array in parameters.items()
            if self._splats[name] is None
        }
        self.head = self._head(*_lay_out(self._sizes))

    def __iter__(self) -> Iterator[bytes | memoryview]:
        yield self.head
        offsets: dict[str, int] = {}
        begins: dict[tuple[int, bytes], list[str]] = {}  # names, by size and first part
        end = 0
        for name, size in self._sizes.items():
            parts = self._parts(name)
            if size >= LARGE:
                first = _take_first(parts)
                known = begins.setdefault((size, _digest_of(first)), [])
                same = next((n for n in known if self._are_alike(n, name)), None)
                if same is not None:
                    offsets[name] = offsets[same]
                    continue
                known.append(name)
                parts = chain(first, parts)
            offsets[name] = end + -end % _ALIGNMENT
            yield b"\0" * (offsets[name] - end)
            yield from parts
            end = offsets[name] + size
        yield b"\0" * (-(len(self.head) + end) % _FILE_ALIGNMENT)
        self.head = self._head(offsets, end)

    def _parts(self, name: str) -> Iterator[memoryview]:
        """Yield the bytes of a tensor, computed on demand."""
        array = self._parameters[name]
        is_there = not isinstance(array, UnevaluatedArray)
        for each in [np.asarray(array)] if is_there else array.computed_parts():
            yield from parts_of(each, PART)

    def _are_alike(self, one: str, other: str) -> bool:
        """Return whether two tensors, computed again, have the same bytes."""
        arrays = (np.asarray(self._parameters[name]) for name in (one, other))
        return have_same_bytes(*arrays)

    def _head(self, offsets: Mapping[str, int], length: int) -> bytes:
        """Return the bytes of the archive's head for the offsets of the tensors'
        data.
        """
        entries, names = bytearray(), bytearray()
        for name, array in self._parameters.items():
            text = name.encode()
            entries += b"\0" * (-len(entries) % _ENTRY_ALIGNMENT)
            place = len(names), len(text), 0, 0
            splat, offset = self._splats[name], offsets.get(name, 0)
            entries += _entry(place, splat, offset, array.nbytes)
            names += text
        count, has_data = len(self._parameters), bool(self._sizes)
        return _head(entries, names, count, length, has_data=has_data)


def _lay_out(sizes: Mapping[str, int]) -> tuple[dict[str, int], int]:
    """Return the aligned offset of each tensor in the data, and the total length."""
    offsets, end = {}, 0
    for name, size in sizes.items():
        offsets[name] = end + -end % _ALIGNMENT
        end = offsets[name] + size
    return offsets, end


def _take_first(parts: Iterator[memoryview]) -> list[memoryview]:
    """Return parts from an iterator until they have the length of `PART`."""
    found, length = list[memoryview](), 0
    while length < PART and (part := next(parts, None)) is not None:
        found.append(part)
        length += len(part)
    return found


def _digest_of(parts: Iterable[memoryview]) -> bytes:
    """Return the SHA-256 of the first 64 KiB of parts."""
    digest, missing = hashlib.sha256(), LARGE
    for part in parts:
        digest.update(part[:missing])
        missing = max(0, missing - len(part))
    return digest.digest()


def _entry(
    place: tuple[int, int, int, int], splat: bytes | None, offset: int, length: int
) -> bytes:
    """Return the bytes of an archive entry: a splat, or data at an offset."""
    if splat is None:
        size = _ENTRY.size + _DATA_TAIL.size
        head = _ENTRY.pack(size, _DATA, *place, _ALIGNMENT)
        return head + _DATA_TAIL.pack(offset, length)
    size = _ENTRY.size + _SPLAT_TAIL.size
    head = _ENTRY.pack(size, _SPLAT, *place, 0)
    return head + _SPLAT_TAIL.pack(length, splat, len(splat))


def _head(
    entries: bytearray, names: bytearray, count: int, length: int, *, has_data: bool
) -> bytes:
    """Return the bytes of an archive's head: header, entries and names, padded."""
    start = _HEADER.size + -_HEADER.size % _ENTRY_ALIGNMENT
    after = start + len(entries)
    storage = after + len(names)
    storage += -storage % _ALIGNMENT if has_data else 0
    segments = (start, len(entries), after, len(names), storage, length)
    header = _HEADER.pack(MAGIC, 0, 0, _HEADER.size, 0, 0, count, *segments)
    return bytes(header.ljust(start, b"\0") + entries + names).ljust(storage, b"\0")


def parts_of(array: Array, size: int = PART) -> Iterator[memoryview]:
    """Yield an array's bytes in row-major order, in parts of at most `size`.

    Args:
        array: of any layout; no more than a part of it is copied.
        size: of a part in bytes; those of views may be shorter.
    """
    if not array.size:
        return
    if array.nbytes <= size or array.flags.c_contiguous:
        flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
        for start in range(0, len(flat), size):
            yield flat[start : start + size]
        return
    rows = size * len(array) // array.nbytes
    if not rows:
        for row in array:
            yield from parts_of(row, size)
        return
    for start in range(0, len(array), rows):
        yield from parts_of(array[start : start + rows], array.nbytes)


def first_bytes(array: Array, count: int) -> bytes:
    """Return the first `count` bytes of an array in row-major order."""
    found = b""
    for part in parts_of(array, count):
        found += part[: count - len(found)]
        if len(found) == count:
            break
    return found


def have_same_bytes(one: Array, other: Array) -> bool:
    """Return whether two arrays have the same bytes, copying only parts of them."""
    if one.nbytes != other.nbytes:
        return False
    # most arrays that differ do so at once: so large parts are copied of few
    a, b = (next(parts_of(x, PROBE), memoryview(b"")) for x in (one, other))
    length = min(len(a), len(b))
    if not np.array_equal(a[:length], b[:length]):
        return False
    parts, others = parts_of(one, PART), parts_of(other, PART)
    a = b = memoryview(b"")
    while True:  # what is not contiguous has parts of other sizes
        a, b = a or next(parts, a), b or next(others, b)
        length = min(len(a), len(b))
        if not length:
            return True
        if not np.array_equal(a[:length], b[:length]):
            return False
        a, b = a[length:], b[length:]


def _splat_of(array: object) -> bytes | None:
    """Return the bytes of the element that a large array repeats; else None.

    What is still to be computed is not looked at.
    """
    if not isinstance(array, np.ndarray) or array.nbytes < LARGE:
        return None
    first: bytes = array[(0,) * array.ndim].tobytes()
    if not any(array.strides):
        return first
    for part in parts_of(array, PART):
        width = math.gcd(len(first), 8)
        words = np.frombuffer(part, f"u{width}").reshape(-1, len(first) // width)
        if not (words == np.frombuffer(first, f"u{width}")).all():
            return None
    return first


# ---- reading ------------------------------------------------------------------------


@dataclass(frozen=True)
class ArchiveEntry:
    """A tensor of an archive: its length, and its data or repeated element.

    Args:
        length: in bytes.
        data: so many bytes, or those of the element that a splat repeats.
        is_splat: whether it is one.
    """

    length: int
    data: Array
    is_splat: bool

    def array(self, dtype: np.dtype, shape: tuple[int, ...]) -> Array:
        """Return the elements as a read-only view of a dtype and shape.

        Raises:
            ValueError: there are not so many bytes.
        """
        if self.length != math.prod(shape) * dtype.itemsize:
            raise ValueError(f"expected {self.length} bytes in all")
        if self.is_splat:
            return np.broadcast_to(self.data.view(dtype), shape)
        return self.data.view(dtype).reshape(shape)


def is_archive(path: Path) -> bool:
    """Return whether a file begins with the magic number of a parameter archive."""
    try:
        with path.open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


def read_archive(path: Path) -> dict[str, ArchiveEntry]:
    """Map an archive into memory; return its entries by name, as views of the file.

    Raises:
        ValueError: it is no archive of version 0, or damaged.
    """
    with path.open("rb") as file:
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    try:
        return dict(_entries(data))
    except struct.error as error:
        raise ValueError(str(error)) from None


def _entries(data: mmap.mmap) -> Iterator[tuple[str, ArchiveEntry]]:
    """Yield name and entry of each tensor in the bytes of an archive."""
    magic, major, _, _, _, _, count, place, _, names, _, storage, _ = (
        _HEADER.unpack_from(data)
    )
    if (magic, major) != (MAGIC, 0):
        raise ValueError("expected a parameter archive of version 0")
    for _ in range(count):
        size, kind, start, length, _, _, _ = _ENTRY.unpack_from(data, place)
        name = data[names + start : names + start + length].decode()
        yield name, _read_entry(data, place + _ENTRY.size, kind, storage)
        place += size + -size % _ENTRY_ALIGNMENT


def _read_entry(data: mmap.mmap, place: int, kind: int, storage: int) -> ArchiveEntry:
    """Return the entry whose tail begins at `place` in the bytes of an archive."""
    if kind == _SPLAT:
        length, pattern, width = _SPLAT_TAIL.unpack_from(data, place)
        return ArchiveEntry(
            length, np.frombuffer(pattern, np.uint8, width), is_splat=True
        )
    if kind != _DATA:
        raise ValueError(f"expected entries of data or splats; got type {kind}")
    offset, length = _DATA_TAIL.unpack_from(data, place)
    if storage + offset + length > len(data):
        raise ValueError("expected the data of all entries; the file is shorter")
    found = np.frombuffer(data, np.uint8, length, storage + offset)
    return ArchiveEntry(length, found, is_splat=False)
