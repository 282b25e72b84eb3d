"""Digests of functions for other processes, over all that tracing would read.

A trace is made of the code of a function, of what that names, and of the call. Where
the digest of these is the same, so is the trace, and its code in the cache can be used
without making it again. Whatever is not known to be the same in another process has no
digest, and functions that may change what is outside of them have none: these are
traced.
"""

from __future__ import annotations

import builtins
import dis
import functools
import sys
import types
from collections import namedtuple
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, Field
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from aotc.core.contents import ContentDigest, UnknownValue, is_plain
from aotc.tracing.captures import leading_attributes
from aotc.tracing.source_locations import is_own


def _words(text: str) -> frozenset[str]:
    """Return the words of a text as a set."""
    return frozenset(text.split())


# of aotc, what computes with arrays: the same names are the same functions everywhere
_OWN = _words(
    "numpy nn optim random linalg fft special control debug complexes solvers "
    "transforms collectives grad value_and_grad vjp jvp linearize mixed_precision "
    "jacfwd jacrev hessian hvp vmap custom_jvp custom_vjp checkpoint specialize"
)
_OWN_PACKAGES = _OWN | {"tracing"}
_GUARDS = "aotc.tracing.calls"  # what stands around functions that models call
# modules whose functions give the same for the same arguments …
_PURE = ("builtins", "math", "cmath", "operator", "functools", "itertools", "numpy")
# … except these
_IMPURE = _words(
    "print open input eval exec compile globals locals vars dir id hash "
    "breakpoint __import__ setattr delattr memoryview cache lru_cache "
    "cached_property count empty empty_like load loadtxt genfromtxt fromfile "
    "memmap open_memmap fromregex DataSource NpzFile save savez savetxt seterr geterr "
    "setbufsize getbufsize get_printoptions set_printoptions put put_along_axis copyto "
    "place putmask fill_diagonal datetime64 setitem delitem methodcaller call iadd "
    "iand iconcat ifloordiv ilshift imatmul imod imul ior ipow irshift isub itruediv "
    "ixor"
)
_IMPURE_PARTS = {"random", "testing", "ctypeslib", "f2py"}  # of NumPy
_STORING = ("STORE_GLOBAL", "DELETE_GLOBAL", "STORE_NAME", "DELETE_NAME")
_UNKNOWN_STEPS = (
    *_STORING, "STORE_ATTR", "DELETE_ATTR", "LOAD_BUILD_CLASS", "IMPORT_NAME",
)  # fmt: skip
_CONTAINERS = (list, tuple, dict, set, frozenset, functools.partial)
# methods and statements that change a container
_CHANGING = _words(
    "append extend insert pop remove clear update setdefault sort reverse add "
    "discard popitem appendleft popleft rotate difference_update "
    "intersection_update symmetric_difference_update fill put resize setflags "
    "itemset partition byteswap send throw close at"
)
_CHANGES = ("STORE_SUBSCR", "DELETE_SUBSCR", "STORE_SLICE")
_KNOWN_DUNDERS = ("__name__", "__class__", "__call__", "__len__")


def function_digest(*values: object) -> str | None:
    """Return a digest of functions and values that is equal in every process, or None.

    Args:
        values: functions, and what they are given.

    Returns:
        The SHA-256 as text; None where something is read that has none.
    """
    found = _DigestWalk()
    try:
        for value in values:
            found.value(value)
    except (UnknownValue, RecursionError):
        return None
    if found.changes and found.reaches_mutable:
        return None
    return found.digest().hex()


def _unknown() -> NoReturn:
    """Raise UnknownValue: the digest cannot be computed."""
    raise UnknownValue


