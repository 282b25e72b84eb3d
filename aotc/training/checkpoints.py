"""Checkpoints of a loop: all states and the position, in one file.

`checkpoint.safetensors` is a file of `Model.save_state` whose metadata holds the
position too, so the two cannot come apart. A new one takes the place of the old one in
one step.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from aotc.artifacts import trees
from aotc.core.json_values import JsonObject
from aotc.core.writing import make_folder, write_error
from aotc.errors import InputError
from aotc.errors.system import cannot_write
from aotc.runtime import Model, state_files
from aotc.training import entries, wording

_FILE = "checkpoint.safetensors"
_NOTE = "loop"
_VALIDATION = "validation"  # what validations have shown, where there were any


@dataclass(frozen=True)
class Position:
    """The position of a training loop, and the settings that determine its batches.

    Args:
        batch_size: rows in a batch; 0 if the batches are the caller's own.
        data: digest of the data; empty for batches of the caller's own.
        step: steps that are done; `epoch` is the one that the next step is in, from 0.

    It holds nothing that differs between equal runs, so that these leave equal files.
    """

    entry: str
    seed: int
    batch_size: int
    data: str
    step: int
    epoch: int


class CheckpointFolder:
    """A folder that holds the checkpoint of a training loop; created if missing.

    Args:
        every: after how many steps to write; None writes when the loop ends only.
        allow_nan: write states that hold NaN, too.

    Raises:
        InputError: `no-states` or `checkpoint-exists`.
        SetupError: `cannot-write`.
    """

    def __init__(
        self,
        model: Model,
        folder: Path,
        every: int | None,
        *,
        replace: bool,
        allow_nan: bool,
    ) -> None:
        self.path = folder / _FILE
        self._model = model
        self._every = every
        self._allow_nan = allow_nan
        require_any_state(model)
        if self.path.exists() and not replace:
            raise InputError(
                "checkpoint-exists",
                "there is a checkpoint of another run",
                where=str(self.path),
                hint=f"go on with it: {wording.current().option('resume', str(folder))}"
                ", or choose another folder",
            )
        make_folder(folder)
        # Better to learn now that nothing can be written than after hours.
        if (reason := write_error(folder)) is not None:
            raise cannot_write(self.path, reason)

    def due(self, step: int) -> bool:
        """Return whether a checkpoint is due after so many steps."""
        return self._every is not None and step % self._every == 0

    def save(self, position: Position, validation: Mapping[str, object] | None) -> None:
        """Write the states, the loop's position and the validations to the checkpoint
        file.

        Args:
            position: of the loop.
            validation: what validations have shown, as JSON; None without any.

        Raises:
            InputError: `not-finite`; the old one is kept then.
            SetupError: `cannot-write`, likewise.
        """
        if not self._allow_nan:
            self._check(position)
        notes = {_NOTE: json.dumps(asdict(position))}
        if validation is not None:
            notes[_VALIDATION] = json.dumps(validation)
        self._model.save_state(self.path, notes=notes)

    def _check(self, position: Position) -> None:
        """Raise if a state holds NaN and would replace a checkpoint without."""
        words = wording.current()
        search = entries.nan_search(self._model, position.entry, None)
        go_on = words.option("allow_nan", True)
        for state in self._model.manifest.states.values():
            leaves = trees.flatten(state.tree, self._model.read_state(state.name))
            for index, leaf in enumerate(state.leaves):
                if leaves[index].dtype.kind in "fV" and np.isnan(leaves[index]).any():
                    raise InputError(
                        "not-finite",
                        f"{state_files.key(state, leaf)} holds NaN after step "
                        f"{position.step}; the checkpoint before it is kept",
                        where=str(self.path),
                        hint=f"{search} names the op at fault; {go_on} goes on and "
                        "keeps such states",
                    )


def require_any_state(model: Model) -> None:
    """Raise `no-states` unless the model has a state to save."""
    if not model.manifest.states:
        raise InputError("no-states", f"{model.manifest.name} keeps no states")


def read_position(folder: Path) -> Position:
    """Read the position of the loop from the checkpoint in `folder`.

    Raises:
        InputError: `no-checkpoint`, `bad-checkpoint` or `bad-state-file`.
    """
    path = folder / _FILE
    if not path.exists():
        raise InputError(
            "no-checkpoint", f"expected {_FILE} in the folder", where=str(folder)
        )
    note = state_files.notes(path).get(_NOTE)
    try:
        said = json.loads(note or "")
        found = {name: said[name] for name in _FIELDS}
        if any(not _has_type(found[name], kind) for name, kind in _FIELDS.items()):
            raise TypeError
        return Position(**found)
    except (ValueError, TypeError, KeyError):
        raise InputError(
            "bad-checkpoint",
            "expected states with the position of a loop, got states alone"
            if note is None
            else "the position of the loop cannot be read",
            where=str(path),
            hint=f"{wording.current().load_state()} begins a loop with the states of a "
            "file",
        ) from None


def read_validation(folder: Path) -> JsonObject | None:
    """Read the results of validations from the checkpoint in `folder`, as JSON.

    None where there were none.

    Raises:
        InputError: `bad-checkpoint` or `bad-state-file`.
    """
    path = folder / _FILE
    note = state_files.notes(path).get(_VALIDATION)
    try:
        return None if note is None else json.loads(note)
    except ValueError:
        raise bad_validation(folder) from None


def bad_validation(folder: Path) -> InputError:
    """Return the error for a checkpoint whose validations cannot be read."""
    return InputError(
        "bad-checkpoint",
        "what validations have shown cannot be read",
        where=str(folder / _FILE),
    )


def checkpoint_file(folder: Path) -> Path:
    """Return the path of the checkpoint file in a folder."""
    return folder / _FILE


def _has_type(value: object, kind: type) -> bool:
    """Return whether a value has exactly this type; an int must not be negative."""
    return type(value) is kind and (not isinstance(value, int) or value >= 0)


_FIELDS: dict[str, type] = {
    "entry": str,
    "seed": int,
    "batch_size": int,
    "data": str,
    "step": int,
    "epoch": int,
}
