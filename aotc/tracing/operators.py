"""Operators and methods of arrays, by the names of functions in `aotc.numpy`.

`aotc.numpy` is written in terms of arrays and comes after them; it says here how it
is found.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from aotc.tracing.array import Array

_functions: dict[str, Callable[..., Array]] = {}
_load: Callable[[], Mapping[str, Callable[..., Any]]] | None = None


def provide_loader(load: Callable[[], Mapping[str, Callable[..., object]]]) -> None:
    """Register the function that loads the array functions by name, at first use."""
    global _load
    _load = load


def function_of(name: str) -> Callable[..., Array]:
    """Return the function of aotc.numpy of this name."""
    if not _functions and _load is not None:
        _functions.update(_load())
    return _functions[name]
