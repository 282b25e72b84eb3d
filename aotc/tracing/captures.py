"""Find what a function captures: what its code reads by name besides arguments.

Globals, the variables of functions around it, and attributes of objects and modules
that these are, of the function and of the user's functions that it calls. Found in the
bytecode and in the values of now, without calling anything; what is read by a computed
name (`getattr(x, name)`) or imported in a function is not. Functions of aotc, of
Python's library and of other libraries are taken to be what they are.
"""

from __future__ import annotations

import dis
import functools
import os
import types
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from aotc.tracing.contents import parts_of
from aotc.tracing.source_locations import Place, is_own

_MOST = 256  # captures of one function, and depth of what they are made of
_LOADS_OF_CELLS = ("LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF")
_ATTRIBUTES = ("LOAD_ATTR", "LOAD_METHOD")
_NOTHING = object()


@dataclass(frozen=True)
class Capture:
    """A name that a function reads, and what has the value of it.

    Args:
        owner: the variables of a module or a function, or the attributes of an object.
        key: the name there.
        text: what messages call it, such as `config.scale`.
        place: the line that reads it.
    """

    owner: Mapping[str, Any] | types.CellType
    key: str
    text: str
    place: Place

    def value(self) -> Any:
        """Return the value of now.

        Raises:
            LookupError: it is nothing any more.
        """
        if isinstance(self.owner, types.CellType):
            try:
                return self.owner.cell_contents
            except ValueError:
                raise LookupError(self.text) from None
        return self.owner[self.key]


@dataclass(frozen=True)
class Write:
    """A statement that gives a name outside of the function another value."""

    key: str
    text: str
    place: Place


@dataclass
class Captures:
    """What a function captures, and which names outside of it it assigns.

    Args:
        reads: in the order in which they were found.
        writes: likewise.
        is_whole: whether that is all, and not the first few hundred.
    """

    reads: list[Capture] = field(default_factory=list)
    writes: list[Write] = field(default_factory=list)
    is_whole: bool = True


def captures_of(*functions: Any) -> Captures:
    """Find what functions capture.

    Args:
        functions: of Python, or what calls such: methods, partials, objects.
    """
    search = _Search()
    try:
        for each in functions:
            search.value(each, getattr(each, "__name__", "function"), ("", 0))
        search.attributes_of_objects()
    except RecursionError:
        search.found.is_whole = False
    return search.found


