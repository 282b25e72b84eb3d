"""The loop of `aotc run --loop`: `aotc.training` with a progress bar, told in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from signal import Signals
from typing import TYPE_CHECKING, Any

from aotc.artifacts import trees
from aotc.cli import arrays, output, progress
from aotc.cli.arrays import Array
from aotc.cli.loop_options import LoopSettings, OptionWording
from aotc.core.json_values import json_value, python_numbers
from aotc.errors import InputError
from aotc.runtime import DeviceModels
from aotc.training import (
    History,
    Interrupted,
    Step,
    Validated,
    Validation,
    entries,
    fit,
)
from aotc.training.mapping import map_with_history
from aotc.training.wording import use_wording

if TYPE_CHECKING:
    from aotc.artifacts.manifest import EntryPoint
    from aotc.runtime import Model

# options that say how to train
_TRAINING = ("epochs", "seed", "checkpoint", "every", "resume", "validate")


@dataclass(frozen=True)
class LoopResult:
    """The outcome of a training or inference loop: history, and a signal that stopped
    it.

    Args:
        file: where the results are, of an entry that trains nothing.
    """

    history: History
    stopped: Signals | None
    file: Path | None = None

    @property
    def metrics(self) -> dict[str, Any]:
        """The metrics of the last step."""
        return {
            name: python_numbers(values[-1:])[0]
            for name, values in self.history.metrics.items()
        }

    def to_json(self) -> dict[str, Any]:
        """Return the result as a JSON object."""
        done = self.history
        return {
            "entry": done.entry,
            "steps": done.steps,
            "began_at": done.began_at,
            "steps_per_epoch": done.steps_per_epoch,
            "batch_size": done.batch_size,
            "seed": done.seed,
            "seconds": done.seconds,
            "metrics": json_value(self.metrics),
            "checkpoint": str(done.checkpoint) if done.checkpoint else None,
            "means": json_value(dict(done.means)),
            "rows": done.rows or None,
            "validations": [_validated(each) for each in done.validations],
            "best": _validated(done.best) if done.best else None,
            "ended_early": done.ended_early,
            "file": str(self.file) if self.file else None,
            "stopped": self.stopped.name if self.stopped else None,
        }

    def to_text(self) -> str:
        """Return the result as a few lines of text."""
        done = self.history
        epochs = done.steps / (done.steps_per_epoch or 1)
        unit = "epoch" if epochs == 1 else "epochs"
        size = done.batch_size
        rows = "" if size is None else f" of {output.quantity(size, 'row')}"
        lines = [
            f"{done.entry}: {output.quantity(done.steps, 'step')}{rows}, "
            f"{epochs:.4g} {unit}, {done.seconds:.1f} s",
            *self._measured_lines(),
        ]
        if done.began_at:
            lines[0] += f" (resumed after step {done.began_at})"
        if done.checkpoint:
            lines.append(f"checkpoint: {done.checkpoint}")
        if self.file:
            lines.append(f"wrote the results to {self.file}")
        return "\n".join(lines)

    def _measured_lines(self) -> Iterator[str]:
        """Yield lines on the metrics: means over all rows, or of the last step."""
        done = self.history
        for name, value in done.means.items():
            rows = output.quantity(done.rows, "row")
            yield f"{name} = {value:.6g} (mean over {rows})"
        for name, value in self.metrics.items():
            if name not in done.means:
                yield f"{name} = {value:.6g}"
        for title, found in (
            ("last validation", done.validations[-1] if done.validations else None),
            ("best validation", done.best),
        ):
            if found is not None:
                means = ", ".join(f"{k} = {v:.6g}" for k, v in found.means.items())
                yield f"{title}, after step {found.step}: {means}"
        if done.ended_early:
            yield "ended early: validations have not become better (--patience)"


def _validated(validation: Validated) -> dict[str, object]:
    """Return a validation's step, epoch and means as a JSON object."""
    means = json_value(dict(validation.means))
    return {"step": validation.step, "epoch": validation.epoch, "means": means}


def run(
    model: Model | DeviceModels,
    point: EntryPoint,
    constants: Mapping[str, Array],
    settings: LoopSettings,
    file: Path | None,
) -> LoopResult:
    """Train with an entry that updates state, or run one over all rows; return the
    outcome.

    Args:
        model: the loaded model; of one that trains on several devices, all of these.
        point: the entry.
        constants: the inputs that are the same in every step.
        settings: what the options of the loop say.
        file: for results; written when all are there, so not after a signal.

    Raises:
        InputError: data, options or checkpoint do not fit, or a metric is not finite.
    """
    if point.updates:
        return _train(model, point, constants, settings, file)
    return _run_over_rows(model, point, constants, settings, file)


