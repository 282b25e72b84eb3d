"""Digests of values, in this process and in a fresh one that imports a package.

Run as a script by `fresh_values` below: it imports nothing of aotc itself, so that it
can tell whether the package does.
"""

from __future__ import annotations

import collections
import datetime
import decimal
import enum
import fractions
import functools
import hashlib
import importlib
import json
import pathlib
import re
import subprocess
import sys
import types
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

_WRITTEN = (
    int, float, complex, bool, str, bytes, type(None), np.generic, np.dtype, range,
    slice, re.Pattern, pathlib.PurePath, datetime.date, datetime.time,
    datetime.timedelta, decimal.Decimal, fractions.Fraction, uuid.UUID,
)  # fmt: skip
_SEQUENCES = (list, tuple, collections.deque)
_LONGEST = 600.0  # seconds of an import


def digests(scope: Mapping[str, Any], names: Iterable[str]) -> dict[str, str | None]:
    """A text for the value of each dotted name; None where it has none, or is missing.

    Args:
        scope: the names of a module, and what they stand for.
        names: to look up.
    """
    module = str(scope.get("__name__"))
    return {name: _digest(scope, name, module) for name in names}


def _digest(scope: Mapping[str, Any], dotted: str, module: str) -> str | None:
    first, *rest = dotted.split(".")
    if first not in scope:
        return "missing"
    value = scope[first]
    for name in rest:
        if not hasattr(value, name):
            return "missing"
        value = getattr(value, name)
    text = _Text(module).of(value)
    return None if text.startswith("?") else hashlib.sha256(text.encode()).hexdigest()


class _Text:
    """Writes values as texts that are equal if the values are.

    What cannot be compared is written as `?`.

    Args:
        module: the name of the module whose classes are looked into.
    """

    def __init__(self, module: str) -> None:
        self._module = module
        self._seen: dict[int, int] = {}
        self._kept: list[Any] = []  # so that no identity is used twice

    def of(self, value: Any) -> str:
        if isinstance(value, enum.Enum):
            return f"{type(value).__qualname__}.{value.name}"
        if isinstance(value, _WRITTEN):
            return f"{type(value).__name__} {value!r}"
        if id(value) in self._seen:
            return f"again {self._seen[id(value)]}"
        self._seen[id(value)] = len(self._seen)
        self._kept.append(value)
        return self._of_object(value)

    def _of_object(self, value: Any) -> str:
        match value:
            case np.ndarray():
                return self._of_array(value)
            case Mapping():
                pairs = (f"{self.of(k)}: {self.of(v)}" for k, v in value.items())
                return f"{type(value).__name__} {{{', '.join(pairs)}}}"
            case set() | frozenset():
                return f"{type(value).__name__} {sorted(map(self.of, value))}"
            case types.FunctionType():
                return self._of_function(value)
            case functools.partial():
                parts = [value.func, value.args, value.keywords]
                return f"partial {[*map(self.of, parts)]}"
            case np.random.Generator():
                return f"Generator {self.of(value.bit_generator.state)}"
            case np.random.RandomState():
                return f"RandomState {self.of(value.get_state(legacy=False))}"
            case types.ModuleType():
                return f"module {value.__name__}"
        if isinstance(value, _SEQUENCES):
            return f"{type(value).__name__} [{', '.join(map(self.of, value))}]"
        return self._of_other(value)

    def _of_other(self, value: Any) -> str:
        if isinstance(value, type):
            inner = vars(value) if value.__module__ == self._module else {}
            return f"class {value.__qualname__} {self.of(_own(inner))}"
        if type(value).__module__ == self._module and hasattr(value, "__dict__"):
            return f"{type(value).__qualname__} {self.of(_own(vars(value)))}"
        if hasattr(value, "__array__"):
            try:
                return self._of_array(np.asarray(value))
            except Exception:  # on a device, say
                return "?"
        return "?"

    def _of_function(self, value: types.FunctionType) -> str:
        attributes = _own(vars(value))
        is_island = attributes.pop("aotc_is_island", False)  # packages do without
        inner = vars(value)["__wrapped__"] if is_island else value
        defaults = [getattr(inner, n, None) for n in ("__defaults__", "__kwdefaults__")]
        parts = [*defaults, attributes]
        return f"function {value.__qualname__} {[*map(self.of, parts)]}"

    def _of_array(self, value: np.ndarray[Any, Any]) -> str:
        if value.dtype.hasobject:
            return f"array {value.shape} {self.of(value.tolist())}"
        content = hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()
        return f"array {value.dtype} {value.shape} {content}"


def _own(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return attributes, without those that Python makes."""
    found = {n: x for n, x in attributes.items() if not n.startswith("__")}
    return {n: x for n, x in found.items() if not n.startswith("_abc")}


# ---- a fresh process


def fresh_values(folder: Path, name: str, names: Iterable[str]) -> dict[str, Any]:
    """The digests in a new process that imports a package.

    Returns:
        `digests`, and in `compiler` what has been imported of aotc's compiler; or
        `error`, with `line` where the package raised it.
    """
    from aotc.core.options import child_environment  # the process itself needs no aotc

    with TemporaryDirectory() as work:
        request, answer = Path(work, "request"), Path(work, "answer")
        asked = {"path": [str(folder), *sys.path], "name": name, "names": [*names]}
        request.write_text(json.dumps(asked), encoding="utf-8")
        try:
            done = subprocess.run(
                [sys.executable, "-P", "-B", __file__, str(request), str(answer)],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                env=child_environment(),
                timeout=_LONGEST,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return {"error": f"the import took more than {_LONGEST:.0f} s"}
        if answer.exists():
            return dict(json.loads(answer.read_text(encoding="utf-8")))
        lines = done.stderr.decode(errors="replace").strip().splitlines() or ["nothing"]
        return {"error": f"the process ended with {done.returncode}: {lines[-1]}"}


def _answer(asked: Mapping[str, Any]) -> dict[str, Any]:
    sys.path[:] = asked["path"]
    try:
        package = importlib.import_module(asked["name"])
    except (Exception, SystemExit) as error:
        return {"error": f"{type(error).__name__}: {error}"}
    compiler = [each for each in sys.modules if each.startswith("aotc.mlir")]
    found = digests(vars(package), asked["names"])
    return {"digests": found, "compiler": compiler[:1]}


def _main(request: str, answer: str) -> None:
    asked = json.loads(Path(request).read_text(encoding="utf-8"))
    sys.argv = [""]
    Path(answer).write_text(json.dumps(_answer(asked)), encoding="utf-8")


if __name__ == "__main__":
    _main(*sys.argv[1:])
