"""Validation between the steps of a loop: other data, the best states, an early end."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from aotc.core.json_values import JsonObject
from aotc.errors import InputError
from aotc.runtime import Model
from aotc.training import wording
from aotc.training.batches import Batches
from aotc.training.checkpoints import Position, require_any_state
from aotc.training.history import Validated
from aotc.training.inputs import Data
from aotc.training.mapping import RowLoop
from aotc.training.metrics import MetricsLog, not_finite
from aotc.training.numbers import require_whole

_PREFIX = "validate_"  # of the names of arguments in messages (`wording`)


@dataclass(frozen=True)
class Validation:
    """Options of the validations that `fit` makes between its steps.

        validation = training.Validation({"images": x}, entry="validate", patience=3)
        training.fit(model, data, epochs=50, validation=validation)

    The entry is called with all rows. Of each output without dimensions, and of each
    with one number for a row, the mean over the rows counts; an output without
    dimensions is taken for the mean of its batch.

    Args:
        data: as for `map_batches`; no stream, because it is passed over again.
        entry: that updates no state; by default the only one.
        constants: inputs that are the same in every step, by name.
        batch_size: rows at a time, if the entry takes any number; by default that of
            the training.
        steps: only so many batches.
        every: steps between validations; by default an epoch.
        monitor: the output that tells which states are the best; by default the only
            one that there is a mean of.
        mode: whether less of it is better, or more.
        patience: end the loop after so many validations in a row without a better one.
        best: a file for the states of the best validation.
    """

    data: Data
    entry: str | None = None
    constants: Mapping[str, Any] = field(default_factory=dict)
    batch_size: int | None = None
    steps: int | None = None
    every: int | None = None
    monitor: str | None = None
    mode: Literal["min", "max"] = "min"
    patience: int | None = None
    best: str | os.PathLike[str] | None = None


@dataclass(frozen=True)
class ValidationProgress:
    """The best validation so far and the count since then; saved in checkpoints.

    Args:
        entry: that validates.
        monitor: the output that is compared.
        mode: whether less of it is better, `min`, or more, `max`.
        step: after which the last one was; 0 before the first.
        best: the least or greatest value of what is monitored; None before the first.
        best_step: after which that was.
        best_epoch: in which that step was, from 1.
        without_better: how many validations there were since then.
    """

    entry: str
    monitor: str
    mode: str
    step: int = 0
    best: float | None = None
    best_step: int = 0
    best_epoch: int = 0
    without_better: int = 0

    @classmethod
    def from_json(cls, found: JsonObject) -> ValidationProgress:
        """Read the progress from a checkpoint's JSON.

        Raises:
            TypeError, ValueError, KeyError: it is something else.
        """
        counts = ("step", "best_step", "best_epoch", "without_better")
        for name in counts:
            if type(found[name]) is not int or found[name] < 0:
                raise TypeError(name)
        best = found["best"]
        return cls(
            str(found["entry"]),
            str(found["monitor"]),
            str(found["mode"]),
            **{name: found[name] for name in counts},
            best=None if best is None else float(best),
        )

    def to_json(self) -> JsonObject:
        """Return the progress as JSON for a checkpoint."""
        return asdict(self)


class Validator:
    """Runs validations of a training loop and keeps track of the best.

    Args:
        model: that is trained.
        asked: what was asked for.
        batches: of the training.
        resumed: what a checkpoint knows of validations; None for a new loop.
        allow_nan: go on when a result is NaN or infinite.

    Raises:
        InputError: data, entry or options do not fit; `output-exists`.
    """

    def __init__(
        self,
        model: Model,
        asked: Validation,
        batches: Batches,
        resumed: ValidationProgress | None,
        *,
        allow_nan: bool,
    ) -> None:
        require_whole(1, validate_every=asked.every, patience=asked.patience)
        require_whole(1, validate_steps=asked.steps, batch_size=asked.batch_size)
        words = wording.current()
        if asked.mode not in ("min", "max"):
            raise InputError(
                "usage", f"expected the mode 'min' or 'max', got {asked.mode!r}"
            )
        every = asked.every or batches.per_epoch
        if every is None:
            raise InputError(
                "usage",
                "a stream has no epochs to validate after",
                hint=f"{words.option('validate_every', 100)} validates after so many "
                "steps",
            )
        self._every = every
        self._model, self._asked, self._allow_nan = model, asked, allow_nan
        self._loop = _loop_of(model, asked, batches)
        self._monitor = self._choose_monitor()
        self._best_file = None if asked.best is None else Path(asked.best)
        if self._best_file is not None:
            require_any_state(model)
            _require_free(self._best_file, resumed)
        fresh = ValidationProgress(self._loop.point.name, self._monitor, asked.mode)
        self.progress = resumed or fresh
        _require_same(self.progress, fresh)
        self._loop.require_fit()
        self.done: list[Validated] = []

    def _choose_monitor(self) -> str:
        """Return the name of the output to compare validations by; raise if
        ambiguous.
        """
        names, asked = self._loop.measured_outputs, self._asked.monitor
        if asked is None and len(names) == 1:
            return names[0]
        if asked in names:
            return str(asked)
        words = wording.current()
        entry = self._loop.point.name
        if not names:
            raise InputError(
                "usage",
                f"the entry {entry!r} has no output with a number for each batch or "
                "row, which validation needs",
            )
        said = "expected one" if asked is None else f"got {asked!r}"
        raise InputError(
            "usage",
            f"the entry {entry!r} measures {', '.join(names)}: {said} to compare by",
            hint=words.option("monitor", *names),
        )

    @property
    def is_over(self) -> bool:
        """Return whether `patience` validations in a row were not better."""
        limit = self._asked.patience
        return limit is not None and self.progress.without_better >= limit

    @property
    def best(self) -> Validated | None:
        """The best validation; from before a resume only its monitored mean is
        known.
        """
        found = self.progress
        if found.best is None:
            return None
        known = (each for each in self.done if each.step == found.best_step)
        return next(
            known,
            Validated(found.best_step, found.best_epoch, {self._monitor: found.best}),
        )

    def is_due(self, at: Position) -> bool:
        """Return whether a validation is due after the last step."""
        is_new = at.step > self.progress.step
        return is_new and at.step % self._every == 0

    def run(self, at: Position, epoch: int, log: MetricsLog, seconds: float) -> None:
        """Validate, record the results, and save the states if they are the best so
        far.

        Args:
            at: where the loop is.
            epoch: of the step that was done last, from 1.
            log: of the loop.
            seconds: since its start.

        Raises:
            InputError: `not-finite`, or as the calls raise it.
            Interrupted: a signal ended it; then nothing is recorded.
        """
        _, history = self._loop.run(
            MetricsLog(None), allow_nan=self._allow_nan, collect=False
        )
        means = history.means
        self._require_finite(means, at.step)
        found = Validated(at.step, epoch, means)
        self.done.append(found)
        log.validation(found, seconds)
        self._record(found)

    def _record(self, found: Validated) -> None:
        """Update the progress by a validation; save the states if it is the best."""
        value, before = found.means[self._monitor], self.progress
        if self._is_better(value, before.best):
            self.progress = replace(
                before,
                step=found.step,
                best=value,
                best_step=found.step,
                best_epoch=found.epoch,
                without_better=0,
            )
            if self._best_file is not None:
                self._model.save_state(self._best_file)
            return
        without_better = before.without_better + 1
        self.progress = replace(before, step=found.step, without_better=without_better)

    def _is_better(self, value: float, best: float | None) -> bool:
        """Return whether a monitored value is better than the best one."""
        if math.isnan(value):
            return False
        if best is None:
            return True
        return value < best if self._asked.mode == "min" else value > best

    def _require_finite(self, means: Mapping[str, float], step: int) -> None:
        """Raise if a mean is NaN or infinite, unless that is allowed."""
        name = not_finite(means)
        if name is not None and not self._allow_nan:
            words = wording.current()
            raise InputError(
                "not-finite",
                f"{self._loop.point.name}: the mean of {name} is {means[name]} after "
                f"step {step}",
                hint=f"{words.option('allow_nan', True)} goes on anyway",
            )


def _loop_of(model: Model, asked: Validation, batches: Batches) -> RowLoop:
    """Return the loop that validates, with the training's batch size by default."""

    def prepare(size: int | None) -> RowLoop:
        return RowLoop.prepare(
            model,
            asked.data,
            entry=asked.entry,
            constants=asked.constants,
            steps=asked.steps,
            batch_size=size,
            prefix=_PREFIX,
        )

    try:
        loop = prepare(asked.batch_size)
    except InputError as error:
        if error.code != "batch-size" or asked.batch_size or not batches.size:
            raise
        loop = prepare(batches.size)
    if loop.total is None:
        raise InputError(
            "usage",
            "expected data for validation that can be passed over again, got a stream",
            hint="pass arrays, or a list of batches",
        )
    return loop


def _require_same(before: ValidationProgress, asked: ValidationProgress) -> None:
    """Raise if a checkpoint's validations monitored something else."""
    for name in ("entry", "monitor", "mode"):
        wanted, got = getattr(before, name), getattr(asked, name)
        if wanted != got:
            raise InputError(
                "other-loop",
                f"expected validations of the {name} that the checkpoint was made with "
                f"({wanted}), got {got}",
                hint=f"{wording.current().load_state()} begins a new loop with the "
                "states of a file",
            )


def _require_free(file: Path, resumed: ValidationProgress | None) -> None:
    """Raise if the file for the best states exists from another run."""
    if resumed is None and file.exists():
        raise InputError(
            "output-exists",
            "the states of another run are here",
            where=str(file),
            hint="choose another file, remove it, or go on with "
            + wording.current().option("resume"),
        )
