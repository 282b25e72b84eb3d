"""What ends a region: operations that tracing must not or cannot execute."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar

import numpy as np

from aotc.errors import InputError
from aotc.pytree import flatten
from aotc.tracing.array import Array
from aotc.tracing.source_locations import user_line
from aotc.tracing.tracing import current_trace

P = ParamSpec("P")
R = TypeVar("R")

# of Python, which only compute and say themselves what they cannot compute with
_PURE = frozenset({
    abs, all, any, bool, complex, dict, divmod, enumerate, float, frozenset, getattr,
    hasattr, int, isinstance, issubclass, iter, len, list, map, max, min, next, pow,
    range, repr, reversed, round, set, slice, sorted, str, sum, super, tuple, type, zip,
})  # fmt: skip
_CONTAINERS = (list, dict, set)
_VALUES = (int, float, complex, bool, str, bytes, type(None), type, np.dtype)


class Break(BaseException):
    """Tracing of a region ends before an operation that is Python's.

    It is no Exception, so that code which handles those lets it pass.

    Args:
        reason: why Python computes the operation.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass
class Inside:
    """A region that is being traced.

    Args:
        given: identities of objects that were there before it.
        depth: how many functions of the user it is in.
    """

    given: set[int]
    depth: int = 0


inside_region: ContextVar[Inside | None] = ContextVar("aotc_hybrid", default=None)


def island(function: Callable[P, R]) -> Callable[P, R]:
    """Mark a function that Python computes: it is never traced.

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


def refuse_call(
    function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> None:
    """Let a region call only what has no effects and no result of its own.

    Raises:
        Break: the function might have.
    """
    if is_own(function) or _is_pure(function):
        return
    owner = getattr(function, "__self__", None)
    if isinstance(owner, (*_CONTAINERS, tuple, str)):
        refuse_change(owner, _name(function))
    elif _is_foreign(function):
        raise Break(f"{_name(function)} is not aotc's")
    elif not any(map(_holds_arrays, [*args, *kwargs.values()])):
        raise Break(f"{_name(function)} is given no array that is computed here")


def refuse_change(owner: Any, what: str) -> None:
    """Let a region change only containers that it has made.

    Raises:
        Break: it is another object.
    """
    found = inside_region.get()
    given = found.given if found else ()
    if isinstance(owner, (*_CONTAINERS, tuple, str)) and id(owner) not in given:
        return
    raise Break(f"{what} may change an object from outside")


def refuse_read(owner: Any, name: str, value: Any) -> None:
    """Let a region read of objects what stays as it is.

    In functions that it calls, it is data of the objects as they are when it is traced.

    Raises:
        Break: it is data, which may be other data in the next call.
    """
    found = inside_region.get()
    if found is None or isinstance(owner, Array) or is_own(owner) or not is_data(value):
        return
    is_known = isinstance(owner, types.ModuleType) or id(owner) in found.given
    if is_known and not found.depth:
        raise Break(f"'{name}' of {_kind(owner)} may change from call to call")
    found.given |= identities({name: value})


def _kind(owner: Any) -> str:
    is_module = isinstance(owner, types.ModuleType)
    return str(owner.__name__) if is_module else f"a {type(owner).__name__}"


def is_data(value: Any) -> bool:
    """Whether a value is neither a module nor something to call, nor aotc's."""
    if isinstance(value, (np.ndarray, np.generic)):
        return True
    if isinstance(value, types.ModuleType) or callable(value):
        return False
    return not is_own(value)


def is_own(thing: Any) -> bool:
    """Whether a function, a module or an object is aotc's."""
    if isinstance(getattr(thing, "__self__", None), Array):
        return True
    if isinstance(thing, types.ModuleType):
        module = thing.__name__
    else:
        module = getattr(thing, "__module__", None) or type(thing).__module__
    return str(module).partition(".")[0] == "aotc"


def identities(values: Mapping[str, Any]) -> set[int]:
    """Of the objects in values that can change."""
    found, left = set[int](), [*values.values()]
    while left:
        each = left.pop()
        if isinstance(each, dict):
            left += each.values()
        elif isinstance(each, (list, tuple)):
            left += each
        if not isinstance(each, (Array, tuple, *_VALUES)):
            found.add(id(each))
    return found


def _is_pure(function: Any) -> bool:
    try:
        return function in _PURE
    except TypeError:  # it cannot be hashed
        return False


def _is_foreign(function: Any) -> bool:
    """Whether a function is not written in Python, or is NumPy's."""
    module = str(getattr(function, "__module__", ""))
    if module.partition(".")[0] == "numpy":
        return True
    return isinstance(function, (types.BuiltinFunctionType, np.ufunc))


def _name(function: Any) -> str:
    name = getattr(function, "__qualname__", None) or type(function).__qualname__
    name = name.rpartition("<locals>.")[2]
    module = getattr(function, "__module__", None) or ""
    top = str(module).partition(".")[0]
    return f"{top}.{name}" if top in ("numpy", "time", "random", "torch") else name


def _holds_arrays(value: Any) -> bool:
    if isinstance(value, (list, tuple, dict)):
        try:
            return any(isinstance(each, Array) for each in flatten(value)[0])
        except InputError:  # keys that are no strings
            return False
    return isinstance(value, Array)
