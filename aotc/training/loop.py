"""Training: an entry over batches, measured and kept safe."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

from aotc.artifacts.manifest import EntryPoint, Leaf
from aotc.errors import AotcError, InputError
from aotc.runtime import DeviceModels, Model
from aotc.training import entries, inputs, wording
from aotc.training.batches import Batches, shuffled_batches
from aotc.training.checkpoint_writer import CheckpointWriter
from aotc.training.checkpoints import (
    CheckpointFolder,
    Position,
    bad_validation,
    checkpoint_file,
    read_position,
    read_validation,
)
from aotc.training.history import History
from aotc.training.inputs import Data
from aotc.training.interrupts import Interrupted, Interrupts
from aotc.training.metrics import MetricsLog, open_log
from aotc.training.numbers import require_whole
from aotc.training.replicas import Replicas
from aotc.training.steps import OnStep, StepRunner
from aotc.training.validation import Validation, ValidationProgress, Validator


def fit(
    model: Model | DeviceModels,
    data: Data,
    *,
    entry: str | None = None,
    constants: Mapping[str, object] | None = None,
    epochs: int | None = None,
    steps: int | None = None,
    batch_size: int | None = None,
    seed: int | None = None,
    metrics: str | os.PathLike[str] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_every: int | None = None,
    resume: str | os.PathLike[str] | None = None,
    validation: Validation | None = None,
    allow_nan: bool = False,
    on_step: OnStep | None = None,
) -> History:
    """Train a model by calling its training step with one batch of data after another.

        model = aotc.load("digits-1.0.0.aotc")
        history = training.fit(model, {"images": x, "labels": y}, epochs=5)
        model.save_state("trained.safetensors")

    The model's states hold what it learns. In every epoch all rows of the data are
    shuffled, together for all inputs, and cut into batches; those left over wait for
    the next epoch. The loop ends after `epochs` or `steps`, whichever comes first.

    Ctrl-C and SIGTERM are taken over meanwhile, in the main thread: the first ends the
    loop after the step that runs, with its checkpoint, and raises `Interrupted`.

    An entry that takes devices along `data` gets the rows of a batch divided among them
    (docs/parallel.md). Each rank of a group of processes calls `fit` with the same
    arguments; the first one writes the files.

    Args:
        model: what `aotc.load` or `aotc.runtime.load_devices` returned.
        data: a mapping from the names of inputs to arrays of shape [rows, …], of the
            dtypes that the inputs have; nested mappings are for inputs in containers,
            and names that no input has are left alone. Or the path of an .npz or
            .safetensors file of such arrays. Or an iterable of batches, each a mapping
            of the arrays of one call: a list, or what else has a length, is passed over
            in every epoch, in its own order; a generator is a stream of one epoch.
            Where one input is left, its array needs no name.
        entry: which entry to call; by default the only one that trains.
        constants: inputs that are the same in every step, by name: arrays or numbers.
        epochs: passes over the data, from the very start; by default 1 without `steps`.
        steps: the number of the last step, from the very start.
        batch_size: rows in a step, if the entry takes any number.
        seed: of the order of the rows, which is new in each epoch; by default 0.
        metrics: a .jsonl file for what each step measures.
        checkpoint: a folder to keep states and position in.
        checkpoint_every: steps between checkpoints, by default an epoch; the end of the
            loop is kept as well.
        resume: a folder with a checkpoint to go on from, where the next ones are kept
            unless `checkpoint` names another. It leads to the same bits as a run that
            never stopped. Batches of your own must come again, in the same order and
            from the start: those before the checkpoint are drawn and dropped.
        validation: what to measure with other data between the steps, which keeps the
            best states and may end the loop early.
        allow_nan: go on when a metric, or a state that is to be kept, is not finite.
        on_step: called with each `Step` when it is recorded, before its checkpoint.

    Returns:
        How far the loop is, and what each step measured.

    Raises:
        InputError: an argument, the data or the checkpoint do not fit, and no step has
            run; or an input of a step does not; or `not-finite`.
        SetupError: `cannot-write`, `file-access`, `out-of-memory` or `run-failed`; or
            `rank-lost`, when a checkpoint is written of the steps that are done.
        Interrupted: a signal ended the loop in order.
    """
    require_whole(1, epochs=epochs, steps=steps, batch_size=batch_size)
    require_whole(1, checkpoint_every=checkpoint_every)
    require_whole(0, seed=seed)
    models = DeviceModels.of(model)
    point = entries.choose(models.manifest, entry, "train-step")
    _require_training(point)
    replicas = Replicas(models, point)
    model = replicas.model
    kept_in, resumed = _folders(checkpoint, resume, checkpoint_every)
    given = inputs.constants_for(constants or {}, point.inputs)
    leaves = [leaf for leaf in point.inputs if leaf.name not in given]
    before = read_position(resumed) if resumed else None
    batches = _batches(data, leaves, batch_size, seed, before, replicas.count)
    total = _last_step(batches, epochs, steps)
    start = _start(point, batches, before, resumed, kept=kept_in is not None)
    every = checkpoint_every or batches.per_epoch
    checkpoints = _make_checkpoints(model, kept_in, resumed, every, allow_nan)
    validator = _validator(replicas, validation, batches, resumed, allow_nan)
    if resumed:
        replicas.load_state(checkpoint_file(resumed))
    file = metrics if replicas.writes else None
    with (
        open_log(file, start.step if resumed else None) as log,
        Interrupts(replicas.agree if replicas.is_shared else None) as signals,
    ):
        replicas.wait()  # until all have read what a step may write over
        runner = StepRunner(
            model,
            point,
            given,
            log,
            total=total,
            allow_nan=allow_nan,
            on_step=on_step,
            replicas=replicas,
        )
        writer = CheckpointWriter(
            checkpoints, validator, log, replicas, metrics is not None
        )
        loop = _TrainingLoop(runner, batches, total, writer, validator, log, signals)
        loop.run(start)
        history = loop.history(start, checkpoints)
    if signals.ending:
        raise Interrupted(signals.ending, history)
    return history


class _TrainingLoop:
    """Runs the steps, validations and checkpoints of a training."""

    def __init__(
        self,
        steps: StepRunner,
        batches: Batches,
        total: int | None,
        writer: CheckpointWriter,
        validator: Validator | None,
        log: MetricsLog,
        signals: Interrupts,
    ) -> None:
        self._steps = steps
        self._batches = batches
        self._total = total
        self._writer = writer
        self._validator = validator
        self._log = log
        self._signals = signals
        self._at: Position

    def run(self, start: Position) -> None:
        """Run all steps from `start` on, until the last or a signal; save after a lost
        rank.
        """
        self._at = start
        try:
            self._run(start)
        except AotcError as error:
            if error.code == "rank-lost" and self._at.step > start.step:
                self._writer.save_after_loss(self._at, error)
            raise

    def history(self, start: Position, checkpoints: CheckpointFolder | None) -> History:
        """Return the history of a run that began at `start`, up to now."""
        end, validator = self._at, self._validator
        return History(
            entry=end.entry,
            steps=end.step,
            began_at=start.step,
            steps_per_epoch=self._batches.per_epoch,
            batch_size=self._batches.size or None,
            seed=end.seed,
            seconds=self._steps.seconds,
            metrics=self._steps.metrics(),
            checkpoint=checkpoints.path if checkpoints else None,
            validations=tuple(validator.done) if validator else (),
            best=validator.best if validator else None,
            ended_early=validator.is_over if validator else False,
        )

    def _run(self, start: Position) -> None:
        """Run steps with validations and checkpoints until the loop is over."""
        at = start
        self._validate(at)  # a signal may have ended the one after this step
        self._signals.settle()
        count = None if self._total is None else max(self._total - at.step, 0)
        if self._is_over():
            return
        for batch in islice(self._batches.after(at.step), count):
            self._at = at = self._step(at, batch)
            self._signals.settle()
            if self._signals.ending is None:
                self._validate(at)
            # Asked once: a signal from here on ends the next step, with its own.
            if at.step == self._total or self._is_over():
                break
            if self._writer.is_due(at.step):
                self._writer.save(at)
        if at.step > start.step:
            self._writer.save(at)

    def _step(self, at: Position, batch: Mapping[str, object]) -> Position:
        """Run one training step; return the position after it."""
        number, epoch = at.step + 1, self._batches.epoch(at.step) + 1
        try:
            self._steps.run(number, epoch, batch, self._writer.search_from())
        except Interrupted as stop:  # of a loop in `on_step`, such as a validation
            self._signals.received = stop.signal
        return replace(at, step=number, epoch=self._batches.epoch(number))

    def _validate(self, at: Position) -> None:
        """Run a validation if one is due after this step."""
        if self._validator is None or not self._validator.is_due(at):
            return
        epoch = self._batches.epoch(at.step - 1) + 1
        try:
            self._validator.run(at, epoch, self._log, self._steps.seconds)
        except Interrupted as stop:
            self._signals.received = stop.signal

    def _is_over(self) -> bool:
        """Return whether a signal or the validations have ended the loop."""
        is_early = self._validator is not None and self._validator.is_over
        return is_early or self._signals.ending is not None


# ---- what the arguments say together ------------------------------------------------


def _require_training(point: EntryPoint) -> None:
    """Raise unless an entry updates a state."""
    if not point.updates:
        raise InputError(
            "usage",
            f"expected an entry that trains, and {point.name!r} updates no state",
            hint="training.map_batches gives its results for all rows",
        )


def _folders(
    checkpoint: str | os.PathLike[str] | None,
    resume: str | os.PathLike[str] | None,
    every: int | None,
) -> tuple[Path | None, Path | None]:
    """Return the folder to write checkpoints to, and the one to resume from."""
    words = wording.current()
    resumed = None if resume is None else Path(resume)
    kept_in = resumed if checkpoint is None else Path(checkpoint)
    if every is not None and kept_in is None:
        needs = f"{words.option('checkpoint_every')} needs {words.option('checkpoint')}"
        raise InputError("usage", needs)
    return kept_in, resumed


def _batches(
    data: Data,
    leaves: Sequence[Leaf],
    batch_size: int | None,
    seed: int | None,
    before: Position | None,
    devices: int,
) -> Batches:
    """Return the batches of the data, with a resumed checkpoint's size and seed by
    default.
    """
    if before and inputs.are_whole_arrays(data):
        batch_size = before.batch_size or None if batch_size is None else batch_size
        seed = before.seed if seed is None else seed
    return shuffled_batches(data, leaves, batch_size, seed, devices)


def _validator(
    replicas: Replicas,
    options: Validation | None,
    batches: Batches,
    resumed: Path | None,
    allow_nan: bool,
) -> Validator | None:
    """Return the validator, with progress from the resumed checkpoint; None without
    one.
    """
    if options is None:
        return None
    if not replicas.writes:  # the first rank keeps the best states
        options = replace(options, best=None)
    shown = read_validation(resumed) if resumed else None
    try:
        before = None if shown is None else ValidationProgress.from_json(shown)
    except (TypeError, ValueError, KeyError):
        raise bad_validation(resumed or Path()) from None
    return Validator(replicas.model, options, batches, before, allow_nan=allow_nan)


def _last_step(batches: Batches, epochs: int | None, steps: int | None) -> int | None:
    """Return the number of the last step: one epoch by default, None for a whole
    stream.
    """
    if batches.per_epoch is None:
        if epochs not in (None, 1):
            raise InputError(
                "usage",
                "expected one epoch of a stream, which can be passed over only once, "
                f"got {wording.current().option('epochs', epochs)}",
                hint="pass a list of batches, or what else has a length",
            )
        return steps
    limits = [] if steps is None else [steps]
    if epochs or not steps:
        limits.append((epochs or 1) * batches.per_epoch)
    return min(limits)


def _start(
    point: EntryPoint,
    batches: Batches,
    before: Position | None,
    resumed: Path | None,
    *,
    kept: bool,
) -> Position:
    """Return the loop's first position; raise if a checkpoint has other settings."""
    digest = batches.digest() if kept else ""
    fresh = Position(point.name, batches.seed, batches.size, digest, 0, 0)
    if before is None:
        return fresh
    for field in ("entry", "batch_size", "seed", "data"):
        wanted, got = getattr(before, field), getattr(fresh, field)
        if wanted != got:
            name = field.replace("_", " ")
            raise InputError(
                "other-loop",
                f"expected the {name} that the checkpoint was made with "
                f"({_setting_text(field, wanted)}), got {_setting_text(field, got)}",
                where=str(resumed),
                hint=f"{wording.current().load_state()} begins a new loop with the "
                "states of a file",
            )
    return before


def _setting_text(field: str, value: object) -> object:
    """Return a setting's value as shown in messages."""
    own = field == "batch_size" and value == 0
    return "batches of your own" if own else value


def _make_checkpoints(
    model: Model,
    kept_in: Path | None,
    resumed: Path | None,
    every: int | None,
    allow_nan: bool,
) -> CheckpointFolder | None:
    """Return the checkpoint folder to write to; None without one."""
    if kept_in is None:
        return None
    own = resumed is not None and kept_in.resolve() == resumed.resolve()
    return CheckpointFolder(model, kept_in, every, replace=own, allow_nan=allow_nan)
