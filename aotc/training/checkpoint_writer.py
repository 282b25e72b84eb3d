"""Write the checkpoints of a loop, in one of its processes."""

from __future__ import annotations

from pathlib import Path

from aotc.errors import AotcError
from aotc.training import wording
from aotc.training.checkpoints import CheckpointFolder, Position
from aotc.training.metrics import MetricsLog
from aotc.training.replicas import Replicas
from aotc.training.validation import Validator


class CheckpointWriter:
    """Writes the states and position of a training loop to a checkpoint folder, if any.

    Args:
        checkpoints: where.
        validator: of the loop.
        log: of the loop.
        replicas: the devices that train.
        has_metrics: whether the first rank writes what each step measures.
    """

    def __init__(
        self,
        checkpoints: CheckpointFolder | None,
        validator: Validator | None,
        log: MetricsLog,
        replicas: Replicas,
        has_metrics: bool,
    ) -> None:
        self._checkpoints, self._validator, self._log = checkpoints, validator, log
        self._replicas, self._has_metrics = replicas, has_metrics

    def is_due(self, step: int) -> bool:
        """Return whether a checkpoint is to be written after so many steps."""
        return self._checkpoints is not None and self._checkpoints.due(step)

    def save(self, at: Position) -> None:
        """Write a checkpoint; raise if states differ between devices.

        Raises:
            InputError: `states-differ`; and as `CheckpointFolder.save`.
        """
        self._replicas.require_equal(at.step)
        if self._replicas.writes:
            self._write(at)

    def save_after_loss(self, at: Position, error: AotcError) -> None:
        """Write a checkpoint after a rank was lost, if this rank is the one to do it,
        and name it in the error's hint.

        A call that fails leaves states as they were, so those of a rank that is left
        are good. Of these the first writes; where metrics are kept, only the rank that
        writes them does, because a resumed run goes on behind its last record.
        """
        falls_here = not self._has_metrics and self._replicas.is_first_left()
        if self._checkpoints and (self._replicas.writes or falls_here):
            self._write(at)
            option = wording.current().option
            error.hint = (
                f"{option('resume', str(self._checkpoints.path.parent))} goes on after "
                f"step {at.step}"
            )

    def _write(self, at: Position) -> None:
        """Write the states, the position and the validations to the checkpoint."""
        if self._checkpoints:
            self._log.sync()
            shown = self._validator.progress.to_json() if self._validator else None
            self._checkpoints.save(at, shown)

    def search_from(self) -> Path | None:
        """Return the checkpoint folder to search for a NaN's origin from; None
        without.
        """
        if self._checkpoints and self._checkpoints.path.exists():
            return self._checkpoints.path.parent
        return None
