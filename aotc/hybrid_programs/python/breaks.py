"""Breaks that end a region being traced, and the state of its trace."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import ParamSpec, TypeVar

import numpy as np

from aotc.core.contents import (
    ContainerTooLarge,
    content_key,
    is_plain,
)
from aotc.errors import InputError
from aotc.tracing.array import Array
from aotc.tracing.source_locations import user_line
from aotc.tracing.tracing import current_trace

P = ParamSpec("P")
R = TypeVar("R")


class Break(BaseException):
    """Raised while a region is traced, before an operation that only Python can
    compute.

    It is no Exception, so that code which handles those lets it pass.

    Args:
        reason: why Python computes the operation.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True)
class OuterValue:
    """A variable or attribute that a traced function has read, with its value then.

    Args:
        look: gives the value of now.
        value: that it had, which lives as long as this.
        key: of the contents of this.
    """

    look: Callable[[], object]
    value: object
    key: Hashable

    def has_changed(self) -> bool:
        """Return whether the current value differs from the one that code was compiled
        for.
        """
        try:
            return bool(content_key(self.look()) != self.key)
        except Exception:  # whoever reads it now will be told
            return True


@dataclass
class Inside:
    """The state of the region that is being traced: its objects, iterators and reads.

    Args:
        given: identities of objects that were there before it.
        in_place: identities of given arrays that Python could change in place.
        arrays: identities of all that are given.
        depth: how many functions of the user it is in.
        made: iterators that it has made, of which it knows what they give.
        readings: of what is outside, by the functions that it calls.
    """

    given: set[int]
    in_place: set[int] = field(default_factory=set)
    arrays: set[int] = field(default_factory=set)
    depth: int = 0
    made: list[object] = field(default_factory=list)
    readings: dict[tuple[object, str], OuterValue] = field(default_factory=dict)

    def note_reading(
        self, what: tuple[object, str], look: Callable[[], object], value: object
    ) -> None:
        """Record the value of a variable or attribute that a traced function has read.

        Args:
            what: an object or its identity, and the name of an attribute or variable.
            look: gives its value of now.
            value: which it has.

        Raises:
            Break: it is too large to be compared at each call.
        """
        try:
            self.readings.setdefault(what, OuterValue(look, value, content_key(value)))
        except ContainerTooLarge:
            raise Break(f"'{what[-1]}' is too large to be compared") from None

    @contextmanager
    def function(self) -> Iterator[None]:
        """Count the nesting depth of calls of user functions within the `with`
        block.
        """
        self.depth += 1
        try:
            yield
        finally:
            self.depth -= 1


inside_region: ContextVar[Inside | None] = ContextVar("aotc_hybrid", default=None)


def island(function: Callable[P, R]) -> Callable[P, R]:
    """Mark a function as one that Python computes: calls of it are never traced.

    For functions of arrays with effects that tracing cannot see (in other languages, in
    libraries). Arrays that compiled code has computed are given to it as NumPy's.

    Raises:
        InputError: when it is called in an entry, or by `aotc.jit`: `island-in-entry`.
    """

    @functools.wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> R:
        if inside_region.get() is not None:
            raise Break(f"{function.__name__} is marked as an island")
        if current_trace() is not None:
            raise InputError(
                "island-in-entry",
                f"{function.__name__} is an island of Python, which compiled code "
                "cannot call",
                where=user_line(),
                hint="decorate the function that calls it with @aotc.hybrid, and build "
                "what is around it",
            )
        return function(*args, **kwargs)

    vars(called)["aotc_is_island"] = True
    return called


# ---- facts about values ------------------------------------------------------------


def is_data(value: object) -> bool:
    """Return whether a value is neither a module, nor callable, nor an object of
    aotc.
    """
    if isinstance(value, (np.ndarray, np.generic)):
        return True
    if isinstance(value, types.ModuleType) or callable(value):
        return False
    return not is_own(value)


def is_own(thing: object) -> bool:
    """Return whether a function, a module or an object belongs to aotc."""
    if isinstance(getattr(thing, "__self__", None), Array):
        return True
    if isinstance(thing, types.ModuleType):
        module = thing.__name__
    else:
        module = getattr(thing, "__module__", None) or type(thing).__module__
    return str(module).partition(".")[0] == "aotc"


def identities(values: Mapping[str, object]) -> set[int]:
    """Return the ids of the mutable objects among values and their elements."""
    found, left = set[int](), [*values.values()]
    while left:
        each = left.pop()
        if id(each) in found:
            continue
        owner = getattr(each, "__self__", None)  # of a method, which may change it
        if isinstance(owner, (list, dict, set)):
            left.append(owner)
        if isinstance(each, dict):
            left += each.values()
        elif isinstance(each, (list, tuple)):
            left += each
        is_fixed = isinstance(each, (Array, tuple, type, np.dtype)) or is_plain(each)
        if not is_fixed:
            found.add(id(each))
    return found
