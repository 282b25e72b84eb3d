"""Rules of operations in regions while they are traced; all others end them.

Tracing executes Python once, for calls to come. So it may only look into what is the
same in these calls: traced arrays, values and containers that code is made for, and
what the region makes itself. Whatever else is looked into, called or changed ends it.
"""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Mapping, Sequence
from typing import TypeGuard, TypeVar

import numpy as np

from aotc.core.contents import (
    VIEWS,
    is_plain,
    parts_of,
)
from aotc.core.pytree import PyTree, flatten_in_order
from aotc.hybrid_programs.python.breaks import (
    Break,
    Inside,
    identities,
    inside_region,
    is_data,
    is_own,
)
from aotc.tracing.array import Array

Value = TypeVar("Value")

# of Python, which only compute, with values that regions may look into
_COMPUTING = frozenset({
    abs, bool, complex, divmod, float, int, len, pow, range, repr, round, slice, str,
})  # fmt: skip
# which go through what they are given
ITERATING = frozenset({
    all, any, dict, enumerate, filter, frozenset, iter, list, map, max, min, next,
    reversed, set, sorted, sum, tuple, zip,
})  # fmt: skip
# which look at types alone
_LOOKING = frozenset({isinstance, issubclass, type})
_CONTAINERS = (list, dict, set)
_MOST_PARTS = 10_000
_IMMUTABLE = (tuple, str, bytes, frozenset, range)
# methods of containers that change nothing
_READING = frozenset({
    "copy", "count", "get", "index", "items", "keys", "values", "__contains__",
    "__getitem__", "__len__",
})  # fmt: skip
# attributes of arrays that NumPy's have in another form
_OTHER_IN_NUMPY = frozenset({"dtype", "type"})
_FUNCTIONS = (
    types.FunctionType, types.MethodType, types.BuiltinFunctionType, types.ModuleType,
    type,
)  # fmt: skip


# ---- calls --------------------------------------------------------------------------


def refuse_call(
    function: object, args: Sequence[object], kwargs: Mapping[str, object]
) -> None:
    """Raise `Break` unless a call is known to have no effects and a fixed result.

    Raises:
        Break: the function might have.
    """
    if is_own(function):
        _refuse_call_of_own(function, args, kwargs)
    elif is_one_of(function, _LOOKING | _COMPUTING | ITERATING):
        for each in (*args, *kwargs.values()):
            _refuse_argument(function, each)
    elif _is_method_of_container(function):
        _refuse_method(function)
    elif isinstance(function, type):
        if not issubclass(function, BaseException) and not _is_named_tuple(function):
            raise Break(f"{name_of(function)} makes an object")
    elif _is_foreign(function):
        raise Break(f"{name_of(function)} is not aotc's")
    elif not any(map(_holds_arrays, [*args, *kwargs.values()])):
        raise Break(f"{name_of(function)} is given no array that is computed here")


def _has_function_of_user(function: object) -> bool:
    """Return whether a function of aotc's wraps a user's, as `grad(f)` does."""
    left, seen = [function], set[int]()
    while left:
        each = left.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        if callable(each) and not isinstance(each, type) and not is_own(each):
            return True
        cells = getattr(each, "__closure__", None) or ()
        left += [x for cell in cells for x in _cell_contents(cell)]
        left += parts_of(each) or []
    return False


def _cell_contents(cell: types.CellType) -> list[object]:
    """Return a closure cell's content as a list; empty for an unassigned cell."""
    try:
        return [cell.cell_contents]
    except ValueError:  # it has no value yet
        return []


def _refuse_argument(function: object, value: object) -> None:
    """Raise `Break` for an argument that a Python function may not read in a region."""
    if is_one_of(function, _LOOKING):
        if isinstance(value, Array):
            raise Break("an array is one of NumPy's for Python")
    elif is_one_of(function, ITERATING):
        _refuse_looking_through(value)
    elif function is len:
        refuse_use(value)
    elif function in (str, repr):
        refuse_text(value)
    else:
        refuse_comparison(value)


def _refuse_call_of_own(
    function: object, args: Sequence[object], kwargs: Mapping[str, object]
) -> None:
    """Raise `Break` for a call of aotc's on values that code is not compiled for.

    Raises:
        Break: the function has some of the user's in it, which do not ask; or a large
            array may have other elements in the next call.
    """
    found = inside_region.get()
    if found is None:
        return
    is_made = any(function is each for each in found.made)
    if not is_made and _has_function_of_user(function):
        raise Break(f"{name_of(function)} was made of a function outside")
    if not found.depth:
        for each in (*args, *kwargs.values()):
            if isinstance(each, np.ndarray):
                raise Break("an array of an object may change from call to call")


