"""aotc: a bundle with the entry `main`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

import aotc


def load(
    artifact: Path, inputs: dict[str, np.ndarray], threads: int
) -> Callable[[], list[np.ndarray]]:
    """A call through the loader."""
    main = aotc.load(artifact, allow_unsigned=True, threads=threads).entry("main")

    def call() -> list[np.ndarray]:
        results = main(**inputs)
        if not isinstance(results, (list, tuple)):
            results = [results]
        return [np.asarray(each) for each in results]

    return call
