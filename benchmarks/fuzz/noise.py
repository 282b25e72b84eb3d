"""How far rounding can move the results of a program.

The reference is evaluated again with every floating-point result moved by a few units
in its last place, at random (Monte Carlo arithmetic: D. Stott Parker, 1997). Where the
results of such runs differ much, by cancellation or because a comparison, a floor or an
argmax stands on an edge, so may those of any two correct compilers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

from aotc import dtypes, reference

RUNS = 4
UNITS = 2  # in the last place

# Families of ops that only move or choose elements, and so round nothing.
EXACT = {
    "creation", "selection", "ordering", "shape", "slicing", "indexing", "dynamic",
    "effects", "windows", "collective", "bits",
}  # fmt: skip

Arrays = list[Any]


def noisy_runs(module: Any, name: str, inputs: Arrays) -> list[Arrays]:
    """The results of several runs with noise."""
    found = []
    for number in range(RUNS):
        rng = np.random.default_rng(number)

        def watch(op: Any, operands: Arrays, results: Arrays, rng: Any = rng) -> None:
            if getattr(type(op), "family", None) not in EXACT:
                results[:] = [moved(array, rng) for array in results]

        taken = [moved(array, rng) for array in inputs]
        found.append(reference.evaluate(module, name, taken, watch))
    return found


def moved(array: Any, rng: np.random.Generator) -> Any:
    """An array with noise in the last places of its floats."""
    dtype = dtypes.canonical(array.dtype)
    if not dtypes.is_float(dtype):
        return array
    unit = float(ml_dtypes.finfo(array.dtype).eps) * UNITS
    noise = 1 + unit * rng.uniform(-1, 1, array.shape)
    return np.asarray(array.astype("f8") * noise).astype(array.dtype)


def spreads(exact: Sequence[Any], noisy: Sequence[Arrays]) -> Arrays:
    """For each result, how far its elements move; infinitely if not by numbers."""
    return [
        _spread(array, [run[number] for run in noisy])
        for number, array in enumerate(exact)
    ]


def _spread(array: Any, runs: Arrays) -> Any:
    center = array.astype("f8")
    found = np.zeros(array.shape)
    for run in runs:
        other = run.astype("f8")
        with np.errstate(invalid="ignore"):
            apart = np.abs(other - center)
        same = (other == center) | (np.isnan(other) & np.isnan(center))
        found = np.maximum(found, np.where(same, 0, np.nan_to_num(apart, nan=np.inf)))
    return found
