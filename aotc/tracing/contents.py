"""Keys of values that code is made for: equal contents have equal keys."""

from __future__ import annotations

import array
import collections
import functools
import types
from collections.abc import Hashable
from typing import Any

import numpy as np

#: types whose values never change, and of which equal texts mean equal values
PLAIN = (
    int, float, complex, bool, str, bytes, type(None), type(...), range, slice,
)  # fmt: skip
#: what shows a dict as it is now
VIEWS: tuple[type, ...] = (type({}.keys()), type({}.values()), type({}.items()))
_CONTAINERS: tuple[Any, ...] = (
    list, tuple, set, frozenset, collections.deque, bytearray, array.array,
)  # fmt: skip
_LARGEST = 1024  # parts of containers, and elements of arrays, that are compared


class TooLarge(Exception):
    """A container has too many parts to be compared at each call."""


def content_key(value: object) -> Hashable:
    """A key that differs where code for one value may not be code for another.

    Of plain values, containers, functions and small arrays it is what they are; other
    objects are equal to themselves alone, whatever happens in them.

    Raises:
        TooLarge: there are more than 1024 parts.
    """
    return _key(value, [_LARGEST], set())


def is_plain(value: object) -> bool:
    """Return whether a value is immutable and determined by its text."""
    return type(value) in PLAIN


def _key(value: Any, budget: list[int], above: set[int]) -> Hashable:
    budget[0] -= 1
    if budget[0] < 0:
        raise TooLarge
    if is_plain(value):
        return type(value), repr(value)
    if issubclass(type(value), np.dtype):  # isinstance would ask the value
        dtype: Hashable = value
        return dtype
    if _is_small_array(value):
        return value.dtype, value.shape, value.tobytes()
    if id(value) in above:  # it contains itself
        return id(value)
    above = above | {id(value)}
    if type(value) is types.FunctionType:
        return _function_key(value, budget, above)
    parts = parts_of(value)
    if parts is None:
        return id(value)
    keys = [_key(each, budget, above) for each in parts]
    is_set = issubclass(type(value), (set, frozenset))
    return type(value), frozenset(keys) if is_set else tuple(keys)


def parts_of(value: Any) -> list[Any] | None:
    """Return the elements of a container; None for other values."""
    kind = type(value)
    if issubclass(kind, dict) or kind is types.MappingProxyType:
        items = dict.items(value) if issubclass(kind, dict) else value.items()
        return [each for row in [*items] for each in row]  # threads may add some
    for each in _CONTAINERS:
        if issubclass(kind, each):
            return [*each.__iter__(value)]
    if kind in VIEWS:
        return [*value]
    if kind is functools.partial:
        return [value.func, value.args, value.keywords]
    return None


def _is_small_array(value: Any) -> bool:
    if not issubclass(type(value), (np.ndarray, np.generic)):
        return False
    return value.size <= _LARGEST and not value.dtype.hasobject


def _function_key(
    function: types.FunctionType, budget: list[int], above: set[int]
) -> Hashable:
    """Return a key for a function by its contents, as each call of the one around
    makes it anew.
    """
    by_name = function.__kwdefaults__ or {}
    defaults = [*(function.__defaults__ or ()), *by_name.values()]
    own = [each for row in vars(function).items() for each in row]
    parts = [_key(each, budget, above) for each in (*defaults, *own)]
    for cell in function.__closure__ or ():
        try:
            parts.append(_key(cell.cell_contents, budget, above))
        except ValueError:  # it has no value yet
            parts.append(None)
    return function.__code__, id(function.__globals__), tuple(parts)
