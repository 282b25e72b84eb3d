"""Calls of every public function, to be filled with values of a program.

They come from the tables that tests and the parity benchmark hold: a call that works
for each function, and many settings for those of numpy, special, linalg and fft. An
array in such a call becomes `its numbers + a little of a value`, so that what the
function asks of its arguments (a domain, a condition number, an order) still holds.
"""

from __future__ import annotations

import importlib.util
import inspect
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy

import aotc.numpy as anp
from aotc import control, fft, linalg, nn, random, special
from aotc.core import dtypes
from aotc.tracing.array import Array

from .scope import Refused, Scope, Value

ROOT = Path(__file__).parents[2]
MODULES = {
    "np": anp, "nn": nn, "linalg": linalg, "fft": fft, "special": special,
    "random": random, "control": control,
}  # fmt: skip
LITTLE = 0.03
LARGEST = 600  # elements of an array of a template


@dataclass(frozen=True)
class Template:
    """A working call of a public function, with NumPy arguments."""

    function: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


@cache
def public_functions() -> dict[str, Callable[..., Any]]:
    """Return all functions that programs may call, by name."""
    return {
        f"{module}.{name}": getattr(MODULES[module], name)
        for module in MODULES
        for name in MODULES[module].__all__
        if inspect.isfunction(getattr(MODULES[module], name))
    }


@cache
def templates() -> dict[str, list[Template]]:
    """Return the working calls that can be written as source, by function."""
    found: dict[str, list[Template]] = defaultdict(list)
    for each in [*_tested_calls(), *_parity_settings()]:
        if each.function in public_functions() and _is_written(each):
            found[each.function].append(each)
    return dict(found)


@cache
def tested_calls() -> dict[str, tuple[tuple[Any, ...], dict[str, Any]]]:
    """Return working arguments for each public function, by `family.name`."""
    file = ROOT / "tests/aotc/conftest.py"
    spec = importlib.util.spec_from_file_location("tested_calls", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return dict(module.CALLS)


def _tested_calls() -> list[Template]:
    """Return the calls of `tested_calls` as templates."""
    rows = [(name.partition("."), *call) for name, call in tested_calls().items()]
    return [
        Template(f"{'np' if family == 'numpy' else family}.{name}", args, kwargs)
        for (family, _, name), args, kwargs in rows
    ]


def _parity_settings() -> list[Template]:
    """Return the calls of the parity benchmarks as templates."""
    # on use, as they import what the tests of the ops share
    from benchmarks.parity import settings
    from benchmarks.parity import settings_libraries as libraries
    from benchmarks.parity import settings_moving as moving

    families = (
        settings.several, settings.reductions, settings.nan_reductions,
        settings.cumulative, settings.orders, settings.distributions, moving.shapes,
        moving.turns, moving.repeats, moving.joins, moving.choices, moving.diagonals,
        moving.products, libraries.special, libraries.linalg, libraries.norms,
        libraries.single_matrices, libraries.spectra,
    )  # fmt: skip
    rows = [setting for family in families for setting in family()]
    return [
        Template(
            f"{'np' if row.package == 'numpy' else row.package}.{row.name}",
            row.args,
            row.kwargs,
        )
        for row in rows
        if all(map(_is_finite, row.args))
    ]


def _is_finite(argument: Any) -> bool:
    """Return whether an argument has no infinities or NaN."""
    if isinstance(argument, numpy.ndarray) and argument.dtype.kind == "f":
        return bool(numpy.isfinite(argument).all())
    return True


def _is_written(template: Template) -> bool:
    """Return whether a template's arguments can be written as source."""
    try:
        for part in [*template.args, *template.kwargs.values()]:
            written(part, lambda array: "")
    except Refused:
        return False
    return True


# ---- as source ----------------------------------------------------------------------


def written(part: Any, array_source: Callable[[Any], str]) -> str:
    """Return an argument as source; `array_source` writes arrays."""
    if isinstance(part, fft.Complex):
        pair = (written(x, array_source) for x in part)
        return f"fft.Complex({', '.join(pair)})"
    if isinstance(part, Array):
        part = numpy.asarray(part._data)
    if isinstance(part, numpy.ndarray):
        if part.dtype.kind == "c" or part.size > LARGEST:
            raise Refused
        return array_source(part)
    if isinstance(part, (list, tuple)):
        inner = ", ".join(written(x, array_source) for x in part)
        many = isinstance(part, list) or len(part) != 1
        return (
            f"[{inner}]"
            if isinstance(part, list)
            else f"({inner}{'' if many else ','})"
        )
    if isinstance(part, slice):
        return f"slice({part.start}, {part.stop}, {part.step})"
    return _plain(part)


def _plain(part: Any) -> str:
    """Return a number, string or None as source."""
    if part is None or isinstance(part, (str, bool, int)):
        return repr(part)
    if isinstance(part, (float, numpy.floating)):
        return (
            f'float("{float(part)}")' if not numpy.isfinite(part) else str(float(part))
        )
    if isinstance(part, numpy.integer):
        return str(int(part))
    for name, function in public_functions().items():
        if part is function:
            return name
    raise Refused


def constant_source(array: Any) -> str:
    """Return NumPy source of an array, with four digits of its floats."""
    if array.dtype.kind == "f":
        rounded = numpy.round(array.astype("f8"), 4)
        values, dtype = repr(rounded.tolist()), "f4"
    else:
        values, dtype = repr(array.tolist()), array.dtype.str[1:].replace("b1", "?")
    if array.size == 0:
        return f'numpy.zeros({array.shape}, "{dtype}")'
    return f'numpy.array({values}, "{dtype}")'


# ---- as steps -----------------------------------------------------------------------


def filled(s: Scope, function: str) -> Value:
    """Emit a call of a function on arrays made from values of the program."""
    options = templates().get(function)
    if not options:
        raise Refused
    template = s.one_of(options)
    source = s.pick(lambda v: v.is_float)
    kind = source.dtype if s.chance(0.3) else "f32"

    def array_source(array: Any) -> str:
        if array.dtype.kind != "f":
            return constant_source(array)
        return _near(s, source, array, kind).source

    arguments = [written(part, array_source) for part in template.args]
    arguments += [
        f"{name}={written(part, array_source)}"
        for name, part in template.kwargs.items()
    ]
    return s.emit(function, *arguments)


def _near(s: Scope, value: Value, array: Any, kind: str) -> Value:
    """Emit an array plus a small function of a value; return the value."""
    number = s.emit(
        "np.asarray", f'{constant_source(array)}, "{dtypes.numpy_name(kind)}"'
    )
    if s.chance(0.2) or not array.size:
        return number
    if value.is_static and value.data.size and array.ndim:
        fitted = s.emit("np.resize", value, array.shape)
    else:
        fitted = s.emit("np.sum", s.emit("np.sin", value))
    if fitted.dtype != kind:
        fitted = s.emit("np.astype", fitted, f'"{dtypes.numpy_name(kind)}"')
    waves = s.emit("np.sin", fitted)
    return s.emit("np.add", number, s.emit("np.multiply", waves, LITTLE))


def any_template(s: Scope) -> Any:
    """Emit a call of a random public function."""
    return filled(s, s.one_of(sorted(templates())))
