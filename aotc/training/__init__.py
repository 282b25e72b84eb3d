"""Training and inference over data, on a device that has no compiler.

    from aotc import training

    model = aotc.load("digits-1.0.0.aotc")
    history = training.fit(model, {"images": x, "labels": y}, epochs=5, checkpoint="ck")
    digits = training.map_batches(model, {"images": x}, entry="evaluate", batch_size=64)

`fit` calls the entry that trains with one batch after the other: order of the rows,
metrics, checkpoints, validation with other data (`Validation`), and going on after a
stop to the same bits. `map_batches` collects the results of an entry that updates no
state. `aotc run --loop` is these two.

Needs what `aotc.runtime` needs, and nothing of the compiler.
"""

from __future__ import annotations

from aotc.training.history import History, Step, Validated
from aotc.training.interrupts import Interrupted
from aotc.training.loop import fit
from aotc.training.mapping import map_batches
from aotc.training.validation import Validation

__all__ = [
    "fit",
    "map_batches",
    "Validation",
    "History",
    "Step",
    "Validated",
    "Interrupted",
]
