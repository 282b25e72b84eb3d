"""Captures of functions: names that their code reads besides arguments.

Globals, the variables of functions around it, and attributes of objects, classes,
functions and modules that these are, of the function and of the user's functions that
it calls. Found in the bytecode and in the values of now, without calling anything; what
is read by a computed name (`getattr(x, name)`) or imported in a function is not. An
attribute is looked up as Python does, in the object and in its classes, so that one
which hides it later is seen, too. Functions of aotc, of Python's library and of other
libraries are taken to be what they are.
"""

from __future__ import annotations

import dis
import functools
import types
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeGuard

from aotc.core.contents import parts_of
from aotc.tracing.source_locations import Place, is_own
from aotc.tracing.user_modules import is_class_of_user, is_module_of_user, is_of_user

_MOST = 1024  # captures of one function
_DEEPEST = 4096  # values that these are made of
_LOADS_OF_CELLS = ("LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF")
_ATTRIBUTES = ("LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR")
_NOTHING = object()
#: what has names and their values
Variables = dict[str, object] | types.MappingProxyType[str, object]
# functions that read attributes by names that they are given …
_BY_NAME = {"getattr", "hasattr", "attrgetter"}
# … and all that there are
_OF_ALL = {"vars", "asdict", "astuple", "__dict__"}
# special methods that expressions do not call, or only texts
_OF_NO_EXPRESSION = (
    "__init__", "__new__", "__post_init__", "__del__", "__init_subclass__",
    "__class_getitem__", "__set_name__", "__setattr__", "__delattr__", "__setstate__",
    "__getstate__", "__reduce__", "__reduce_ex__", "__copy__", "__deepcopy__",
    "__repr__", "__str__", "__hash__", "__sizeof__", "__dir__",
)  # fmt: skip


@dataclass(frozen=True)
class Capture:
    """A variable or attribute that a function reads besides its arguments.

    Args:
        owner: the variables of a module or a function, the attributes of an object or a
            class; or an object itself, where these are not in a dict.
        key: the name there.
        text: what messages call it, such as `config.scale`.
        place: the line that reads it.
    """

    owner: Any
    key: str
    text: str
    place: Place

    @property
    def is_variable(self) -> bool:
        """Return whether the name is a key of a dict: a global or an attribute."""
        return type(self.owner) in (dict, types.MappingProxyType)

    def value(self) -> Any:
        """Return the current value of the variable or attribute.

        Raises:
            LookupError: it is nothing.
        """
        if self.is_variable:
            return self.owner[self.key]
        if isinstance(self.owner, types.CellType):
            try:
                return self.owner.cell_contents
            except ValueError:
                raise LookupError(self.text) from None
        try:
            return object.__getattribute__(self.owner, self.key)
        except AttributeError:
            raise LookupError(self.text) from None


@dataclass(frozen=True)
class Write:
    """A statement that assigns a variable outside of the function."""

    key: str
    text: str
    place: Place


@dataclass
class CaptureSummary:
    """The variables and attributes that a function reads, and outer names it assigns.

    Args:
        reads: in the order in which they were found.
        writes: likewise.
        is_whole: whether that is all, and not the first few hundred.
    """

    reads: list[Capture] = field(default_factory=list)
    writes: list[Write] = field(default_factory=list)
    is_whole: bool = True


def captures_of(*functions: object) -> CaptureSummary:
    """Return what functions read besides arguments, found in bytecode without calling
    them.

    Args:
        functions: of Python, or what calls such: methods, partials, objects.
    """
    search = _CaptureSearch()
    try:
        for each in functions:
            search.function(each)
        search.attributes_of_objects()
    except RecursionError:
        search.found.is_whole = False
    return search.found


