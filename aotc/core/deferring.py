"""Packages whose public names are looked up when they are asked for.

A program that imports `aotc.numpy` may call nothing but functions that `aotc.jit` has
compiled before: then neither the graph dialect nor the MLIR bindings are imported,
which would take longer than its first result.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any


def lazy_attributes(
    package: str, source: str
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return the `__getattr__` and `__dir__` of a package that loads lazily (PEP 562).

    Args:
        package: its name.
        source: the module that defines its public names, which is imported when one
            of them is asked for.
    """

    def __getattr__(name: str) -> Any:
        if name.startswith("__") and name != "__all__":  # asked by Python's own tools
            raise AttributeError(f"module '{package}' has no attribute '{name}'")
        if find_spec(f"{package}.{name}") is not None:  # `from package import module`
            return import_module(f"{package}.{name}")
        defined = import_module(source)
        if not hasattr(defined, name):
            message, owner = _unknown(package, name), sys.modules[package]
            raise AttributeError(message, name=name, obj=owner)
        value = getattr(defined, name)
        vars(sys.modules[package])[name] = value
        return value

    def __dir__() -> list[str]:
        return sorted({*vars(sys.modules[package]), *__getattr__("__all__")})

    return __getattr__, __dir__


def _unknown(package: str, name: str) -> str:
    """Return the message for a name that a package lacks, with a suggestion."""
    from aotc.tracing.spellings import name_advice  # which knows all packages

    instead = name_advice(name, package)
    return f"{package} has no '{name}'" + (f": {instead}" if instead else "")