def _is_method_of_container(
    function: object,
) -> TypeGuard[types.BuiltinFunctionType]:
    """Return whether a function is a built-in method of a container."""
    return isinstance(function, types.BuiltinFunctionType) and _is_container(
        function.__self__
    )


def _refuse_method(function: types.BuiltinFunctionType) -> None:
    """Raise `Break` for a method that changes an object from outside the region."""
    owner = function.__self__
    if function.__name__ in ("count", "index", "__contains__"):
        refuse_comparison(owner)
    if not (isinstance(owner, _IMMUTABLE) or function.__name__ in _READING):
        refuse_change(owner, name_of(function))


def _refuse_uses(*values: object) -> None:
    """Raise `Break` if a region may not read one of the values."""
    for each in values:
        refuse_use(each)


def _refuse_looking_through(value: object) -> None:
    """Raise `Break` for an argument that a region may not iterate over."""
    if callable(value) and not isinstance(value, (type, Array)):
        return  # it is made to ask
    if isinstance(value, (list, tuple, dict)) and type(value) in (list, tuple, dict):
        _refuse_uses(*value)
    elif is_iterator(value):
        refuse_iteration(value)
    else:
        refuse_use(value)
        if type(value) in (set, frozenset):
            refuse_iteration(value)


def is_iterator(value: object) -> bool:
    """Return whether a value is an iterator: has `__next__`."""
    return hasattr(type(value), "__next__")


def is_one_of(function: object, functions: frozenset[object]) -> bool:
    """Return whether a function is in a set; False if it cannot be hashed."""
    try:
        return function in functions
    except TypeError:
        return False


def _is_container(value: object) -> bool:
    """Return whether a value is a built-in container, an immutable value or a dict
    view.
    """
    return type(value) in (*_CONTAINERS, *_IMMUTABLE) or isinstance(value, VIEWS)


def _is_named_tuple(kind: type) -> bool:
    """Return whether a class is a named tuple."""
    return issubclass(kind, tuple) and hasattr(kind, "_fields")


def _is_foreign(function: object) -> bool:
    """Return whether a function is not written in Python, or is NumPy's."""
    module = str(getattr(function, "__module__", ""))
    if module.partition(".")[0] == "numpy":
        return True
    return isinstance(function, (types.BuiltinFunctionType, np.ufunc))


def name_of(function: object) -> str:
    """Return a function's name for messages, such as `numpy.dot`."""
    name = getattr(function, "__qualname__", None) or type(function).__qualname__
    name = name.rpartition("<locals>.")[2]
    module = getattr(function, "__module__", None) or ""
    top = str(module).partition(".")[0]
    return f"{top}.{name}" if top in ("numpy", "time", "random", "torch") else name


def _holds_arrays(value: PyTree) -> bool:
    """Return whether a pytree has an Array among its leaves."""
    return any(isinstance(each, Array) for each in flatten_in_order(value)[0])


# ---- looking into values ------------------------------------------------------------


def refuse_use(value: Value) -> Value:
    """Return a value; raise `Break` if code is not specialized on its contents.

    Raises:
        Break: it is an object that may be different in the next call.
    """
    if isinstance(value, (Array, np.dtype, np.generic, *_FUNCTIONS)):
        return value
    if is_plain(value) or _is_container(value) or is_own(value):
        return value
    if isinstance(value, tuple) and _is_named_tuple(type(value)):
        return value
    found = inside_region.get()
    if isinstance(value, np.ndarray) and found is not None and found.depth:
        return value
    raise Break(f"a {type(value).__name__} may be another one in the next call")


def refuse_comparison(value: Value) -> Value:
    """Return a value; raise `Break` if it has an object that a region may not compare.

    Raises:
        Break: there is an object in it.
    """
    left, seen = list[object]([value]), set[int]()
    while left:
        each = left.pop()
        refuse_use(each)
        if id(each) in seen or len(seen) > _MOST_PARTS:
            raise Break("a container is too large to be looked into")
        parts = parts_of(each)
        if parts is not None:
            seen.add(id(each))
            left += parts
    return value


def refuse_text(value: Value) -> Value:
    """Return a value; raise `Break` if its text in a region differs from Python's.

    Raises:
        Break: it is an array, or has objects in it.
    """
    if isinstance(value, Array):
        raise Break("the text of an array is NumPy's")
    return refuse_comparison(value)


