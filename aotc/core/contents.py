"""Contents of Python values: the parts that they consist of, and digests of these.

Two values are the same to code if their digests are. Of plain values, types and texts
decide: 1, 1.0 and True differ, as 0.0 and -0.0 do, and NaN is NaN. Of containers and
arrays, types, parts and their order do. What counts of other objects differs with the
question, so each has a subclass of `ContentDigest`.
"""

from __future__ import annotations

import array
import collections
import functools
import hashlib
import types
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

#: types whose values never change, and of which equal texts mean equal values
PLAIN = (
    int, float, complex, bool, str, bytes, type(None), type(...), type(NotImplemented),
    range, slice,
)  # fmt: skip
#: what shows a dict as it is now
VIEWS: tuple[type, ...] = (type({}.keys()), type({}.values()), type({}.items()))
_SETS = (set, frozenset)
_SEQUENCES: tuple[Any, ...] = (
    list, tuple, *_SETS, collections.deque, bytearray, array.array,
)  # fmt: skip
#: containers that have nothing but their parts
CONTAINERS = frozenset(
    (*_SEQUENCES, dict, types.MappingProxyType, *VIEWS, functools.partial)
)


class UnknownValue(Exception):
    """Raised for a value that has no digest."""


class ContainerTooLarge(UnknownValue):
    """Raised for a value with too many elements to be compared."""


def is_plain(value: object) -> bool:
    """Return whether a value is immutable and determined by its `repr`."""
    return type(value) in PLAIN


def parts_of(value: Any) -> list[object] | None:
    """Return the elements of a container, of a dict keys and values; None for other
    values.
    """
    kind = type(value)
    if issubclass(kind, dict) or kind is types.MappingProxyType:
        items = dict.items(value) if issubclass(kind, dict) else value.items()
        return [each for row in [*items] for each in row]  # threads may add some
    for each in _SEQUENCES:
        if issubclass(kind, each):
            return [*each.__iter__(value)]
    if kind in VIEWS:
        return [*value]
    if kind is functools.partial:
        return [value.func, value.args, value.keywords, vars(value)]
    return None


class ContentDigest:
    """A SHA-256 of values with all that they contain, added one after the other.

    What is met again, other than plain values and tuples, is noted as that: whether two
    parts are one object counts, and a value may contain itself. A subclass has `other`.

    Args:
        start: bytes before those of values.
    """

    most = 1 << 62  # values that are looked at
    largest = 1 << 62  # bytes of arrays

    def __init__(self, start: bytes = b"") -> None:
        self._hash = hashlib.sha256(start)
        self._texts = list[str]()  # that are not in it yet
        self._numbers: dict[int, int] = {}  # by identity, of what may contain itself
        self._kept = list[Any]()  # so that no two of these have one identity
        self._count = self._bytes = 0

    def digest(self) -> bytes:
        """Return the digest of all values so far."""
        return self._flushed_hash().digest()

    def note(self, *facts: object) -> None:
        """Add the `repr` of facts to the digest."""
        self._texts.append(repr(facts))

    def _flushed_hash(self) -> hashlib._Hash:
        """Return the hash, with all texts so far added to it."""
        data = "\0".join(self._texts).encode(errors="backslashreplace")
        self._texts.clear()
        self._hash.update(b"%d %b" % (len(data), data))
        return self._hash

    def value(self, value: object) -> None:
        """Add a value with all that it contains to the digest.

        Raises:
            UnknownValue: something in it has no digest.
            ContainerTooLarge: there is too much.
        """
        self._count += 1
        if self._count > self.most:
            raise ContainerTooLarge
        kind = type(value)
        if kind in PLAIN:
            self._texts.append(f"{kind.__name__} {value!r}")
        elif kind is tuple or kind is frozenset:
            self.container(value)
        elif issubclass(kind, np.generic):  # isinstance would ask the value
            self.array(value)
        elif issubclass(kind, np.dtype):
            self.note("dtype", value)
        elif id(value) in self._numbers:
            self.note("again", self._numbers[id(value)])
        else:
            self._numbers[id(value)] = len(self._numbers)
            self._kept.append(value)
            if kind in CONTAINERS:
                self.container(value)
            elif kind is np.ndarray:
                self.array(value)
            else:
                self.other(value)

    def container(self, value: object) -> None:
        """Add a container of `CONTAINERS`, or of a subclass, to the digest."""
        parts = parts_of(value) or []
        self.note(type(value).__name__, len(parts))
        if issubclass(type(value), _SETS):
            self.unordered(parts)
        else:
            for each in parts:
                self.value(each)

    def unordered(self, parts: Sequence[object]) -> None:
        """Add the elements of a set to the digest, whatever their order."""
        whole, numbers, found = self._flushed_hash(), self._numbers, list[bytes]()
        for each in parts:
            self._hash, self._numbers = hashlib.sha256(), {**numbers}
            self.value(each)
            found.append(self.digest())
        self._hash, self._numbers = whole, numbers
        self._hash.update(b"".join(sorted(found)))

    def array(self, value: Any) -> None:
        """Add an array or scalar of NumPy to the digest."""
        if value.dtype.hasobject:
            self.other(value)
            return
        self._bytes += value.nbytes
        if self._bytes > self.largest:
            raise ContainerTooLarge
        dtype = value.dtype
        kind = dtype if dtype.kind == "V" else dtype.str  # which is quick, if it tells
        self.note(type(value).__name__, kind, value.shape)
        self._flushed_hash().update(value.tobytes())

    def other(self, value: object) -> None:
        """Add a value of any other type to the digest.

        Raises:
            UnknownValue: it has no digest.
        """
        raise UnknownValue


