"""Results for all rows: an entry that updates no state, over batches in their order."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from aotc.artifacts import trees
from aotc.artifacts.manifest import EntryPoint, Leaf
from aotc.errors import InputError
from aotc.runtime import Model
from aotc.training import entries, inputs, wording
from aotc.training.batches import Batches, RowBatches, batches_in_order
from aotc.training.entries import Array
from aotc.training.history import History
from aotc.training.inputs import Data
from aotc.training.interrupts import Interrupted, Interrupts
from aotc.training.means import Means
from aotc.training.metrics import MetricsLog, open_log
from aotc.training.numbers import require_whole
from aotc.training.steps import OnStep, StepRunner


def map_batches(
    model: Model,
    data: Data,
    *,
    entry: str | None = None,
    constants: Mapping[str, object] | None = None,
    steps: int | None = None,
    batch_size: int | None = None,
    metrics: str | os.PathLike[str] | None = None,
    allow_nan: bool = False,
    collect: bool = True,
    on_step: OnStep | None = None,
) -> Any:
    """Call an entry that updates no state on all rows; return the joined results.

        probabilities = training.map_batches(model, {"x": images}, batch_size=64)

    The rows are taken once and in their order. The last batch may be smaller, if the
    entry takes any number of rows.

    Args:
        model: what `aotc.load` returned.
        data: as for `fit`: arrays of shape [rows, …] by input name, the path of a file
            of them, or an iterable of batches.
        entry: which entry to call; by default the only one that updates no state.
        constants: inputs that are the same in every step, by name: arrays or numbers.
        steps: end after so many batches, and leave the other rows out.
        batch_size: rows in a step, if the entry takes any number.
        metrics: a .jsonl file for the outputs without dimensions of each step.
        allow_nan: go on when such an output is NaN or infinite.
        collect: False keeps no results; `on_step` gets those of each step.
        on_step: called with each `Step` when it is recorded.

    Returns:
        The result in the structure that the entry returns, of the declared dtypes. An
        array whose first size is that of a batch has a row for each row of the data:
        [rows, …]; any other one has an element for each step: [steps, …]. None if
        `collect` is False.

    Raises:
        InputError: an argument or the data do not fit, and no step has run; or an input
            of a step does not; or `not-finite`.
        SetupError: `cannot-write`, `file-access`, `out-of-memory` or `run-failed`.
        Interrupted: Ctrl-C or SIGTERM ended the loop, after the step that ran.
    """
    result, _ = map_with_history(
        model,
        data,
        entry=entry,
        constants=constants,
        steps=steps,
        batch_size=batch_size,
        metrics=metrics,
        allow_nan=allow_nan,
        collect=collect,
        on_step=on_step,
    )
    return result


def map_with_history(
    model: Model,
    data: Data,
    *,
    entry: str | None,
    constants: Mapping[str, object] | None,
    steps: int | None,
    batch_size: int | None,
    metrics: str | os.PathLike[str] | None,
    allow_nan: bool,
    collect: bool,
    on_step: OnStep | None,
) -> tuple[Any, History]:
    """Call an entry as `map_batches`; return its results and the history of steps."""
    require_whole(1, steps=steps, batch_size=batch_size)
    loop = RowLoop.prepare(
        model,
        data,
        entry=entry,
        constants=constants or {},
        steps=steps,
        batch_size=batch_size,
    )
    with open_log(metrics, None) as log:
        kept, history = loop.run(
            log, allow_nan=allow_nan, collect=collect, on_step=on_step
        )
    return _joined_result(loop.point, kept, loop.sizes) if collect else None, history


@dataclass(frozen=True)
class RowLoop:
    """A loop that calls an entry without state updates on batches of rows.

    Args:
        model: the loaded model.
        point: the entry.
        constants: the inputs that are the same in every step, by name.
        batches: of the other inputs.
        total: how many there are, if that is known.
        sizes: the first sizes of these inputs.
    """

    model: Model
    point: EntryPoint
    constants: Mapping[str, object]
    batches: Batches
    total: int | None
    sizes: set[int | str]

    @classmethod
    def prepare(
        cls,
        model: Model,
        data: Data,
        *,
        entry: str | None,
        constants: Mapping[str, object],
        steps: int | None,
        batch_size: int | None,
        prefix: str = "",
    ) -> RowLoop:
        """Choose the entry and read the data; return the loop.

        Args:
            model: the loaded model.
            data: as for `map_batches`, like all but the last.
            entry: which entry to call.
            constants: inputs that are the same in every step.
            steps: how many batches at most.
            batch_size: rows in a step.
            prefix: of the names of these in messages.

        Raises:
            InputError, SetupError: as for `map_batches`, before a step has run.
        """
        point = entries.choose(model.manifest, entry, "infer", f"{prefix}entry")
        _require_inference(point)
        entries.require_one_device(
            point,
            ", as only steps that train divide rows among several",
            "aotc.runtime.load_devices calls such an entry",
        )
        given = inputs.constants_for(constants, point.inputs)
        leaves = [leaf for leaf in point.inputs if leaf.name not in given]
        batches = batches_in_order(data, leaves, batch_size)
        limits = [limit for limit in (steps, batches.per_epoch) if limit is not None]
        total = min(limits, default=None)
        sizes = {leaf.shape[0] for leaf in leaves if leaf.shape}
        if isinstance(batches, RowBatches):
            _require_even(point, batches, total, sizes, f"{prefix}steps")
        return cls(model, point, given, batches, total, sizes)

    @property
    def measured_outputs(self) -> list[str]:
        """Names of the outputs with one number per batch or row, which are averaged."""
        return [
            leaf.name
            for leaf in self.point.outputs
            if not leaf.shape or (len(leaf.shape) == 1 and is_by_row(leaf, self.sizes))
        ]

    def require_fit(self) -> None:
        """Raise if the first batch or the constants break the entry's contract.

        Batches of the user's own are left alone, as they are drawn once for each pass.

        Raises:
            InputError: as a call of the entry raises it.
        """
        if isinstance(self.batches, RowBatches):
            first = next(iter(self.batches.after(0)))
            function = self.model.entry(self.point.name).function
            given = {**self.constants, **first}
            function.check([given[leaf.name] for leaf in self.point.inputs])

    def run(
        self,
        log: MetricsLog,
        *,
        allow_nan: bool,
        collect: bool,
        on_step: OnStep | None = None,
    ) -> tuple[list[list[Array]], History]:
        """Call the entry with all batches; return the outputs of each step, and the
        history.

        Returns:
            The outputs of each step, none unless `collect`, and what was measured.

        Raises:
            InputError, SetupError, Interrupted: as `map_batches`.
        """
        kept: list[list[Array]] = []
        done, means = 0, Means(self.measured_outputs)
        names = [leaf.name for leaf in self.point.outputs]
        with Interrupts() as signals:
            runner = StepRunner(
                self.model,
                self.point,
                self.constants,
                log,
                total=self.total,
                allow_nan=allow_nan,
                on_step=on_step,
            )
            for done, batch in enumerate(islice(self.batches.after(0), self.total), 1):
                outputs = runner.run(done, 1, batch)
                means.add(_rows_of(batch), dict(zip(names, outputs, strict=True)))
                if collect:
                    kept.append(outputs)
                if signals.received:
                    break
            history = History(
                entry=self.point.name,
                steps=done,
                began_at=0,
                steps_per_epoch=self.batches.per_epoch,
                batch_size=self.batches.size or None,
                seed=0,
                seconds=runner.seconds,
                metrics=runner.metrics(),
                checkpoint=None,
                means=means.values(),
                rows=means.rows,
            )
        if signals.received:
            raise Interrupted(signals.received, history)
        return kept, history


def _rows_of(batch: Mapping[str, Any]) -> int:
    """Return the number of rows of a batch; 1 if no input has any."""
    return next((len(x) for x in batch.values() if np.ndim(x)), 1)


def _require_inference(point: EntryPoint) -> None:
    """Raise if an entry updates a state."""
    if point.updates:
        raise InputError(
            "usage",
            f"expected an entry that updates no state, and {point.name!r} trains",
            hint="training.fit trains, and keeps what each step measures",
        )


def _require_even(
    point: EntryPoint,
    batches: RowBatches,
    total: int | None,
    sizes: set[int | str],
    steps_option: str,
) -> None:
    """Raise for a smaller last batch that the entry or an output cannot take."""
    short = batches.rows % batches.size
    if not short or total != batches.per_epoch:
        return
    words = wording.current()
    left = (
        f"{batches.rows} rows are no multiple of {batches.size}: {short} are left over"
    )
    if not all(isinstance(size, str) for size in sizes):
        raise InputError(
            "batch-size",
            f"{left}, and the entry {point.name!r} takes {batches.size} at a time",
            hint=f"{words.option(steps_option, batches.per_epoch - 1)} leaves them out",
        )
    for leaf in point.outputs:
        if not is_by_row(leaf, sizes) and any(isinstance(n, str) for n in leaf.shape):
            raise InputError(
                "batch-size",
                f"{left}, and results of two sizes of {leaf.name!r} cannot be put "
                "together",
                hint=f"choose a {words.option('batch_size')} that {batches.rows} is a "
                "multiple of",
            )


def is_by_row(leaf: Leaf, sizes: set[int | str]) -> bool:
    """Return whether an output's first axis is the rows of the batch."""
    return bool(leaf.shape) and leaf.shape[0] in sizes


def _joined_result(
    point: EntryPoint, steps: Sequence[Sequence[Array]], sizes: set[int | str]
) -> object:
    """Return the outputs of all steps, joined, in the structure of the result."""
    columns = zip(point.outputs, zip(*steps, strict=True), strict=True)
    joined = [_join(leaf, arrays, sizes) for leaf, arrays in columns]
    return trees.builder(point.result)(joined)


def _join(leaf: Leaf, arrays: Sequence[Array], sizes: set[int | str]) -> Array:
    """Concatenate an output's arrays over the steps if it has rows; else stack them."""
    if is_by_row(leaf, sizes):
        return np.concatenate(arrays)
    shapes = {array.shape for array in arrays}
    if len(shapes) > 1:
        raise InputError(
            "batch-size",
            f"results of two sizes of {leaf.name!r} cannot be put together: "
            f"{', '.join(map(str, sorted(shapes)))}",
            hint="give batches of one size, or collect the results yourself",
        )
    return np.stack(arrays)