def refuse_iteration(value: Value) -> Value:
    """Return a value; raise `Break` if iterating over it twice would differ.

    Raises:
        Break: going through it changes it, or has an order of its own.
    """
    found = inside_region.get()
    if found is not None and any(value is each for each in found.made):
        return value
    if type(value) in (set, frozenset):
        raise Break("a set has no order")
    if is_iterator(value):
        raise Break(f"going through a {type(value).__name__} uses it up")
    return refuse_use(value)


def refuse_identity(one: object, other: object) -> None:
    """Raise `Break` where `one is other` could differ from Python's answer.

    Raises:
        Break: it may have copies.
    """
    for each in (one, other):
        if each is None or isinstance(each, (bool, type(...), *_FUNCTIONS)):
            return
    raise Break("whether two values are one is for Python to say")


def refuse_change(owner: object, what: str) -> None:
    """Raise `Break` for a change of any object but a container that the region created.

    Raises:
        Break: it is another object.
    """
    found = inside_region.get()
    given = found.given if found else ()
    if type(owner) in _CONTAINERS and id(owner) not in given:
        return
    raise Break(f"{what} may change an object from outside")


def refuse_change_in_place(value: object) -> None:
    """Raise `Break` if `x += …` could change an object from outside the region.

    Raises:
        Break: it may.
    """
    found = inside_region.get()
    if isinstance(value, np.ndarray) or (found and id(value) in found.in_place):
        raise Break("an array from outside is changed in place")
    if type(value) in _CONTAINERS:
        refuse_change(value, "an assignment")
    refuse_use(value)


# ---- attributes ---------------------------------------------------------------------


def read_attribute(owner: object, name: str) -> object:
    """Return an attribute of an object; raise `Break` if a region may not read it.

    Raises:
        Break: it is data that may be other data in the next call, or is computed.
    """
    found = inside_region.get()
    if found is not None and isinstance(owner, Array) and name in _OTHER_IN_NUMPY:
        raise Break(f"'{name}' of an array is NumPy's")
    if found is None or _has_known_attributes(owner):
        return getattr(owner, name)
    if not isinstance(owner, types.ModuleType):
        _refuse_computed_attribute(owner, name)
    value = getattr(owner, name)
    if is_data(value) and not found.depth:
        raise Break(f"'{name}' of {_kind(owner)} may change from call to call")
    note_attribute(found, owner, name, value)
    found.given |= identities({name: value})
    return value


def note_attribute(found: Inside, owner: object, name: str, value: object) -> None:
    """Record an attribute that was read; for a method, the function behind it."""
    if isinstance(value, types.MethodType):
        look = functools.partial(_function_behind, owner, name)
        found.note_reading((id(owner), name), look, value.__func__)
    elif getattr(value, "__self__", None) is not owner:
        look = functools.partial(getattr, owner, name)
        found.note_reading((id(owner), name), look, value)


def _function_behind(owner: object, name: str) -> object:
    """Return the function of a bound method."""
    method: types.MethodType = getattr(owner, name)
    return method.__func__


def _has_known_attributes(owner: object) -> bool:
    """Return whether an object's attributes are known to be constant or tracked."""
    if isinstance(owner, types.ModuleType):
        return is_own(owner)
    return (
        isinstance(owner, Array)
        or is_plain(owner)
        or _is_container(owner)
        or (is_own(owner) or isinstance(owner, (np.dtype, np.generic)))
    )


def _refuse_computed_attribute(owner: object, name: str) -> None:
    """Raise `Break` for an attribute whose read executes user code.

    Raises:
        Break: it does.
    """
    kind = owner if isinstance(owner, type) else type(owner)
    for special in ("__getattr__", "__getattribute__"):
        found = inspect.getattr_static(type(owner), special, None)
        if isinstance(found, types.FunctionType):
            raise Break(f"{_kind(owner)} computes its attributes")
    static = inspect.getattr_static(kind, name, None)
    functions = (types.FunctionType, classmethod, staticmethod)
    is_slot = isinstance(
        static, (types.MemberDescriptorType, types.GetSetDescriptorType)
    )
    if isinstance(static, functions) or is_slot:
        return
    if hasattr(type(static), "__get__") and not isinstance(static, type):
        raise Break(f"'{name}' of {_kind(owner)} is computed when it is read")


def _kind(owner: object) -> str:
    """Return an owner's name for messages: of a module or class, or `a` and its
    class.
    """
    if isinstance(owner, (types.ModuleType, type, types.FunctionType)):
        return str(owner.__name__)
    return f"a {type(owner).__name__}"
