"""Detection of user code: neither aotc's nor a library's."""

from __future__ import annotations

import os
import sys
import types
from functools import cache
from pathlib import Path

from aotc.tracing.source_locations import is_own


def is_module_of_user(module: types.ModuleType) -> bool:
    """Return whether a module is the user's, without running its code."""
    names = vars(module)  # `getattr` might call the module's own
    name, file = names.get("__name__"), names.get("__file__")
    return is_of_user(str(name), file if type(file) is str else None)


def is_class_of_user(kind: type) -> bool:
    """Return whether a class is the user's: neither aotc's nor a library's."""
    module = kind.__module__ if type(kind.__module__) is str else ""
    home = sys.modules.get(module)
    file = vars(home).get("__file__") if isinstance(home, types.ModuleType) else None
    return is_of_user(module, file if type(file) is str else None)


def is_of_user(module: str | None, file: str | None = None) -> bool:
    """Return whether a module or file is the user's: neither aotc's nor a library's.

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
    """Return whether a file is in site-packages or Python's own library."""
    if file.startswith("<") and not file.startswith("<ipython"):
        return file.startswith("<frozen")
    path = Path(file)
    if {"site-packages", "dist-packages"} & {*path.parts}:
        return True
    return path.is_relative_to(Path(os.__file__).parent)
