"""What ends a region: operations that tracing must not or cannot execute."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from typing import Any, ParamSpec, TypeVar

import numpy as np

from aotc.errors import InputError
from aotc.pytree import flatten
from aotc.tracing.array import Array
from aotc.tracing.source_locations import user_line
from aotc.tracing.tracing import current_trace

P = ParamSpec("P")
R = TypeVar("R")

# functions of Python that only compute, and say themselves what they cannot compute with
_PURE = frozenset({
    abs, all, any, bool, complex, dict, divmod, enumerate, float, frozenset, getattr,
    hasattr, int, isinstance, issubclass, iter, len, list, map, max, min, next, pow,
    range, repr, reversed, round, set, slice, sorted, str, sum, tuple, type, zip,
})  # fmt: skip
_CONTAINERS = (list, dict, set, tuple, str)

#: Whether a region is being traced, and the objects that it was given.
given_objects: ContextVar[frozenset[int] | None] = ContextVar(
    "aotc_hybrid", default=None
)


class Break(BaseException):
    """Tracing of a region ends before an operation that is Python's.

    It is no Exception, so that code which handles those lets it pass.

    Args:
        reason: as the end of "Python computes it, because …".
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def island(function: Callable[P, R]) -> Callable[P, R]:
    """Mark a function that Python computes: it is never traced.

    For functions with effects (retrieval, tools, logs) that take arrays. They are given
    NumPy arrays, and called once for each call of the `aotc.hybrid` function.

    Raises:
        InputError: when it is called in an entry, or by `aotc.jit`: `island-in-entry`.
    """

    @functools.wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> R:
        if given_objects.get() is not None:
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

    return called


def call_in_region(function: Any, /, *args: Any, **kwargs: Any) -> Any:
    """Call a function while a region is traced.

    Raises:
        Break: it might have effects or a result that tracing would keep for ever.
    """
    if _is_own(function) or _is_pure(function):
        return function(*args, **kwargs)
    owner = getattr(function, "__self__", None)
    if isinstance(owner, _CONTAINERS) and not isinstance(owner, type):
        if id(owner) in (given_objects.get() or ()):
            raise Break(f"{_name(function)} may change an object from outside")
        return function(*args, **kwargs)
    if _is_builtin(function):
        raise Break(f"{_name(function)} is not aotc's")
    if not any(_holds_arrays(each) for each in [*args, *kwargs.values()]):
        raise Break(f"{_name(function)} is given no array that is computed here")
    return function(*args, **kwargs)


def read_in_region(owner: Any, name: str) -> Any:
    """Read an attribute while a region is traced.

    Raises:
        Break: it is data of an object, which may be other data in the next call.
    """
    value = getattr(owner, name)
    if isinstance(owner, Array) or _is_own(owner) or not is_data(value):
        return value
    if isinstance(owner, types.ModuleType) or id(owner) in (given_objects.get() or ()):
        raise Break(f"'{name}' of {_kind(owner)} may change from call to call")
    return value


def _kind(owner: Any) -> str:
    is_module = isinstance(owner, types.ModuleType)
    return owner.__name__ if is_module else f"a {type(owner).__name__}"


def is_data(value: Any) -> bool:
    """Whether a value is neither a module nor something to call, nor aotc's."""
    if isinstance(value, (np.ndarray, np.generic)):
        return True
    return not (isinstance(value, types.ModuleType) or callable(value)) and not (
        _is_own(value)
    )


def stop(reason: str) -> None:
    """Leave a region.

    Raises:
        Break: always.
    """
    raise Break(reason)


def _is_own(function: Any) -> bool:
    owner = getattr(function, "__self__", None)
    if isinstance(owner, Array):
        return True
    if isinstance(function, types.ModuleType):
        module = function.__name__
    else:
        module = getattr(function, "__module__", None) or type(function).__module__
    return str(module).partition(".")[0] == "aotc"


def _is_pure(function: Any) -> bool:
    try:
        return function in _PURE
    except TypeError:  # it cannot be hashed
        return False


def _is_builtin(function: Any) -> bool:
    """Whether a function is not written in Python, such as NumPy's."""
    if isinstance(function, (types.FunctionType, types.MethodType)):
        module = getattr(function, "__module__", "") or ""
        return module.partition(".")[0] == "numpy"
    return isinstance(
        function, (types.BuiltinFunctionType, types.MethodDescriptorType, np.ufunc)
    )


def _name(function: Any) -> str:
    name = getattr(function, "__qualname__", None) or type(function).__qualname__
    module = getattr(function, "__module__", None) or ""
    top = module.partition(".")[0]
    return name if top in ("", "builtins", "__main__") else f"{top}.{name}"


def _holds_arrays(value: Any) -> bool:
    if isinstance(value, (list, tuple, dict)):
        try:
            return any(isinstance(each, Array) for each in flatten(value)[0])
        except InputError:  # keys that are no strings
            return False
    return isinstance(value, Array)


def are_arrays(leaves: Iterable[Any]) -> bool:
    """Whether all leaves of a tree are traced."""
    return all(isinstance(each, Array) for each in leaves)