class _CaptureSearch:
    """The search for the captures of functions and of what these call."""

    def __init__(self) -> None:
        self.found = CaptureSummary()
        self._seen = dict[int, Any]()  # which keeps them, so that identities stay
        self._names = set[tuple[int, str]]()
        self._attributes = dict[str, Place]()  # that some code reads
        self._asked = set[str]()  # those that need not be there
        self._reads_all: Place | None = None  # code that reads all there are
        self._objects = list[tuple[Any, str]]()
        self._variables = dict[int, tuple[type, Any]]()  # of classes
        self._values = 0

    def function(self, function: object) -> None:
        """Search a function for captures, and the arguments that partials give it."""
        text, place = getattr(function, "__name__", "function"), ("", 0)
        inner = function
        while isinstance(inner, functools.partial):
            self._capture(inner, "args", f"{text}.args", place)
            inner = inner.func
        self.value(function, text, place)

    # ---- values

    def value(self, value: object, text: str, place: Place) -> None:
        """Search a value for captures: functions, methods, classes and objects in
        it.
        """
        kind = type(value)  # of proxies, isinstance would ask what they stand for
        if issubclass(kind, _INERT) or id(value) in self._seen:
            return
        self._values += 1
        if self._values > _DEEPEST:
            self.found.is_whole = False
            return
        self._seen[id(value)] = value
        if type(value) is types.FunctionType:
            self._function(value, text, place)
        elif type(value) is types.MethodType:
            self.value(value.__func__, text, place)
            self.value(value.__self__, text.rpartition(".")[0] or "self", place)
        elif _is_module(value):
            if is_module_of_user(value):
                self._look_into(value, text)
                self._capture(vars(value), "__getattr__", text, place)
        elif _is_class(value):
            self._class(value, text, place)
        elif issubclass(kind, _DESCRIPTORS):
            for name in ("fget", "__func__", "func"):
                self.value(getattr(value, name, None), text, place)
        else:
            self._container_or_object(value, text, place)

    def _container_or_object(self, value: object, text: str, place: Place) -> None:
        """Search the elements of a container, or the attributes of an object."""
        parts = parts_of(value)
        for each in (parts or [])[:_MOST]:
            self.value(each, text, place)
        if parts is None or type(value).__module__ not in _OF_CONTAINERS:
            self._object(value, text, place)

    def _look_into(self, value: object, text: str) -> None:
        """Add an object to those whose attributes code may read by name."""
        if len(self._objects) >= _MOST:
            self.found.is_whole = False
        else:
            self._objects.append((value, text))

    def _class(self, kind: type, text: str, place: Place) -> None:
        """Search a class, and the methods that creating an object of it calls."""
        if is_class_of_user(kind):
            self._look_into(kind, text)
            for name in ("__new__", "__init__", "__post_init__", "__call__"):
                self.value(vars(kind).get(name), f"{kind.__name__}.{name}", place)

    def _object(self, value: object, text: str, place: Place) -> None:
        """Search the attributes and operator methods of an object."""
        attributes = _attributes_of(value)
        # what functools.wraps has noted, as in jit
        self.value(attributes.get("__wrapped__"), text, place)
        if is_own(type(value).__module__):
            for each in attributes.values():
                if isinstance(each, types.FunctionType):
                    self.value(each, text, place)
            return
        self._look_into(value, text)
        kinds = type(value).__mro__[:-1]
        if any(kind.__module__ == "collections" for kind in kinds):
            for name in [*attributes]:  # of UserDict, ChainMap, …
                self._capture(attributes, name, text, place)
        for kind in filter(is_class_of_user, kinds):
            for name, method in [*vars(kind).items()]:
                if _is_of_expressions(name, method):
                    self._capture(self._class_variables(kind), name, text, place)

    def attributes_of_objects(self) -> None:
        """Capture the attributes of listed objects that some code reads by name."""
        done, found = (-1, -1), (0, 0)
        while done != found:
            done = found
            for owner, text in list(self._objects):
                for name, place in list(self._attributes.items()):
                    self._attribute(owner, name, f"{text}.{name}", place)
                if self._reads_all is not None:
                    for name in self._all_names(owner):
                        self._attribute(owner, name, f"{text}.{name}", self._reads_all)
            found = len(self._seen), len(self._attributes)

    def _attribute(self, owner: object, name: str, text: str, place: Place) -> None:
        """Capture an attribute where lookup finds it, and its absence where lookup
        looks first.
        """
        missing, is_found = list[Variables](), False
        for variables in self._lookup_namespaces(owner):
            value = variables.get(name, _NOTHING)
            if value is _NOTHING:
                missing.append(variables)
                continue
            if type(value) is types.MemberDescriptorType and not is_found:
                self._capture(owner, name, text, place)  # a slot
            elif not is_found:
                self._capture(variables, name, text, place)
            elif isinstance(value, (types.FunctionType, *_DESCRIPTORS)):
                self.value(value, text, place)  # super() calls it
            if not is_found and not isinstance(value, _KEPT_IN_OBJECTS):
                self._absent(missing, name, text, place)
            is_found = True
        if not is_found and name in self._asked:
            self._absent(missing, name, text, place)

    def _all_names(self, owner: object) -> list[str]:
        """Return the names of an object's attributes, in a dict or in slots."""
        return [
            name
            for variables in self._lookup_namespaces(owner)
            for name, value in [*variables.items()]
            if type(variables) is dict or type(value) is types.MemberDescriptorType
        ]

    def _lookup_namespaces(self, owner: object) -> Iterator[Variables]:
        """Yield the namespaces where Python looks an attribute up, in order."""
        kinds = [*(owner.__mro__ if _is_class(owner) else ()), *type(owner).__mro__]
        own = None if _is_class(owner) else _variables_of(owner)
        if own is not None:
            yield own
        for kind in kinds:
            if is_class_of_user(kind):
                yield self._class_variables(kind)

    def _class_variables(self, kind: type) -> Variables:
        """Return the variables of a class, as the same object each time."""
        found: Variables = self._variables.setdefault(id(kind), (kind, vars(kind)))[1]
        return found

    def _absent(
        self, places: Iterable[Variables], name: str, text: str, place: Place
    ) -> None:
        """Capture the absence of a name in namespaces."""
        for each in places:
            self._add(Capture(each, name, text, place))

    def _capture(self, owner: object, key: str, text: str, place: Place) -> None:
        """Capture a variable or attribute, and search its value."""
        made = Capture(owner, key, text, place)
        try:
            value = made.value()
        except LookupError:  # it has no value yet
            return
        if _is_fixed(key, value) or self._add(made):
            self.value(value, text, place)

    def _add(self, made: Capture) -> bool:
        """Add a capture unless it is known; return whether it was added."""
        if (id(made.owner), made.key) in self._names:
            return False
        if len(self.found.reads) >= _MOST:
            self.found.is_whole = False
            return False
        self._names.add((id(made.owner), made.key))
        self._seen[id(made.owner)] = made.owner
        self.found.reads.append(made)
        return True

    # ---- code

    def _function(self, function: types.FunctionType, text: str, place: Place) -> None:
        """Search a function for captures: code and defaults, or the closure of a
        library's.
        """
        self.value(vars(function).get("__wrapped__"), text, place)
        cells = dict(
            zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        )
        if is_of_user(function.__module__, function.__code__.co_filename):
            for name in ("__code__", "__defaults__", "__kwdefaults__"):
                if getattr(function, name) is not None:
                    self._capture(function, name, f"{text}.{name}", place)
            if vars(function):
                self._look_into(function, text)
            for code in _codes(function.__code__):
                self._code(code, function, cells)
            return
        for each in (
            *(function.__defaults__ or ()),
            *(function.__kwdefaults__ or {}).values(),
        ):
            self.value(each, text, place)
        for name, cell in cells.items():  # such as what `aotc.grad` is given
            with_value = Capture(cell, name, name, place)
            try:
                inside = with_value.value()
            except LookupError:
                continue
            if callable(inside) or type(inside) is dict:  # of singledispatch
                self.value(inside, text, place)

    def _code(
        self,
        code: types.CodeType,
        function: types.FunctionType,
        cells: Mapping[str, types.CellType],
    ) -> None:
        """Search bytecode for reads of globals, closure variables and attributes."""
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
        self._read_by_name(code, (code.co_filename, code.co_firstlineno))

    def _read_by_name(self, code: types.CodeType, place: Place) -> None:
        """Record attributes that code may read by `getattr`, `vars` or patterns."""
        names = {*code.co_names}
        texts = [each for each in code.co_consts if type(each) is str]
        if "MATCH_CLASS" in {step.opname for step in dis.get_instructions(code)}:
            tuples = (each for each in code.co_consts if type(each) is tuple)
            texts += [each for keys in tuples for each in keys if type(each) is str]
        elif not names & _BY_NAME:
            texts = []
        for each in filter(str.isidentifier, texts):
            self._attributes.setdefault(each, place)
            self._asked.add(each)
        if names & _OF_ALL:
            self._reads_all = place

    def _name(
        self,
        owner: Mapping[str, object] | types.CellType,
        name: str,
        rest: list[dis.Instruction],
        place: Place,
    ) -> None:
        """Capture a variable, or the attributes read from the module that it refers
        to.
        """
        text, attributes = name, leading_attributes(rest)
        while True:
            try:
                value = Capture(owner, name, text, place).value()
            except LookupError:
                if type(owner) is dict:
                    self._absent([owner], name, text, place)  # of `builtins`, or later
                    self._capture(owner, "__getattr__", text, place)
                return
            if not issubclass(type(value), types.ModuleType):
                self._capture(owner, name, text, place)
                return
            if not is_module_of_user(value):
                return
            name = next(attributes, "")
            if not name:  # it is given another name
                self.value(value, text, place)
                return
            owner, text = vars(value), f"{text}.{name}"


