"""Calls of public functions: checks of a model's arguments, and their errors.

`guard` stands around the functions that models call. The annotations of a function
are what it takes: static arguments (integers, numbers, texts, lists of them, …) are
held to them before it runs, and it gets them as Python's own. Everything that is an
array is annotated as `ArrayLike`, which is `Any` at run time, and judged by who uses
it. An error that is met on the way tells the call: `in sum(a=f32[2, 3], axis=5)`.
"""

from __future__ import annotations

import inspect
import sys
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, wraps
from inspect import Parameter
from types import FrameType, NoneType, UnionType
from typing import Any, TypeVar

import numpy as np

from aotc.core import dtypes
from aotc.dialects.types import SymbolicDim, Tensor
from aotc.errors import AotcError, InputError
from aotc.tracing.array import Array
from aotc.tracing.call_sizes import CallSize, SizeCondition
from aotc.tracing.source_locations import fail, is_own, user_line
from aotc.tracing.spellings import keyword_advice

Named = list[tuple[str, object]]
Given = TypeVar("Given")
_ANYTHING = frozenset([Any, object])  # annotations that nothing is held to


def publish(namespace: dict[str, object]) -> None:
    """Set a module's `__all__` to its public names, and wrap its functions by `guard`.

    Args:
        namespace: of the module, which imports what is public and nothing else.
    """
    public = [name for name, value in namespace.items() if value is not publish]
    names = sorted(name for name in public if name[0] != "_")
    namespace["__all__"] = names
    guard(namespace, names)


def guard(namespace: dict[str, object], names: Sequence[str]) -> None:
    """Replace functions of a namespace by wrappers that check their arguments."""
    for name in names:
        if inspect.isfunction(namespace[name]):
            namespace[name] = _checked_function(namespace[name])


@cache
def _checked_function(function: Callable[..., object]) -> Callable[..., object]:
    """Return a wrapper that checks static arguments and adds the call to errors."""
    parameters = inspect.signature(function).parameters
    names, rest = _positional(parameters)

    @wraps(function)
    def call(*args: object, **kwargs: object) -> object:
        static = _static_parameters(function)
        try:
            given = [
                _checked_argument(*each, static)
                for each in _name_positional(names, rest, args)
            ]
            named = {
                name: _checked_argument(name, x, static) for name, x in kwargs.items()
            }
            return function(*given, *args[len(given) :], **named)
        except AotcError as error:
            error.where = error.where or user_line()
            if error.call is None and _user_calls(sys._getframe(1)):
                shown = [*_name_positional(names, rest, args), *kwargs.items()]
                error.call = _shown_call(function.__name__, shown)
                _ask_for_key(error, function, args, kwargs)
            raise
        except TypeError:
            require_call(function, args, kwargs)
            raise

    return call


def require_call(
    function: Callable[..., object],
    args: Sequence[object],
    kwargs: Mapping[str, object],
) -> None:
    """Refuse a call that does not fit the function's signature.

    Raises:
        InputError: an argument is unknown, missing, or one too many; it says what to
            write for keywords of other packages.
    """
    signature = inspect.signature(function)
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        name, parameters = function.__name__, signature.parameters
        refusal = InputError(
            "bad-call",
            f"{name}: {error}",
            where=user_line(),
            hint=f"the call is {name}({', '.join(_parameter_texts(parameters))})",
        )
        unknown = [key for key in kwargs if key not in parameters]
        if unknown and (advice := keyword_advice(unknown[0], list(parameters))):
            refusal.hint = f"{advice}; {refusal.hint}"
        _ask_for_key(refusal, function, args, kwargs)
        raise refusal from None


def _parameter_texts(parameters: Mapping[str, Parameter]) -> Iterator[str]:
    """Yield the parameters as text, without annotations, for messages."""
    keywords_only = False
    for parameter in parameters.values():
        if parameter.kind is Parameter.KEYWORD_ONLY and not keywords_only:
            keywords_only = True
            yield "*"
        keywords_only |= parameter.kind is Parameter.VAR_POSITIONAL
        yield str(parameter.replace(annotation=Parameter.empty))


def _ask_for_key(
    error: AotcError,
    function: Callable[..., object],
    args: Sequence[object],
    kwargs: Mapping[str, object],
) -> None:
    """Change an error to say that a random key comes first, if it was not given."""
    parameters = inspect.signature(function).parameters
    first = next(iter(parameters), None)
    key = kwargs.get("key", args[0] if args else None)
    if first != "key" or (_is_key(key) and error.code != "bad-key"):
        return
    needed = [n for n, p in parameters.items() if p.default is p.empty]
    call = ", ".join(dict.fromkeys(["key", *needed, *list(parameters)[1:2]]))
    given = "nothing" if key is None else shown_value(key)
    error.code = "bad-key"
    name = function.__name__
    error.message = f"{name}: expected a random key, u32[2], first; got {given}"
    error.hint = (
        f"write {name}({call}) with key = aotc.random.key(0); for new "
        "numbers at each call keep the key in an aotc.State and "
        "aotc.random.split it in the entry"
    )


