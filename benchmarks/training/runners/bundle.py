"""aotc: the entry of a bundle that trains."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from settling import settled

import aotc


def load(
    artifact: Path, inputs: dict[str, np.ndarray], threads: int
) -> Callable[[], list[np.ndarray]]:
    """Return a function that runs a training step through aotc's loader."""
    model = aotc.load(artifact, allow_unsigned=True, threads=threads)
    [name] = [name for name in model.manifest.entry_points if name != "settled"]
    step = settled(model, name, threads)
    return lambda: [np.asarray(step(**inputs))]
