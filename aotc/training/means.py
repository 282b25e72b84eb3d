"""Means of an entry's outputs over the rows of a data set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from aotc.training.entries import Array


class Means:
    """Running means over rows of some outputs.

    An output without dimensions is taken for the mean of its batch, and counts as often
    as that has rows; one with a number for each row counts row by row.

    Args:
        names: of the outputs.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self.rows = 0
        self._sums = dict.fromkeys(names, 0.0)

    def add(self, rows: int, outputs: Mapping[str, Array]) -> None:
        """Add the outputs of a batch with `rows` rows."""
        self.rows += rows
        for name in self._sums:
            array = np.asarray(outputs[name])
            values = array.astype(np.float64)
            self._sums[name] += float(values.sum() if array.ndim else values * rows)

    def values(self) -> dict[str, float]:
        """Return the mean of each output; empty without rows."""
        if not self.rows:
            return {}
        return {name: total / self.rows for name, total in self._sums.items()}