class _Search:
    def __init__(self) -> None:
        self.found = Captures()
        self._seen = dict[int, Any]()  # which keeps them, so that identities stay
        self._names = set[tuple[int, str]]()
        self._attributes = dict[str, Place]()  # that some code reads
        self._objects = list[tuple[Any, str]]()
        self._values = 0

    # ---- values

    def value(self, value: Any, text: str, place: Place) -> None:
        """Find what is captured by way of a value."""
        kind = type(value)  # of proxies, isinstance would ask what they stand for
        if issubclass(kind, _INERT) or id(value) in self._seen:
            return
        self._values += 1
        if self._values > 16 * _MOST:
            self.found.is_whole = False
            return
        self._seen[id(value)] = value
        if kind is types.FunctionType:
            self._function(value, text, place)
        elif kind is types.MethodType:
            self.value(value.__func__, text, place)
            self.value(value.__self__, text.rpartition(".")[0] or "self", place)
        elif issubclass(kind, functools.partial):
            for each in (value.func, *value.args, *value.keywords.values()):
                self.value(each, text, place)
        elif issubclass(kind, type):
            self._class(value, place)
        elif (parts := parts_of(value)) is not None:
            for each in parts[:_MOST]:
                self.value(each, text, place)
        else:
            self._object(value, text, place)

    def _class(self, kind: type, place: Place) -> None:
        """The methods that making an object of a class calls."""
        if is_of_user(getattr(kind, "__module__", "")):
            for name in ("__new__", "__init__", "__post_init__", "__call__"):
                self.value(vars(kind).get(name), f"{kind.__name__}.{name}", place)

    def _object(self, value: Any, text: str, place: Place) -> None:
        attributes = _attributes_of(value)
        # what functools.wraps has noted, as in jit
        self.value(attributes.get("__wrapped__"), text, place)
        if is_own(type(value).__module__):
            for each in attributes.values():
                if isinstance(each, types.FunctionType):
                    self.value(each, text, place)
        elif len(self._objects) >= _MOST:
            self.found.is_whole = False
        else:
            self._objects.append((value, text))
            for kind in type(value).__mro__[:-1]:
                self.value(vars(kind).get("__call__"), text, place)

    def attributes_of_objects(self) -> None:
        """Capture the attributes of objects that some code reads by name."""
        done, found = (-1, -1), (0, 0)
        while done != found:
            done = found
            for owner, text in list(self._objects):
                for name, place in list(self._attributes.items()):
                    self._attribute(owner, name, f"{text}.{name}", place)
            found = len(self._seen), len(self._attributes)

    def _attribute(self, owner: Any, name: str, text: str, place: Place) -> None:
        attributes = _attributes_of(owner)
        if name in attributes:
            self._capture(attributes, name, text, place)
            return
        for kind in type(owner).__mro__[:-1]:
            found = vars(kind).get(name, _NOTHING)
            if found is _NOTHING or not is_of_user(kind.__module__):
                continue
            if isinstance(found, property):
                self.value(found.fget, text, place)
            elif isinstance(found, (types.FunctionType, staticmethod, classmethod)):
                self.value(getattr(found, "__func__", found), text, place)
            elif not hasattr(found, "__get__"):
                self._capture(vars(kind), name, text, place)
            return

    def _capture(self, owner: Any, key: str, text: str, place: Place) -> None:
        """Take note of a name, and of what is captured by way of its value."""
        if (id(owner), key) in self._names:
            return
        if len(self.found.reads) >= _MOST:
            self.found.is_whole = False
            return
        made = Capture(owner, key, text, place)
        try:
            value = made.value()
        except LookupError:  # it has no value yet
            return
        self._names.add((id(owner), key))
        self._seen[id(owner)] = owner
        if not _is_fixed(key, value):
            self.found.reads.append(made)
        self.value(value, text, place)

    # ---- code

    def _function(self, function: types.FunctionType, text: str, place: Place) -> None:
        for each in (
            *(function.__defaults__ or ()),
            *(function.__kwdefaults__ or {}).values(),
            vars(function).get("__wrapped__"),
        ):
            self.value(each, text, place)
        cells = dict(
            zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        )
        if is_of_user(function.__module__, function.__code__.co_filename):
            for code in _codes(function.__code__):
                self._code(code, function, cells)
            return
        for name, cell in cells.items():  # such as what `aotc.grad` is given
            with_value = Capture(cell, name, name, place)
            try:
                inside = with_value.value()
            except LookupError:
                continue
            if callable(inside):
                self.value(inside, text, place)

    def _code(
        self,
        code: types.CodeType,
        function: types.FunctionType,
        cells: Mapping[str, types.CellType],
    ) -> None:
        steps = [*dis.get_instructions(code)]
        for number, step in enumerate(steps):
            line = step.positions.lineno if step.positions else None
            place = code.co_filename, line or code.co_firstlineno
            name = step.opname
            rest = steps[number + 1 :]
            if name in ("LOAD_GLOBAL", "LOAD_NAME"):
                self._name(function.__globals__, step.argval, rest, place)
            elif name in _LOADS_OF_CELLS and step.argval in cells:
                self._name(cells[step.argval], step.argval, rest, place)
            elif name in _ATTRIBUTES:
                self._attributes.setdefault(step.argval, place)
            elif name in ("STORE_GLOBAL", "DELETE_GLOBAL"):
                text = f"assigns the global '{step.argval}'"
                self.found.writes.append(Write(step.argval, text, place))
            elif name in ("STORE_DEREF", "DELETE_DEREF") and step.argval in cells:
                text = f"assigns '{step.argval}' of the function around it"
                self.found.writes.append(Write(step.argval, text, place))

    def _name(
        self,
        owner: Mapping[str, Any] | types.CellType,
        name: str,
        rest: list[dis.Instruction],
        place: Place,
    ) -> None:
        """Capture a name, or what is read of the module that it stands for."""
        text, attributes = name, leading_attributes(rest)
        while True:
            try:
                value = Capture(owner, name, text, place).value()
            except LookupError:  # of `builtins`, or it has no value yet
                return
            if not issubclass(type(value), types.ModuleType):
                self._capture(owner, name, text, place)
                return
            if not is_of_user(value.__name__, getattr(value, "__file__", None)):
                return
            owner, name = vars(value), next(attributes, "")
            text = f"{text}.{name}"


_INERT = (
    int, float, complex, bool, str, bytes, type(None), types.ModuleType,
    types.BuiltinFunctionType, range, slice,
)  # fmt: skip


def _attributes_of(value: Any) -> dict[str, Any]:
    """Return the `__dict__` of an object, without running its code; empty for none."""
    try:
        found = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return {}
    return found if type(found) is dict else {}


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    """A code, and those of the functions that it makes."""
    yield code
    for each in code.co_consts:
        if isinstance(each, types.CodeType):
            yield from _codes(each)


def leading_attributes(steps: Iterable[dis.Instruction]) -> Iterator[str]:
    """The attributes that are read first, each of the one before."""
    for step in steps:
        if step.opname not in _ATTRIBUTES:
            return
        yield step.argval


def _is_fixed(name: str, value: Any) -> bool:
    """Whether a name stands for a thing of a library that has this name there."""
    if issubclass(type(value), types.ModuleType):
        return True
    if not callable(value):
        return False
    try:
        code, home = getattr(value, "__code__", None), value.__module__
        is_of_library = not is_of_user(home, getattr(code, "co_filename", None))
        return bool(is_of_library and value.__name__ == name)
    except Exception:  # a proxy, which may ask whom it likes
        return False


def is_of_user(module: str | None, file: str | None = None) -> bool:
    """Whether code is neither aotc's nor a library's.

    Args:
        module: that it is in.
        file: that it is in; None where that is not known.
    """
    if is_own(module or "") or (module or "").partition(".")[0] in _KNOWN_LIBRARIES:
        return False
    return file is None or not _is_in_library(file)


_KNOWN_LIBRARIES = {
    "builtins", "numpy", "math", "cmath", "operator", "functools", "itertools",
    "collections", "typing", "dataclasses", "torch", "jax", "scipy", "ml_dtypes",
}  # fmt: skip


@cache
def _is_in_library(file: str) -> bool:
    if file.startswith("<") and not file.startswith("<ipython"):
        return file.startswith("<frozen")
    path = Path(file)
    if {"site-packages", "dist-packages"} & {*path.parts}:
        return True
    return path.is_relative_to(Path(os.__file__).parent)
