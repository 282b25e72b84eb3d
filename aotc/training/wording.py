"""Wording of arguments in messages: `batch_size=32`, or `--batch-size 32`.

Hints of this package name other arguments of `fit` and `map_batches`. The command line
calls the same functions for users who know them as options, and says so with
`use_wording`; no message is written twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Protocol


class Wording(Protocol):
    """Protocol for how hints name options: as Python arguments or on a command line."""

    def option(self, name: str, *values: object) -> str:
        """Return text for the argument `name`, with values to choose from if given."""

    def constant(self, name: str) -> str:
        """Return text on how to give the input `name` one value for all steps."""

    def load_state(self) -> str:
        """Return text on how to load the states of a file into the model."""

    def find_nan(self, source: str, folder: Path | None) -> str:
        """Return text on how to search for a NaN, from the checkpoint in `folder`."""


class PythonWording:
    """Names options as arguments of `fit` and `map_batches`."""

    def option(self, name: str, *values: object) -> str:
        """Return an argument as Python: `seed=0`, `entry='a' or 'b'`."""
        plain = name.removeprefix("validate_")
        said = f"{plain}={' or '.join(map(repr, values))}" if values else plain
        return said if plain == name else f"Validation({said})"

    def constant(self, name: str) -> str:
        """Return Python text for an element of `constants`."""
        return f"constants={{{name!r}: VALUE}}"

    def load_state(self) -> str:
        """Return the Python call that loads states."""
        return "model.load_state(FILE)"

    def find_nan(self, source: str, folder: Path | None) -> str:
        """Return the command line that finds a NaN, as Python has no call for it."""
        resume = f"--resume {folder} " if folder else ""
        return f"aotc run BUNDLE --loop DATA {resume}--find-nan {source}"


_PYTHON = PythonWording()
_current: ContextVar[Wording] = ContextVar("wording")


def current() -> Wording:
    """Return the wording that messages use now."""
    return _current.get(_PYTHON)


@contextmanager
def use_wording(wording: Wording) -> Iterator[None]:
    """Use `wording` in messages within the context."""
    before = _current.set(wording)
    try:
        yield
    finally:
        _current.reset(before)
