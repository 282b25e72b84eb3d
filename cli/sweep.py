"""`aotc run --loop` with an entry that trains nothing: its results for all rows.

The rows are taken once and in the order of the file, the last batch may be smaller, and
what the entry returns is put together: an output whose first size is that of a batch
has a row for each row of the data, any other one an element for each step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from aotc.cli import arrays, batches, metrics, progress
from aotc.cli.arrays import Array
from aotc.cli.batches import Batches
from aotc.cli.checkpoints import Position
from aotc.cli.entries import Call
from aotc.cli.interrupts import Interrupts
from aotc.cli.loop import Result, finding_in, require_finite
from aotc.cli.loop_options import Settings
from aotc.errors import InputError

if TYPE_CHECKING:
    from aotc.artifacts.manifest import EntryPoint, Leaf

# options that say how to train
_TRAINING = ("epochs", "seed", "checkpoint", "every", "resume")


def run(
    call: Call,
    point: EntryPoint,
    constants: Mapping[str, Array],
    settings: Settings,
    file: Path | None,
) -> Result:
    """Call an entry with all rows of the data and write what it returns to `file`.

    Args:
        call: calls the entry.
        point: the entry.
        constants: the inputs that are the same in every step.
        settings: what the options of the loop say.
        file: for the results; written when all are there, so not after a signal.

    Raises:
        InputError: data or options do not fit, or a metric is not finite.
    """
    _require_purpose(point, settings, file)
    leaves = [leaf for leaf in point.inputs if leaf.name not in constants]
    data = batches.read_in_order(settings.data, leaves, settings.batch_size)
    total = min(settings.steps or data.per_epoch, data.per_epoch)
    sizes = {leaf.shape[0] for leaf in leaves}
    _require_even(point, data, total, sizes)
    names = [leaf.name for leaf in point.inputs]
    kept: dict[str, list[Array]] = {leaf.name: [] for leaf in point.outputs}
    done, measured, began = 0, {}, perf_counter()
    with (
        metrics.opened(settings.metrics, None) as log,
        progress.bar(total) as bar,
        Interrupts() as signals,
    ):
        while done < total and signals.received is None:
            given = {**constants, **data.at(done)}
            with finding_in(done + 1):
                outputs = call([given[name] for name in names])
            done, measured = done + 1, metrics.scalars(outputs)
            seconds = perf_counter() - began
            log.step(done, 1, seconds, measured)
            require_finite(point.name, measured, f"step {done}", settings)
            for name, array in outputs.items() if file else ():
                kept[name].append(array)
            bar.show(done, measured)
    seconds = perf_counter() - began
    written = file if signals.received is None else None
    if written:
        results = {
            leaf.name: _joined(leaf, kept[leaf.name], sizes) for leaf in point.outputs
        }
        arrays.write_npz(written, results)
    position = Position(point.name, 0, data.size, "", done, 0)
    return Result(
        position, seconds, 0, data.per_epoch, measured, None, signals.received, written
    )


def _require_purpose(point: EntryPoint, settings: Settings, file: Path | None) -> None:
    """Refuse options that mean nothing here, and work whose results nobody gets."""
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


def _require_even(
    point: EntryPoint, data: Batches, total: int, sizes: set[int | str]
) -> None:
    """Refuse a smaller last batch where the entry, or an output, does not take one."""
    short = data.rows % data.size
    if not short or total < data.per_epoch:
        return
    left = f"{data.rows} rows are no multiple of {data.size}: {short} are left over"
    if not all(isinstance(size, str) for size in sizes):
        raise InputError(
            "batch-size",
            f"{left}, and the entry {point.name!r} takes {data.size} at a time",
            hint=f"--steps {data.per_epoch - 1} leaves them out",
        )
    for leaf in point.outputs:
        if not _is_by_row(leaf, sizes) and any(isinstance(n, str) for n in leaf.shape):
            raise InputError(
                "batch-size",
                f"{left}, and results of two sizes of {leaf.name!r} cannot be put "
                "together",
                hint=f"choose a --batch-size that {data.rows} is a multiple of",
            )


def _is_by_row(leaf: Leaf, sizes: set[int | str]) -> bool:
    """Whether an output has a row for each row of a batch."""
    return bool(leaf.shape) and leaf.shape[0] in sizes


def _joined(leaf: Leaf, steps: Sequence[Array], sizes: set[int | str]) -> Array:
    return np.concatenate(steps) if _is_by_row(leaf, sizes) else np.stack(steps)