def _is_key(value: object) -> bool:
    """Return whether a value is a random key: u32[2]."""
    if not isinstance(value, (Array, np.ndarray)):
        return False
    shape = value.type.shape if isinstance(value, Array) else value.shape
    return str(value.dtype) in ("u32", "uint32") and shape == (2,)


def _positional(parameters: Mapping[str, Parameter]) -> tuple[list[str], str | None]:
    """Return the positional parameters, and the name of `*args` if there is one."""
    single = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
    names = [name for name, each in parameters.items() if each.kind in single]
    kinds = {each.kind: name for name, each in parameters.items()}
    return names, kinds.get(Parameter.VAR_POSITIONAL)


def _name_positional(
    names: Sequence[str], star_name: str | None, args: Sequence[object]
) -> Named:
    """Return positional arguments as pairs with their parameters' names."""
    named = list(zip(names, args, strict=False))
    return (
        named
        if star_name is None
        else named + [(star_name, x) for x in args[len(names) :]]
    )


def _user_calls(frame: FrameType) -> bool:
    """Return whether the caller is user code; methods of arrays count as such."""
    own = Array.__module__
    while frame.f_back is not None and frame.f_globals.get("__name__") == own:
        frame = frame.f_back
    return not is_own(frame.f_globals.get("__name__", ""))


@cache
def _static_parameters(function: Callable[..., object]) -> dict[str, object]:
    """Return the annotations of parameters that take no arrays, by name."""
    hints = typing.get_type_hints(function)
    return {name: hint for name, hint in hints.items() if _is_static(hint)}


def _is_static(hint: object) -> bool:
    """Return whether an annotation is of values that are checked, not of arrays."""
    known = isinstance(hint, type) or typing.get_origin(hint) in _ORIGINS
    return known and _ANYTHING.isdisjoint(_alternatives(hint))


def _alternatives(hint: object) -> tuple[object, ...]:
    """Return the members of a union annotation; others as a tuple of one."""
    union = typing.get_origin(hint) in (UnionType, typing.Union)
    return typing.get_args(hint) if union else (hint,)


# ---- what annotations mean ----------------------------------------------------------


class _Misfit(Exception):
    """Raised for a value that does not fit an annotation."""


def _checked_argument(
    name: str, value: object, annotations: dict[str, object]
) -> object:
    """Return an argument converted by its annotation; refuse one that does not fit."""
    if name not in annotations:
        return value
    try:
        return _convert(annotations[name], value)
    except _Misfit:
        fail(
            "bad-argument",
            f"expected '{name}' to be {_annotation_in_words(annotations[name])}; got "
            f"{shown_value(value)}",
        )


def _convert(hint: object, value: object) -> object:
    """Return a value converted to an annotation's type; raise _Misfit for others."""
    origin = typing.get_origin(hint)
    if origin in _ORIGINS:
        return _ORIGINS[origin](typing.get_args(hint), value)
    if hint in _READERS:
        return _READERS[hint](value)
    return _require(not isinstance(hint, type) or isinstance(value, hint), value)


def _as_one_of(hints: tuple[object, ...], value: object) -> object:
    """Convert a value to the first of some types that it fits."""
    if isinstance(value, SymbolicDim) and SymbolicDim in hints:
        return value
    for hint in hints:
        try:
            return _convert(hint, value)
        except _Misfit:
            continue
    raise _Misfit


def _as_list(
    hints: tuple[object, ...], value: object
) -> list[object] | tuple[object, ...] | Array | np.ndarray:
    """Convert a list, tuple, range or array to a list or tuple of converted
    elements.
    """
    value = _concrete(value)
    if isinstance(value, (Array, np.ndarray)) and value.ndim:
        if hints[0] in _ANYTHING:
            return value  # whoever asks for several arrays knows if one will do
        value = value.tolist() if isinstance(value, np.ndarray) else value
    if not isinstance(value, (list, tuple, range)):
        raise _Misfit
    read = [_convert(hints[0], part) for part in value]
    return read if isinstance(value, list) else tuple(read)


def _as_tuple(hints: tuple[object, ...], value: object) -> object:
    """Convert a list or tuple to a tuple with an element of each type."""
    if hints[-1] is Ellipsis:
        return tuple(_as_list(hints, value))
    if not isinstance(value, (list, tuple)) or len(value) != len(hints):
        raise _Misfit
    return tuple(_convert(hint, part) for hint, part in zip(hints, value, strict=True))