class _DigestWalk(ContentDigest):
    """A content digest of functions, classes and values, in a fixed order of
    traversal.
    """

    most = 10_000
    largest = 16 << 20

    def __init__(self) -> None:
        super().__init__(sys.version.encode())
        self.changes = False  # some container, which may be outside
        self.reaches_mutable = False

    # ---- values

    def container(self, value: object) -> None:
        """Add a container's elements to the digest."""
        if type(value) not in _CONTAINERS:
            _unknown()
        self.reaches_mutable |= type(value) in (list, dict, set)
        super().container(value)

    def unordered(self, parts: Sequence[object]) -> None:
        """Add the elements of a set to the digest; only plain ones can be ordered."""
        if not all(map(is_plain, parts)):
            _unknown()  # their order differs from process to process
        super().unordered(parts)

    def array(self, value: np.ndarray | np.generic) -> None:
        """Add an array to the digest."""
        self.reaches_mutable |= isinstance(value, np.ndarray)
        super().array(value)

    def other(self, value: object) -> None:
        """Add a function, class or object to the digest, by the reader of its type."""
        reader = _READERS.get(type(value))
        if reader is not None:
            reader(self, value)
        elif isinstance(value, type):
            self._class(value)
        else:
            self._object(value)

    def _items(self, value: Mapping[str, object]) -> None:
        """Add the keys and values of a mapping to the digest."""
        self.note("items", len(value))
        for key, each in value.items():
            self.value(key)
            self.value(each)

    def _method(self, value: types.MethodType) -> None:
        """Add a bound method to the digest: its function and its object."""
        self.note("method")
        self.value(value.__func__)
        self.value(value.__self__)

    def _wrapped(
        self, value: staticmethod[..., object] | classmethod[object, ..., object]
    ) -> None:
        """Add the function of a static or class method to the digest."""
        self.note(type(value).__name__)
        self.value(value.__func__)

    def _property(self, value: property) -> None:
        """Add the functions of a property to the digest."""
        self.note("property")
        for each in (value.fget, value.fset, value.fdel):
            self.value(each)

    def _builtin(self, value: types.BuiltinFunctionType) -> None:
        """Add a built-in function to the digest by its name."""
        owner = getattr(value, "__self__", None)
        if owner is not None and not isinstance(owner, types.ModuleType):
            _unknown()  # a method of some object
        self._library(str(value.__module__), value)

    def _ufunc(self, value: np.ufunc) -> None:
        """Add a NumPy ufunc to the digest by its name."""
        name = value.__name__
        if vars(np).get(name) is not value:
            _unknown()
        self.note("ufunc", name)

    def _library(self, module: str, value: Callable[..., object]) -> None:
        """Add a pure library function or class to the digest by name; give up on
        impure ones.
        """
        is_pure = _is_pure(module) and value.__name__ not in _IMPURE
        if not is_pure or "<" in value.__qualname__:
            _unknown()
        if _IMPURE_PARTS & {*module.split(".")}:
            _unknown()
        self.note("library", module, value.__qualname__)

    # ---- functions

    def _function(self, function: types.FunctionType) -> None:
        """Add a function to the digest: its code, defaults, closure and attributes."""
        home = str(function.__globals__.get("__name__", ""))
        if is_own(home):
            _require_own(home.split("."), _OWN_PACKAGES)
            if _is_public(function):
                self.note("own", function.__module__, function.__qualname__)
                return
            self.note("own", home, function.__code__.co_qualname)
        elif _is_pure(home):
            if not _is_pure(function.__module__) or not _is_at_home(function):
                _unknown()  # it stands for one of the user's
            self._library(home, function)
            return
        else:
            self.note("function")
            self._code(function.__code__, function)
        self.value(function.__defaults__)
        self._items(function.__kwdefaults__ or {})
        for cell in function.__closure__ or ():
            try:
                inside = cell.cell_contents
            except ValueError:  # it has no value yet
                _unknown()
            self.value(inside)
        self._items(vars(function))

    def _code(self, code: types.CodeType, function: types.FunctionType) -> None:
        """Add a code object, and those nested in it, to the digest."""
        self.note(
            Path(code.co_filename).name, code.co_firstlineno, code.co_linetable,
            code.co_qualname, code.co_code, code.co_exceptiontable, code.co_flags,
            code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars,
            code.co_argcount, code.co_kwonlyargcount, code.co_posonlyargcount,
        )  # fmt: skip
        for constant in code.co_consts:
            if isinstance(constant, types.CodeType):
                self._code(constant, function)
            else:
                self._constant(constant)
        steps = list(dis.get_instructions(code))
        made = _initializations(code, steps)
        for number, step in enumerate(steps):
            if number not in made:
                self._step(step, steps[number + 1 : number + 9], function)

    def _constant(self, value: object) -> None:
        """Add a constant of bytecode to the digest."""
        if isinstance(value, str) and value.startswith("__"):
            _unknown()  # getattr(f, "__globals__")
        self.changes |= isinstance(value, tuple) and "out" in value  # a keyword
        self.value(value)

    def _step(
        self,
        step: dis.Instruction,
        rest: Iterable[dis.Instruction],
        function: types.FunctionType,
    ) -> None:
        """Add what a bytecode instruction reads to the digest; give up on unknown
        effects.
        """
        name = step.opname
        if name in _UNKNOWN_STEPS:
            _unknown()
        if name in ("STORE_DEREF", "DELETE_DEREF"):  # of a function around it?
            if step.argval in function.__code__.co_freevars:
                _unknown()
        elif name in ("LOAD_GLOBAL", "LOAD_NAME"):
            self._global(step.argval, [*leading_attributes(rest)], function)
        elif "ATTR" in name or "METHOD" in name:
            self._attribute(step.argval)
        elif ("GLOBAL" in name or "NAME" in name) and name != "KW_NAMES":
            _unknown()  # a way of reading that a later Python has
        # `x += y` changes a list that x is
        is_in_place = name == "BINARY_OP" and step.argrepr.endswith("=")
        self.changes |= name in _CHANGES or is_in_place

    def _attribute(self, name: str) -> None:
        """Give up on unknown special attributes; note methods that change
        containers.
        """
        self.changes |= name in _CHANGING
        if name.startswith("__") and name not in _KNOWN_DUNDERS:
            _unknown()

    def _global(
        self, name: str, attributes: list[str], function: types.FunctionType
    ) -> None:
        """Add a global's value to the digest; of a module, the attributes read from
        it.
        """
        if name in function.__globals__:
            value = function.__globals__[name]
        elif hasattr(builtins, name):
            value = getattr(builtins, name)
        else:
            _unknown()
        self.note(name)
        while isinstance(value, types.ModuleType):
            if is_own(value.__name__):
                self._own_module(value, attributes)
                return
            if not attributes or attributes[0] not in vars(value):
                _unknown()
            value = vars(value)[attributes.pop(0)]
        if isinstance(value, type) and is_own(value.__module__):
            _unknown()  # such as Weights, which reads files
        self.value(value)

    def _own_module(self, module: types.ModuleType, attributes: list[str]) -> None:
        """Add a dotted name of aotc's to the digest, without importing it."""
        path = [*module.__name__.split("."), *attributes]
        _require_own(path)
        self.note("own", path)
        for name in attributes:
            value = vars(module).get(name)
            if not isinstance(value, types.ModuleType):
                self._require_unchanged(value)
                return
            module = value

    def _require_unchanged(self, value: object) -> None:
        """Give up if a name of aotc's refers to something that is not aotc's."""
        if value is None:  # it is not imported yet
            return
        if is_plain(value):
            self.note(value)
        elif not isinstance(value, types.FunctionType) or not _is_public(value):
            _unknown()

    # ---- classes and their objects

    def _class(self, value: type) -> None:
        """Add a class to the digest: its bases and attributes."""
        home = value.__module__
        if is_own(home):
            _require_own(home.split("."), _OWN_PACKAGES)
            self.note("own", home, value.__qualname__)
            return
        if _is_pure(home):
            self._library(home, value)
            return
        if type(value) is not type or not _is_python_class(value):
            _unknown()
        self.note("class", value.__qualname__, len(value.__bases__))
        for base in value.__bases__:
            self.value(base)
        made = _generated(value)
        if "__new__" in vars(value) and "__new__" not in made:
            _unknown()  # its objects may be others' already
        for name, each in vars(value).items():
            self.note(name)
            if name == "__dataclass_fields__":
                self._fields(each)
            elif name not in made and not isinstance(each, _OF_OBJECTS):
                self.value(each)

    def _fields(self, fields: Mapping[str, Field[object]]) -> None:
        """Add the fields of a dataclass to the digest."""
        for name, each in fields.items():
            self.note(name, each.init, each.repr, each.hash, each.compare)
            self.note(each.kw_only, each.type)
            self._items(each.metadata)
            for given in (each.default, each.default_factory):
                self.value(None if given is MISSING else (given,))

    def _object(self, value: object) -> None:
        """Add an object to the digest: its class, attributes and slots."""
        kind = type(value)
        self.value(kind)
        if isinstance(value, tuple) and hasattr(kind, "_fields"):
            self.note(len(value))
            for each in value:
                self.value(each)
            return
        if not all(map(_is_python_class, kind.__mro__[:-1])):
            _unknown()  # it has contents that nobody can see
        self._items(getattr(value, "__dict__", {}))
        for each in kind.__mro__[:-1]:
            for name, slot in vars(each).items():
                if isinstance(slot, types.MemberDescriptorType):
                    self._slot(name, slot, value)

    def _slot(self, name: str, slot: types.MemberDescriptorType, owner: object) -> None:
        """Add the value of an object's slot to the digest."""
        self.note(name)
        try:
            inside = slot.__get__(owner)
        except AttributeError:
            return  # it has no value
        self.value(inside)