_INERT = (
    int, float, complex, bool, str, bytes, type(None), types.CodeType,
    types.BuiltinFunctionType, range, slice,
)  # fmt: skip
#: what stands in a class for attributes that functions compute, or for methods
_DESCRIPTORS = (property, staticmethod, classmethod, functools.cached_property)
#: what an object has under their names comes before these as a matter of course
_KEPT_IN_OBJECTS = (property, functools.cached_property, types.MemberDescriptorType)
_OF_CONTAINERS = ("builtins", "collections", "functools", "array")


def _is_class(value: object) -> TypeGuard[type]:
    """Return whether a value is a class; `isinstance` would ask a proxy for another."""
    return issubclass(type(value), type)


def _is_module(value: object) -> TypeGuard[types.ModuleType]:
    """Return whether a value is a module; `isinstance` would ask a proxy for
    another.
    """
    return issubclass(type(value), types.ModuleType)


def _attributes_of(value: object) -> dict[str, object]:
    """Return the attributes of an object, without running its code; empty for none."""
    return _variables_of(value) or {}


def _variables_of(value: object) -> dict[str, object] | None:
    """Return the `__dict__` of an object, without running its code."""
    try:
        found = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return None
    return found if type(found) is dict else None


def _is_of_expressions(name: str, method: object) -> bool:
    """Return whether a class attribute is a method that operators and the like call."""
    if not (name.startswith("__") and name.endswith("__")) or name in _OF_NO_EXPRESSION:
        return False
    if not isinstance(method, types.FunctionType):
        return False
    # dataclasses make comparisons, which read all fields
    return method.__code__.co_filename != "<string>"


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    """Yield a code object, and those nested in it."""
    yield code
    for each in code.co_consts:
        if isinstance(each, types.CodeType):
            yield from _codes(each)


def leading_attributes(steps: Iterable[dis.Instruction]) -> Iterator[str]:
    """Yield the attribute names of consecutive attribute loads at the start of
    bytecode.
    """
    for step in steps:
        if step.opname not in _ATTRIBUTES:
            return
        yield step.argval


def _is_fixed(name: str, value: object) -> bool:
    """Return whether a value is a module, or a library's object that has this name
    there.
    """
    if issubclass(type(value), types.ModuleType):
        return True
    if not callable(value):
        return False
    try:
        code, home = getattr(value, "__code__", None), value.__module__
        is_of_library = not is_of_user(home, getattr(code, "co_filename", None))
        return is_of_library and getattr(value, "__name__", None) == name
    except Exception:  # a proxy, which may ask whom it likes
        return False
