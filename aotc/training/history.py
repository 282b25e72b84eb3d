"""Records of a loop: each step as it is done, and all of them at the end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aotc.training.entries import Array


@dataclass(frozen=True)
class Step:
    """The metrics and result of one training step.

    Args:
        step: its number, from 1; a resumed loop counts on.
        total: the number of the last step; None for a stream without an end in sight.
        epoch: the pass over the data that it is in, from 1.
        seconds: from the start of the loop, breaks of resumed runs left out.
        metrics: the outputs without dimensions by name, as Python numbers.
        result: what the entry returned, in its structure; arrays of the declared
            dtypes.
    """

    step: int
    total: int | None
    epoch: int
    seconds: float
    metrics: Mapping[str, Any]
    result: Any


@dataclass(frozen=True)
class Validated:
    """The mean outputs of one validation, made between two training steps.

    Args:
        step: after which; counts from 1.
        epoch: that this step was in, from 1.
        means: over all rows, by name; of the best one before a resumed run only what
            is monitored.
    """

    step: int
    epoch: int
    means: Mapping[str, float]


@dataclass(frozen=True)
class History:
    """The history of a loop up to its current step.

    Args:
        entry: the entry that was called.
        steps: how many steps are done, those before a resumed run included.
        began_at: how many were done when this run began.
        steps_per_epoch: batches in a pass over the data; None for a stream.
        batch_size: rows in a batch; None for batches of the caller's own.
        seed: of the order of the rows.
        seconds: what all steps took that the file of metrics knows of, else those of
            this run.
        metrics: by name of an output without dimensions, an array of its dtype with an
            element for each step of this run.
        checkpoint: the file that was written last; None without checkpoints.
        means: over all rows, of an entry that updates no state: by name of an output
            with a number for each batch (which is taken for the mean of its rows) or
            row.
        rows: of which these are the means.
        validations: between the steps of this run, in their order.
        best: the best of all validations, those before a resumed run included.
        ended_early: whether the loop ended because validations no longer improved.
    """

    entry: str
    steps: int
    began_at: int
    steps_per_epoch: int | None
    batch_size: int | None
    seed: int
    seconds: float
    metrics: Mapping[str, Array]
    checkpoint: Path | None
    means: Mapping[str, float] = field(default_factory=dict)
    rows: int = 0
    validations: Sequence[Validated] = ()
    best: Validated | None = None
    ended_early: bool = False