_READERS: dict[type, Any] = {
    np.ufunc: _DigestWalk._ufunc,
    property: _DigestWalk._property,
    staticmethod: _DigestWalk._wrapped,
    classmethod: _DigestWalk._wrapped,
    types.FunctionType: _DigestWalk._function,
    types.MethodType: _DigestWalk._method,
    types.BuiltinFunctionType: _DigestWalk._builtin,
}
# how a class finds what its objects have
_OF_OBJECTS = (types.MemberDescriptorType, types.GetSetDescriptorType)
_OF_CLASSES = _words(
    "__dict__ __weakref__ __doc__ __module__ __annotations__ __slots__ "
    "__dataclass_params__ __match_args__ __orig_bases__ __parameters__ "
    "__static_attributes__ __firstlineno__ __annotate__ __annotate_func__ "
    "__annotations_cache__"
)
_OF_DATACLASSES = _words(
    "__init__ __repr__ __eq__ __lt__ __le__ __gt__ __ge__ __setattr__ __delattr__ "
    "__replace__ __hash__"
)
_OF_NAMED_TUPLES = _words(
    "__new__ __repr__ __getnewargs__ __replace__ _make _replace _asdict"
)
_GETTER = type(vars(namedtuple("_Pair", "first"))["first"])
_HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE


