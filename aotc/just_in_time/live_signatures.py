"""Signatures of functions as they are now: defaults, code and partials may change."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from operator import is_
from types import FunctionType, MethodType
from typing import Any


class LiveSignature:
    """The signature of a function, read again when its code or defaults have changed.

    Args:
        function: of Python, or a method, a partial or an object that calls one.

    Attributes:
        is_captured: whether snapshots of what the function captures see each change:
            not of the arguments by name of a partial, which calls are given.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self.is_captured = not isinstance(function, functools.partial)
        self._known = self._read()

    def read(self) -> inspect.Signature:
        """Return the current signature: the same object while nothing changes."""
        parts, found = self._known
        now = [*_parts(self._function)]
        if len(now) != len(parts) or not all(map(is_, now, parts)):
            self._known = _, found = self._read()
        return found

    def _read(self) -> tuple[list[object], inspect.Signature]:
        """Return the objects that determine the signature, and the signature."""
        return [*_parts(self._function)], inspect.signature(self._function)


def _parts(function: Any) -> Iterator[object]:
    """Yield the objects that determine a signature, those of wrapped functions, too."""
    seen = set[int]()
    while function is not None and id(function) not in seen:
        seen.add(id(function))
        yield function
        attributes = getattr(function, "__dict__", {})
        yield attributes.get("__signature__")
        kind, inner = type(function), attributes.get("__wrapped__")
        if kind is FunctionType:
            yield function.__code__
            yield function.__defaults__
            for row in (function.__kwdefaults__ or {}).items():
                yield from row
        elif kind is MethodType:
            inner = function.__func__
        elif issubclass(kind, functools.partial):
            yield function.args
            for row in function.keywords.items():
                yield from row
            inner = function.func
        elif inner is None:  # of an object
            method = getattr(kind, "__call__", None)  # noqa: B004 - what it is
            inner = method if type(method) is FunctionType else None
        function = inner
