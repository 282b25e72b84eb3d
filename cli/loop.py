"""The loop of `aotc run --loop`: an entry over batches, measured and kept safe."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from signal import Signals
from time import perf_counter
from typing import TYPE_CHECKING, Any

from aotc.cli import batches, checkpoints, metrics, progress
from aotc.cli.arrays import Array, spelled
from aotc.cli.batches import Batches
from aotc.cli.checkpoints import Checkpoints, Position
from aotc.cli.entries import Call
from aotc.cli.interrupts import Interrupts
from aotc.cli.loop_options import Settings
from aotc.errors import Finding, InputError

if TYPE_CHECKING:
    from aotc.artifacts.manifest import EntryPoint


@dataclass(frozen=True)
class Result:
    """How a loop ended: where it is, what it measured last, and what stopped it."""

    position: Position
    seconds: float  # of all steps that --metrics knows of, else of this run's
    began_at: int
    per_epoch: int
    metrics: Mapping[str, Any]
    checkpoint: Path | None
    stopped: Signals | None
    file: Path | None = None  # where the results are, of an entry that trains nothing

    def to_json(self) -> dict[str, Any]:
        """The result as part of a document."""
        return {
            "entry": self.position.entry,
            "steps": self.position.step,
            "began_at": self.began_at,
            "steps_per_epoch": self.per_epoch,
            "batch_size": self.position.batch_size,
            "seed": self.position.seed,
            "seconds": self.seconds,
            "metrics": spelled(self.metrics),
            "checkpoint": str(self.checkpoint) if self.checkpoint else None,
            "file": str(self.file) if self.file else None,
            "stopped": self.stopped.name if self.stopped else None,
        }

    def to_text(self) -> str:
        """The result in a few lines."""
        at = self.position
        epochs = at.step / self.per_epoch
        unit = "epoch" if epochs == 1 else "epochs"
        lines = [
            f"{at.entry}: {at.step} steps of {at.batch_size} rows, "
            f"{epochs:.4g} {unit}, {self.seconds:.1f} s",
            *(f"{name} = {value:.6g}" for name, value in self.metrics.items()),
        ]
        if self.began_at:
            lines[0] += f" (resumed after step {self.began_at})"
        if self.checkpoint:
            lines.append(f"checkpoint: {self.checkpoint}")
        if self.file:
            lines.append(f"wrote the results to {self.file}")
        return "\n".join(lines)


def run(
    model: Any,
    call: Call,
    point: EntryPoint,
    constants: Mapping[str, Array],
    settings: Settings,
) -> Result:
    """Call an entry with one batch after the other.

    Args:
        model: the loaded model.
        call: calls the entry.
        point: the entry.
        constants: the inputs that are the same in every step.
        settings: everything else.

    Raises:
        InputError: data, settings or checkpoint do not fit; or `not-finite`, if a
            metric became NaN or infinite.
    """
    before = checkpoints.restore(model, settings.resume) if settings.resume else None
    leaves = [leaf for leaf in point.inputs if leaf.name not in constants]
    size = settings.batch_size
    seed = settings.seed
    if before:
        size = before.batch_size if size is None else size
        seed = before.seed if seed is None else seed
    data = batches.read(settings.data, leaves, size, seed or 0)
    start = _start(point, data, seed or 0, before, settings)
    return _Loop(model, call, point, constants, data, settings).run(start)


@contextmanager
def finding_in(step: int) -> Iterator[None]:
    """What is found within this block is found in this step, counted from 1."""
    try:
        yield
    except Finding as found:
        found.message = f"step {step}: {found.message}"
        raise


def require_finite(
    entry: str,
    measured: Mapping[str, Any],
    when: str,
    settings: Settings,
    search: str = "--find-nan MODEL",
) -> None:
    """Refuse to go on after a metric that makes no sense, unless that was asked for.

    Args:
        entry: the name of the entry.
        measured: its metrics.
        when: the step, for the message.
        settings: whether to go on.
        search: the options that find the op at fault.

    Raises:
        InputError: `not-finite`.
    """
    name = metrics.not_finite(measured)
    if name and not settings.allow_nan:
        raise InputError(
            "not-finite",
            f"{entry}: {name} is {measured[name]} in {when}",
            hint=f"{search} names the op at fault; --allow-nan goes on anyway",
        )


def _start(
    point: EntryPoint,
    data: Batches,
    seed: int,
    before: Position | None,
    settings: Settings,
) -> Position:
    """Where the loop begins: at the first step, or where the checkpoint is."""
    kept = settings.checkpoint or settings.resume
    digest = data.digest() if kept else ""
    fresh = Position(point.name, seed, data.size, digest, 0, 0)
    if before is None:
        return fresh
    for field in ("entry", "seed", "batch_size", "data"):
        wanted, got = getattr(before, field), getattr(fresh, field)
        if wanted != got:
            name = field.replace("_", " ")
            raise InputError(
                "other-loop",
                f"expected the {name} that the checkpoint was made with ({wanted}), "
                f"got {got}",
                where=str(settings.resume),
                hint="--load-state begins a new loop with the states of a file",
            )
    return before


class _Loop:
    """The steps of a run and what is done after each."""

    def __init__(
        self,
        model: Any,
        call: Call,
        point: EntryPoint,
        constants: Mapping[str, Array],
        data: Batches,
        settings: Settings,
    ) -> None:
        self._call = call
        self._source = model.manifest.data.get("source", {}).get("file", "MODEL")
        self._names = [leaf.name for leaf in point.inputs]
        self._constants = constants
        self._data = data
        self._settings = settings
        self._checkpoints = self._make_checkpoints(model)
        self._metrics: dict[str, Any] = {}

    def run(self, start: Position) -> Result:
        """All steps from `start` on, or those until a signal."""
        total = self._total()
        at = start
        resumed_at = start.step if self._settings.resume else None
        with (
            metrics.opened(self._settings.metrics, resumed_at) as log,
            progress.bar(total) as bar,
            Interrupts() as signals,
        ):
            began = perf_counter() - log.seconds
            ended = at.step >= total
            while not ended:
                self._step(at.step)
                epoch = self._data.epoch(at.step + 1)
                at = replace(at, step=at.step + 1, epoch=epoch)
                self._record(at, perf_counter() - began, log)
                bar.show(at.step, self._metrics)
                # Asked once: a signal from here on ends the next step, with its own.
                ended = at.step == total or signals.received is not None
                if self._checkpoints and (ended or self._checkpoints.due(at.step)):
                    log.sync()
                    self._checkpoints.save(at)
            seconds = perf_counter() - began
        return Result(
            at,
            seconds,
            start.step,
            self._data.per_epoch,
            self._metrics,
            self._checkpoints.path if self._checkpoints else None,
            signals.received,
        )

    def _total(self) -> int:
        """The step to end after; one epoch, if nothing is said."""
        epochs, steps = self._settings.epochs, self._settings.steps
        limits = [steps] if steps else []
        if epochs or not steps:
            limits.append((epochs or 1) * self._data.per_epoch)
        return min(limits)

    def _step(self, step: int) -> None:
        given = {**self._constants, **self._data.at(step)}
        with finding_in(step + 1):
            outputs = self._call([given[name] for name in self._names])
        self._metrics = metrics.scalars(outputs)

    def _record(self, at: Position, seconds: float, log: metrics.Log) -> None:
        """Log what the last step measured, and stop if it makes no sense."""
        epoch = self._data.epoch(at.step - 1) + 1
        log.step(at.step, epoch, seconds, self._metrics)
        require_finite(
            at.entry,
            self._metrics,
            f"step {at.step} (epoch {epoch})",
            self._settings,
            f"{self._from_before()}--find-nan {self._source}",
        )

    def _from_before(self) -> str:
        """How to begin where the checkpoint is, if there is one."""
        if self._checkpoints and self._checkpoints.path.exists():
            return f"--resume {self._checkpoints.path.parent} "
        return ""

    def _make_checkpoints(self, model: Any) -> Checkpoints | None:
        resumed = self._settings.resume
        folder = self._settings.checkpoint or resumed
        if folder is None:
            return None
        return Checkpoints(
            model,
            folder,
            self._settings.every or self._data.per_epoch,
            replace=resumed is not None and folder.resolve() == resumed.resolve(),
            allow_nan=self._settings.allow_nan,
        )
