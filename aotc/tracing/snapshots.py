"""Comparison of a function's captures with their values when it was traced.

Asked at each call, so it looks at identities first, which takes some ten nanoseconds
for each name. Where one differs, contents decide: those of plain values, of containers
and small arrays. What changes in place in a larger array, or in an object that is
neither, is not seen.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Hashable, Iterator, Sequence
from operator import is_
from typing import Any

import numpy as np

from aotc.core.contents import (
    ContainerTooLarge,
    content_key,
    is_plain,
    is_small_array,
    parts_of,
)
from aotc.tracing.captures import Capture
from aotc.tracing.source_locations import line_of

_GONE = object()
_USUAL = (list, dict, set)  # whose own methods are quick


class Snapshot:
    """Saved values of a function's captures, for detecting changes.

    Args:
        captures: of a function.
        is_whole: whether these are all that it has.
    """

    def __init__(self, captures: Sequence[Capture], is_whole: bool = True) -> None:
        self.captures, self.is_whole = [*captures], is_whole
        self._keys = [_key(each) for each in self.captures]
        self._take()

    def holds(self) -> bool:
        """Return whether all captures have equal values still."""
        try:
            if self._names_are_same() and self._contents_are_same():
                return True
        except (LookupError, AttributeError, ValueError, RuntimeError):
            pass  # it is nothing any more, or another thread changes it
        return self._holds_by_contents()

    def _names_are_same(self) -> bool:
        """Return whether all names still refer to the same objects."""
        for owner, key, value in self._names:
            if owner[key] is not value:
                return False
        for owner, key in self._absent:
            if key in owner:
                return False
        for owner, key, value in self._inside:
            if object.__getattribute__(owner, key) is not value:
                return False
        return all(cell.cell_contents is value for cell, value in self._cells)

    def _contents_are_same(self) -> bool:
        """Return whether saved containers and arrays still have the same elements."""
        for container, parts in self._containers:
            if len(container) != len(parts) or not all(map(is_, container, parts)):
                return False
        for other, parts in self._others:
            now = parts_of(other) or []
            if len(now) != len(parts) or not all(map(is_, now, parts)):
                return False
        return all(array.tobytes() == data for array, data in self._arrays)

    def changed_captures(self) -> list[Capture]:
        """Return the captures whose values differ from the saved ones."""
        pairs = zip(self.captures, self._keys, strict=True)
        return [each for each, key in pairs if _key(each) != key]

    def unseen_captures(self) -> Iterator[tuple[Capture, str]]:
        """Yield the captures that are too large to be compared, with their kinds."""
        for each in self.captures:
            kind = _unseen_part(_value(each))
            if kind:
                yield each, kind

    def _holds_by_contents(self) -> bool:
        """Return whether all captures have equal contents; save their new objects if
        so.
        """
        if self.changed_captures():
            return False
        self._take()  # equal, but other objects
        return True

    def _take(self) -> None:
        """Save the current values of the captures."""
        values = [_value(each) for each in self.captures]
        pairs = [*zip(self.captures, values, strict=True)]
        self._names = [
            (each.owner, each.key, value)
            for each, value in pairs
            if each.is_variable and value is not _GONE
        ]
        self._absent = [
            (each.owner, each.key)
            for each, value in pairs
            if each.is_variable and value is _GONE
        ]
        cells = [(x, value) for x, value in pairs if type(x.owner) is types.CellType]
        self._cells = [(each.owner, value) for each, value in cells]
        self._inside = [
            (each.owner, each.key, value)
            for each, value in pairs
            if not each.is_variable and type(each.owner) is not types.CellType
        ]
        mutable = [*_mutable(values)]
        self._arrays = [
            (x, x.tobytes()) for x in mutable if issubclass(type(x), np.ndarray)
        ]
        containers = [x for x in mutable if type(x) in _USUAL]
        containers += [x.values() for x in mutable if type(x) is dict]
        self._containers = [(each, [*each]) for each in containers]
        others = (x for x in mutable if type(x) not in _USUAL)
        self._others = [
            (x, parts) for x in others if (parts := parts_of(x)) is not None
        ]


def describe_unseen(capture: Capture, kind: str) -> str:
    """Return a sentence on a capture that is too large to be compared."""
    return (
        f"{line_of(capture.place)}: '{capture.text}' ({kind}) is captured; what "
        "changes in it in place is not seen: give it as an argument"
    )


def _value(capture: Capture) -> object:
    """Return a capture's current value; a marker if it has none."""
    try:
        return capture.value()
    except LookupError:
        return _GONE


def _key(capture: Capture) -> Hashable:
    """Return a hashable key of a capture's contents; by identity if too large."""
    value = _value(capture)
    try:
        return content_key(value)
    except (ContainerTooLarge, RuntimeError):
        return id(value)


def _mutable(values: Sequence[object]) -> Iterator[Any]:
    """Yield the mutable containers and small arrays among values and their elements."""
    left, seen = list[Any](values), set[int]()
    while left:
        value = left.pop()
        if is_plain(value) or id(value) in seen or _large_kind(value):
            continue
        seen.add(id(value))
        if issubclass(type(value), np.ndarray):
            if value.flags.writeable:
                yield value
            continue
        parts = parts_of(value)
        if parts is not None:
            if not issubclass(type(value), (tuple, frozenset, functools.partial)):
                yield value
            left += parts


def _unseen_part(value: object) -> str:
    """Return the kind of a value's first element that is too large to compare; else
    "".
    """
    left, seen = [value], set[int]()
    while left:
        each = left.pop()
        if is_plain(each) or id(each) in seen:
            continue
        seen.add(id(each))
        kind = _large_kind(each)
        if kind:
            return kind
        left += parts_of(each) or []
    return ""


def _large_kind(value: Any) -> str:
    """Return a value's kind if it is too large to compare, else ""."""
    if issubclass(type(value), np.ndarray):
        is_open = value.flags.writeable and not is_small_array(value)
        return f"{value.dtype}{[*value.shape]}" if is_open else ""
    try:
        content_key(value)
    except (ContainerTooLarge, RuntimeError):
        return f"{type(value).__name__} of {len(value)}"
    return ""
