"""What a loop tells of itself: each step as it is done, and all of them at the end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aotc.training.entries import Array


@dataclass(frozen=True)
class Step:
    """One call of the entry, with one batch.

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
class History:
    """What a loop did, and how far it is.

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
