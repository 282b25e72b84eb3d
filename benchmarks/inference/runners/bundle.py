"""aotc: a bundle with the entry `main`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

import aotc


def load(
    artifact: Path, inputs: dict[str, np.ndarray], threads: int
) -> Callable[[], list[np.ndarray]]:
    """A call through the loader; what the bundle keeps itself is not given to it."""
    main = aotc.load(artifact, allow_unsigned=True, threads=threads).entry("main")
    taken = {leaf.name: inputs[leaf.name] for leaf in main.spec.inputs}

    def call() -> list[np.ndarray]:
        results = main(**taken)
        if not isinstance(results, (list, tuple)):
            results = [results]
        return [np.asarray(each) for each in results]

    return call