class _Bar:
    """Callback that shows a progress bar from the first step on."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._bar: progress.Bar | None = None

    def __call__(self, step: Step) -> None:
        if self._bar is None:
            self._bar = self._stack.enter_context(progress.bar(step.total or step.step))
        self._bar.show(step.step, step.metrics)


def _train(
    model: Model | DeviceModels,
    point: EntryPoint,
    constants: Mapping[str, Array],
    settings: LoopSettings,
    file: Path | None,
) -> LoopResult:
    """Run a training loop; return its outcome."""
    if file:
        raise InputError(
            "usage",
            f"--output takes the results of an entry that updates no state; the entry "
            f"{point.name!r} trains",
            hint="--metrics keeps what it measures, --save-state what it learns",
        )
    with use_wording(OptionWording()), ExitStack() as stack:
        try:
            history = fit(
                model,
                settings.data,
                entry=point.name,
                constants=constants,
                epochs=settings.epochs,
                steps=settings.steps,
                batch_size=settings.batch_size,
                seed=settings.seed,
                metrics=settings.metrics,
                checkpoint=settings.checkpoint,
                checkpoint_every=settings.every,
                resume=settings.resume,
                validation=_validation(model, constants, settings),
                allow_nan=settings.allow_nan,
                on_step=_Bar(stack),
            )
        except Interrupted as stop:
            return LoopResult(stop.history, stop.signal)
    return LoopResult(history, None)


def _validation(
    model: Model | DeviceModels, constants: Mapping[str, Array], settings: LoopSettings
) -> Validation | None:
    """Return the options of the validation that `--validate` asks for; None without."""
    if settings.validate is None:
        return None
    monitor, _, mode = (settings.monitor or "").partition(":")
    if mode not in ("", "min", "max"):
        raise InputError("usage", f"--monitor: expected min or max, got {mode!r}")
    name = settings.validate_entry
    point = entries.choose(model.manifest, name, "infer", "validate_entry")
    names = {leaf.name for leaf in point.inputs}
    return Validation(
        settings.validate,
        entry=point.name,
        constants={k: v for k, v in constants.items() if k in names},
        steps=settings.validate_steps,
        every=settings.validate_every,
        monitor=monitor or None,
        mode="max" if mode == "max" else "min",
        patience=settings.patience,
        best=settings.best,
    )


def _run_over_rows(
    model: Model | DeviceModels,
    point: EntryPoint,
    constants: Mapping[str, Array],
    settings: LoopSettings,
    file: Path | None,
) -> LoopResult:
    """Run an entry over all rows of the data; write the results to `file`, if any."""
    _require_purpose(point, settings, file)
    model = DeviceModels.of(model).first
    with use_wording(OptionWording()), ExitStack() as stack:
        try:
            result, history = map_with_history(
                model,
                settings.data,
                entry=point.name,
                constants=constants,
                steps=settings.steps,
                batch_size=settings.batch_size,
                metrics=settings.metrics,
                allow_nan=settings.allow_nan,
                collect=file is not None,
                on_step=_Bar(stack),
            )
        except Interrupted as stop:
            return LoopResult(stop.history, stop.signal)
    if file:
        leaves = trees.flatten(point.result, result)
        named = {leaf.name: leaves[i] for i, leaf in enumerate(point.outputs)}
        arrays.write_npz(file, named)
    return LoopResult(history, None, file)


def _require_purpose(
    point: EntryPoint, settings: LoopSettings, file: Path | None
) -> None:
    """Raise for options of training on a stateless entry, or if results go nowhere."""
    for name in _TRAINING:
        if getattr(settings, name) is not None:
            raise InputError(
                "usage",
                f"--{name} belongs to training; the entry {point.name!r} updates no "
                "state, and takes the rows once and in their order",
                hint=f"leave out --{name}, or name an entry that trains with --entry",
            )
    if file is None and settings.metrics is None:
        raise InputError(
            "usage",
            f"the entry {point.name!r} updates no state: its results would be lost",
            hint="--output out.npz keeps them, --metrics m.jsonl the scalar ones",
        )
