"""aotc: a bundle with one entry."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

import aotc


def load(
    artifact: Path, inputs: dict[str, np.ndarray], threads: int
) -> Callable[[], list[np.ndarray]]:
    """Return a function that calls the bundle through aotc's loader."""
    model = aotc.load(artifact, allow_unsigned=True, threads=threads)
    [name] = model.manifest.entry_points
    entry = model.entry(name)
    taken = {leaf.name: inputs[leaf.name] for leaf in entry.spec.inputs}

    def call() -> list[np.ndarray]:
        results = entry(**taken)
        if not isinstance(results, (list, tuple)):
            results = [results]
        return [np.asarray(each) for each in results]

    return call
