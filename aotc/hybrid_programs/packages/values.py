"""Digests of values, in this process and in a fresh one that imports a package.

Run as a script by `fresh_values` below: it imports nothing of aotc's compiler itself,
so that it can tell whether the package does.
"""

from __future__ import annotations

import datetime
import decimal
import enum
import fractions
import importlib
import json
import os
import pathlib
import re
import sys
import types
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from aotc.core.contents import ContentDigest, parts_of
from aotc.core.json_values import JsonObject
from aotc.processes.running import run_python

_WRITTEN = (
    int, float, complex, bool, str, bytes, type(None), np.generic, np.dtype, range,
    slice, re.Pattern, pathlib.PurePath, datetime.date, datetime.time,
    datetime.timedelta, decimal.Decimal, fractions.Fraction, uuid.UUID,
)  # fmt: skip
_LONGEST = 600.0  # seconds of an import


def digests(scope: Mapping[str, object], names: Iterable[str]) -> dict[str, str | None]:
    """Map dotted names to digests of values, "missing", or None if incomparable.

    Args:
        scope: the names of a module, and what they stand for.
        names: to look up.
    """
    module = str(scope.get("__name__"))
    return {name: _digest(scope, name, module) for name in names}


def _digest(scope: Mapping[str, object], dotted: str, module: str) -> str | None:
    """Return a digest of a dotted name's value, "missing" if there is none, or None if
    the value cannot be compared.
    """
    first, *rest = dotted.split(".")
    if first not in scope:
        return "missing"
    value = scope[first]
    for name in rest:
        if not hasattr(value, name):
            return "missing"
        value = getattr(value, name)
    found = _ValueDigest(module)
    found.value(value)
    return None if id(value) in found.unknown else found.digest().hex()


class _ValueDigest(ContentDigest):
    """A content digest for comparing values of a module between two imports.

    Objects that cannot be compared count as equal.

    Args:
        module: the name of the module whose classes are looked into.
    """

    def __init__(self, module: str) -> None:
        super().__init__()
        self._module = module
        self.unknown: set[int] = set()  # identities of what cannot be compared

    def value(self, value: object) -> None:
        """Add a value to the digest: an enum by its name, a scalar by its text."""
        if isinstance(value, enum.Enum):
            self.note(type(value).__qualname__, value.name)
        elif isinstance(value, _WRITTEN):
            self.note(type(value).__name__, value)
        else:
            super().value(value)

    def other(self, value: object) -> None:
        """Add an array, mapping, function, class or other object to the digest."""
        match value:
            case np.ndarray():
                self._array(value)
            case Mapping():
                self._named(type(value).__name__, dict(value))
            case types.FunctionType():
                self._function(value)
            case np.random.Generator():
                self._named("Generator", value.bit_generator.state)
            case np.random.RandomState():
                self._named("RandomState", value.get_state(legacy=False))
            case types.ModuleType():
                self.note("module", value.__name__)
            case type():
                inner = vars(value) if value.__module__ == self._module else {}
                self._named(f"class {value.__qualname__}", _without_special(inner))
            case _:
                self._object(value)

    def _named(self, name: str, *parts: object) -> None:
        """Add a name and some values to the digest."""
        self.note(name)
        for each in parts:
            self.value(each)

    def _object(self, value: object) -> None:
        """Add an object by its contents, or record it as not comparable."""
        if parts_of(value) is not None:
            self.container(value)
        elif type(value).__module__ == self._module and hasattr(value, "__dict__"):
            self._named(type(value).__qualname__, _without_special(vars(value)))
        elif not self._is_array(value):
            self.note("unknown")
            self.unknown.add(id(value))

    def _is_array(self, value: object) -> bool:
        """Add an array of another library to the digest; return whether it is one."""
        try:
            found = np.asarray(value) if hasattr(value, "__array__") else None
        except Exception:  # on a device, say
            return False
        if found is not None:
            self._array(found)
        return found is not None

    def _array(self, value: np.ndarray) -> None:
        """Add an array's dtype, shape and elements to the digest."""
        if value.dtype.hasobject:
            self._named(f"array {value.shape}", value.tolist())
        else:
            self.array(value)

    def _function(self, value: types.FunctionType) -> None:
        """Add a function's name, defaults and attributes to the digest."""
        attributes = _without_special(vars(value))
        is_island = attributes.pop("aotc_is_island", False)  # packages do without
        inner = vars(value)["__wrapped__"] if is_island else value
        defaults = [getattr(inner, n, None) for n in ("__defaults__", "__kwdefaults__")]
        self._named(f"function {value.__qualname__}", *defaults, attributes)


def _without_special(attributes: Mapping[str, object]) -> dict[str, object]:
    """Return attributes without the special ones that Python makes."""
    found = {n: x for n, x in attributes.items() if not n.startswith("__")}
    return {n: x for n, x in found.items() if not n.startswith("_abc")}


# ---- a fresh process


def fresh_values(folder: Path, name: str, names: Iterable[str]) -> JsonObject:
    """Import a package in a new process; return digests of its values, or the error.

    Returns:
        `digests`, and in `compiler` what has been imported of aotc's compiler; or
        `error`, with `line` where the package raised it.
    """
    asked = {"path": [str(folder), *sys.path], "name": name, "names": [*names]}
    given = json.dumps(asked).encode()
    try:
        done = run_python("-B", __file__, given=given, seconds=_LONGEST)
    except TimeoutError:
        return {"error": f"the import took more than {_LONGEST:.0f} s"}
    if done.output.endswith(b"\n"):
        return dict(json.loads(done.output))
    lines = done.log.strip().splitlines() or ["nothing"]
    return {"error": f"the process ended with {done.code}: {lines[-1]}"}


def _answer(request: JsonObject) -> JsonObject:
    """Import a package in this process; return digests of its values, or the error."""
    sys.path[:] = request["path"]
    try:
        package = importlib.import_module(request["name"])
    except (Exception, SystemExit) as error:
        return {"error": f"{type(error).__name__}: {error}"}
    compiler = [each for each in sys.modules if each.startswith("aotc.mlir")]
    found = digests(vars(package), request["names"])
    return {"digests": found, "compiler": compiler[:1]}


def _main() -> None:
    """Read a request from standard input; write the answer as JSON to standard
    output.
    """
    asked = json.load(sys.stdin)
    sys.argv = [""]
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as answers:
        os.dup2(2, 1)
        print(json.dumps(_answer(asked)), file=answers)


if __name__ == "__main__":
    _main()