# ---- keys within this process -------------------------------------------------------

_LARGEST = 1024  # parts of containers, and elements of arrays, that are compared


def content_key(value: object) -> Hashable:
    """Return a hashable key of a value; code for one value suits those of equal keys.

    Of plain values, containers, functions and small arrays it is what they are; other
    objects are equal to themselves alone, whatever happens in them.

    Raises:
        ContainerTooLarge: there are more than 1024 parts.
    """
    if is_plain(value):
        return type(value), repr(value)
    found = _KeyDigest()
    found.value(value)
    return found.digest(), *found.alive


def is_small_array(value: Any) -> bool:
    """Return whether `content_key` compares an array by its elements, being small."""
    if not issubclass(type(value), (np.ndarray, np.generic)):
        return False
    return bool(value.size <= _LARGEST and not value.dtype.hasobject)


class _KeyDigest(ContentDigest):
    """The digest of `content_key`: large arrays and other objects count by identity."""

    most = _LARGEST

    def __init__(self) -> None:
        super().__init__()
        self.alive = list[Any]()  # types and code, whose identities are in the digest

    def _identity(self, value: object) -> None:
        """Add an object's identity to the digest, and keep the object alive."""
        self.alive.append(value)
        self.note(id(value))

    def array(self, value: Any) -> None:
        """Add a small array by its elements, a large one by its identity."""
        if is_small_array(value):
            super().array(value)
        else:
            self.note("object", id(value))

    def other(self, value: Any) -> None:
        """Add a function or container by its contents, other objects by identity."""
        kind = type(value)
        if kind is types.FunctionType:
            self._function(value)
        elif issubclass(kind, np.ndarray):
            self.array(value)
        elif parts_of(value) is not None:
            self._identity(kind)
            self.container(value)
        else:
            self.note("object", id(value))

    def _function(self, function: types.FunctionType) -> None:
        """Add a function by its code, defaults, attributes and closure."""
        self.note("function", id(function.__globals__))
        self._identity(function.__code__)
        for each in (function.__defaults__, function.__kwdefaults__, vars(function)):
            self.value(each)
        for cell in function.__closure__ or ():
            try:
                inside = cell.cell_contents
            except ValueError:  # it has no value yet
                self.note("no value")
            else:
                self.value(inside)