def _as_function(_: object, value: object) -> object:
    """Return a callable; raise _Misfit for others."""
    return _require(callable(value), value)


def _integer(value: object) -> int:
    """Return a scalar as an int; raise _Misfit for others."""
    value = _scalar(value)
    if not isinstance(value, int):
        raise _Misfit
    return int(value)


def _number(value: object) -> object:
    """Return a scalar as a Python number; raise _Misfit for others."""
    value = _scalar(value)
    return _require(isinstance(value, (int, float)), value)


def _truth(value: object) -> bool:
    """Return a boolean scalar as a bool; raise _Misfit for others, numbers too."""
    value = _scalar(value)
    return bool(_require(isinstance(value, bool), value))


def _scalar(value: object) -> object:
    """Return a NumPy scalar, constant or size as a Python number; others unchanged.

    What only a call decides is asked for its value.
    """
    if isinstance(value, CallSize):
        return value.pin()
    if isinstance(value, SizeCondition):
        return bool(value)
    value = _concrete(value)
    if isinstance(value, (np.generic, np.ndarray)) and not value.ndim:
        return value.item()
    return value


def _concrete(value: object) -> object:
    """Return a constant Array as a NumPy array; others unchanged."""
    if isinstance(value, Array) and value._data is not None:
        return value._data
    return value


def _require(fits: bool, value: Given) -> Given:
    """Return a value; raise _Misfit unless it fits."""
    if not fits:
        raise _Misfit
    return value


# how a value is read, and what messages call it, alone and in a list
_READERS: dict[object, Callable[[object], object]] = {
    int: _integer,
    float: _number,
    bool: _truth,
    **dict.fromkeys(_ANYTHING, lambda value: value),
}
_ORIGINS: dict[object, Callable[[tuple[object, ...], object], object]] = {
    UnionType: _as_one_of,
    typing.Union: _as_one_of,
    Sequence: _as_list,
    tuple: _as_tuple,
    Callable: _as_function,
}
_MEANINGS: dict[object, tuple[str, str]] = {
    int: ("an integer", "integers"),
    float: ("a number", "numbers"),
    bool: ("True or False", "truth values"),
    **dict.fromkeys(_ANYTHING, ("a value", "values")),
    str: ("a string", "strings"),
    NoneType: ("None", "Nones"),
    SymbolicDim: ("a size", "sizes"),
}


def _annotation_in_words(hint: object, plural: bool = False) -> str:
    """Return the plain-language name of an annotation, for messages."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if hint in _MEANINGS:
        return _MEANINGS[hint][plural]
    if hint == int | SymbolicDim:
        return "sizes" if plural else "a size"
    if origin in (UnionType, typing.Union):
        return " or ".join(_annotation_in_words(part, plural) for part in inner)
    if origin is Sequence:
        return ("lists of " if plural else "a list of ") + _annotation_in_words(
            inner[0], True
        )
    if origin is tuple:
        count = f"{len(inner)} " if Ellipsis not in inner else ""
        lists = f"lists of {count}" if plural else f"a list of {count}"
        return lists + _annotation_in_words(inner[0], True)
    if origin is Callable:
        return "functions" if plural else "a function"
    return getattr(hint, "__name__", "value") + ("s" if plural else "")


# ---- what messages show -------------------------------------------------------------

_LONGEST = 4  # parts of a list that are shown
_WIDEST = 40  # characters of a value


def _shown_call(name: str, pairs: Named) -> str:
    """Return a call as text, for messages."""
    return f"{name}({', '.join(f'{key}={shown_value(value)}' for key, value in pairs)})"


def shown_value(value: object) -> str:
    """Return a value as short text, for messages: an array by its type."""
    if isinstance(value, Array):
        return str(value.type)
    if isinstance(value, np.ndarray):
        return _shown_numpy(value)
    if isinstance(value, (list, tuple)):
        items = [*value]  # of a pair of arrays, an index would be one of each
        parts = [*map(shown_value, items[:_LONGEST]), *["…"] * (len(items) > _LONGEST)]
        ends = "[]" if isinstance(value, list) else "()"
        return f"{ends[0]}{', '.join(parts)}{ends[1]}"
    if callable(value):
        return getattr(value, "__name__", type(value).__name__)
    if repr(value) == object.__repr__(value):  # an address would say nothing
        return f"an object of type {type(value).__name__}"
    text = repr(value)
    return text if len(text) <= _WIDEST else f"{text[:_WIDEST]}…"


def _shown_numpy(array: np.ndarray) -> str:
    """Return a NumPy array's type as text, for messages."""
    try:
        return str(Tensor(array.shape, dtypes.canonical_dtype(array.dtype)))
    except InputError:
        return f"an array of {array.dtype}"