def _is_pure(module: str) -> bool:
    """Return whether a module is Python's or NumPy's and its functions have no
    effects.
    """
    return module.partition(".")[0].removeprefix("_") in _PURE


def _require_own(path: list[str], packages: frozenset[str] = _OWN) -> None:
    """Give up unless a dotted path is in one of these packages of aotc."""
    if path[0] != "aotc" or len(path) < 2 or path[1] not in packages:
        _unknown()


def _is_public(function: types.FunctionType) -> bool:
    """Return whether a function of aotc is identified by its module and name."""
    if not is_own(function.__module__):
        return False  # it stands for one of the user's
    if function.__globals__.get("__name__") == _GUARDS:
        function = getattr(function, "__wrapped__", function)
    return _is_at_home(function)


def _is_at_home(function: types.FunctionType) -> bool:
    """Return whether a function is the attribute of its name in its module."""
    module = sys.modules.get(function.__module__)
    return vars(module).get(function.__qualname__) is function if module else False


def _is_python_class(kind: type) -> bool:
    """Return whether a class is written in Python: its objects have no hidden
    contents.
    """
    if not kind.__flags__ & _HEAP_TYPE or _is_pure(kind.__module__):
        return False
    module = sys.modules.get(kind.__module__)
    file = getattr(module, "__file__", None) or ""
    return file.endswith(".py") or (kind.__module__ == "__main__" and not file)


def _generated(kind: type) -> frozenset[str]:
    """Return the attributes of a class that follow from others in the digest."""
    if "__dataclass_fields__" in vars(kind):
        functions = _OF_DATACLASSES
    elif kind.__bases__ == (tuple,) and "_fields" in vars(kind):
        functions = _OF_NAMED_TUPLES
    else:
        return _OF_CLASSES
    made = {name for name in functions if _is_generated(vars(kind).get(name))}
    getters = {name for name, each in vars(kind).items() if type(each) is _GETTER}
    return _OF_CLASSES | made | getters


def _is_generated(attribute: object) -> bool:
    """Return whether a method was generated for a dataclass or a named tuple."""
    function = getattr(attribute, "__func__", attribute)
    function = getattr(function, "__wrapped__", function)
    if not isinstance(function, types.FunctionType):
        return False
    home = str(function.__globals__.get("__name__"))
    is_of_tuple = home == "collections" or home.startswith("namedtuple_")
    return is_of_tuple or function.__code__.co_qualname.startswith("__create_fn__.")


def _initializations(code: types.CodeType, steps: list[dis.Instruction]) -> set[int]:
    """Return the indices of instructions by which `__init__` sets attributes of `self`.

    Nobody else may call it: see `_KNOWN_DUNDERS`.
    """
    if code.co_name != "__init__" or not code.co_varnames:
        return set()
    own = code.co_varnames[0]
    if any(each.opname == "STORE_FAST" and each.argval == own for each in steps):
        return set()
    pairs = enumerate(zip(steps, steps[1:], strict=False), 1)
    return {
        number
        for number, (loaded, stored) in pairs
        if (loaded.opname, loaded.argval) == ("LOAD_FAST", own)
        and stored.opname == "STORE_ATTR"
    }
