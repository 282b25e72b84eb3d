"""Current values of a module's names, looked up without executing code.

`UNKNOWN` stands for a value that only code could tell.
"""

from __future__ import annotations

import ast
import builtins
import functools
import inspect
import types
from collections.abc import Iterable

import numpy as np

UNKNOWN = object()
_VALUES = (int, float, complex, bool, str, bytes, type(None), np.generic, np.dtype)
_CONTAINERS = (list, dict, set, tuple, frozenset, str, bytes, np.ndarray, *_VALUES)
_REACHED = 20_000  # objects of one value

_BUILTINS = frozenset({
    "abs", "all", "any", "ascii", "bin", "bool", "breakpoint", "bytearray", "bytes",
    "callable", "chr", "classmethod", "complex", "dict", "dir", "divmod", "enumerate",
    "filter", "float", "format", "frozenset", "getattr", "hasattr", "hash", "hex", "id",
    "input", "int", "isinstance", "issubclass", "iter", "len", "list", "map", "max",
    "memoryview", "min", "next", "object", "oct", "open", "ord", "pow", "print",
    "property", "range", "repr", "reversed", "round", "set", "slice", "sorted",
    "staticmethod", "str", "sum", "super", "tuple", "type", "vars", "zip",
})  # fmt: skip
_COMPUTING = frozenset({
    "abc", "base64", "builtins", "cmath", "collections", "copy", "dataclasses",
    "datetime", "decimal", "enum", "fractions", "functools", "glob", "hashlib",
    "inspect", "io", "itertools", "json", "logging", "math", "numbers", "numpy", "os",
    "pathlib", "pickle", "platform", "posixpath", "re", "scipy", "statistics", "string",
    "textwrap", "threading", "time", "torch", "types", "typing", "unicodedata", "uuid",
    "warnings",
})  # fmt: skip
_IN_PLACE = {
    "copyto", "place", "put", "put_along_axis", "putmask", "fill_diagonal", "at",
    "insort", "insort_left", "insort_right", "update_wrapper",
}  # fmt: skip


def attribute(value: object, name: str) -> object:
    """Look up an attribute without executing code; return UNKNOWN if that takes
    code.
    """
    if value is UNKNOWN:
        return UNKNOWN
    if isinstance(value, types.ModuleType):
        return getattr(value, name, UNKNOWN)
    if type(value).__module__.partition(".")[0] in ("builtins", "numpy", "random"):
        return getattr(value, name, UNKNOWN)
    found = inspect.getattr_static(value, name, UNKNOWN)
    if isinstance(value, type) and isinstance(found, types.FunctionType):
        return found
    return UNKNOWN if hasattr(type(found), "__get__") else found


def library(function: object) -> str:
    """Return the top-level package in which a function or module is defined."""
    if isinstance(function, types.ModuleType):
        return function.__name__.partition(".")[0]
    bound = getattr(function, "__self__", None)
    named = getattr(function, "__module__", None)
    if named is None and bound is not None:
        named = getattr(bound, "__name__", None) or type(bound).__module__
    return str(named or type(function).__module__).partition(".")[0]


def computes(function: object, node: ast.Call) -> bool:
    """Return whether a call of a known function leaves its arguments unchanged."""
    if function is UNKNOWN:
        return False
    name = str(getattr(function, "__name__", ""))
    if isinstance(function, np.ufunc):
        is_plain = len(node.args) <= function.nin
        return is_plain and not any(each.arg == "out" for each in node.keywords)
    if getattr(builtins, name, None) is function:
        return name in _BUILTINS
    bound = getattr(function, "__self__", None)
    if bound is not None and not isinstance(bound, (types.ModuleType, type)):
        return False
    if any(each.arg in ("out", "inplace") for each in node.keywords):
        return False
    is_known = library(function) in _COMPUTING
    return is_known and name not in _IN_PLACE and not name.endswith("_")


def is_container(value: object) -> bool:
    """Return whether a value is a container, array or scalar of Python or NumPy."""
    return isinstance(value, _CONTAINERS)


def is_immutable(value: object) -> bool:
    """Return whether a value, and all elements of a tuple, are immutable."""
    if isinstance(value, (tuple, frozenset)):
        return all(map(is_immutable, value))
    return isinstance(value, _VALUES)


def identities(values: Iterable[object]) -> set[int]:
    """Return the ids of the mutable objects among values, and of those they refer to,
    up to `_REACHED` of them.
    """
    found, left = set[int](), [*values]
    while left and len(found) < _REACHED:
        each = left.pop()
        if id(each) in found or is_immutable(each) or each is UNKNOWN:
            continue
        if isinstance(each, types.ModuleType):
            continue
        found.add(id(each))
        left += _held(each)
    return found


def _held(value: object) -> list[object]:
    """Return the objects that an object directly refers to."""
    match value:
        case dict():
            return [*value.values()]
        case list() | tuple() | set() | frozenset():
            return [*value]
        case np.ndarray():
            return [value.base] if value.base is not None else []
        case functools.partial():
            return [value.func, *value.args, *value.keywords.values()]
        case type() | types.FunctionType():
            return []
    bound = getattr(value, "__self__", None)
    if isinstance(value, (types.MethodType, types.BuiltinMethodType)):
        return [] if isinstance(bound, types.ModuleType) else [bound]
    return [*vars(value).values()] if hasattr(value, "__dict__") else []
