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
    """The wording of advice to a user."""

    def option(self, name: str, *values: object) -> str:
        """The argument `name`, with the values to choose from if any are given."""

    def constant(self, name: str) -> str:
        """Describe how to give the input `name` one value for all steps."""

    def load_state(self) -> str:
        """Describe how to load the states of a file into the model."""

    def find_nan(self, source: str, folder: Path | None) -> str:
        """Describe how to search `source` for a NaN, from the checkpoint in
        `folder`.
        """


class PythonWording:
    """Arguments of `fit` and `map_batches`."""

    def option(self, name: str, *values: object) -> str:
        """Return an option as in a call: `seed=0`, `entry='a' or 'b'`."""
        plain = name.removeprefix("validate_")
        said = f"{plain}={' or '.join(map(repr, values))}" if values else plain
        return said if plain == name else f"Validation({said})"

    def constant(self, name: str) -> str:
        """Write how to pass an element of `constants`."""
        return f"constants={{{name!r}: VALUE}}"

    def load_state(self) -> str:
        """Return the call of the model's method."""
        return "model.load_state(FILE)"

    def find_nan(self, source: str, folder: Path | None) -> str:
        """Write the command that finds NaN, as only the command searches."""
        resume = f"--resume {folder} " if folder else ""
        return f"aotc run BUNDLE --loop DATA {resume}--find-nan {source}"


_PYTHON = PythonWording()
_current: ContextVar[Wording] = ContextVar("wording")


def current() -> Wording:
    """Return the wording of the current caller."""
    return _current.get(_PYTHON)


@contextmanager
def use_wording(wording: Wording) -> Iterator[None]:
    """Make messages use `wording` within this block."""
    before = _current.set(wording)
    try:
        yield
    finally:
        _current.reset(before)
