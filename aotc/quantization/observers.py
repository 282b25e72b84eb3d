"""Observers of the inputs of layers, and the ranges that calibration derives.

A histogram has bins around zero whose width doubles when a value lies outside, by
which neighbours are added up: it is the same however the data is cut into calls.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from aotc.programs.computed_arrays import Array
from aotc.quantization.grids import InputGrid, fake_input

_BINS = 4096  # half of them on each side of zero
_SHARES = np.geomspace(1.0, 0.01, 120)  # of the whole range
METHODS = ("min-max", "percentile", "mean-square", "entropy")


@dataclass
class ValueHistogram:
    """A histogram of numbers in bins around zero, with the least and the greatest
    number.
    """

    low: float = 0.0
    high: float = 0.0
    end: float = 0.0  # of the last bin; a power of two
    counts: Array = field(default_factory=lambda: np.zeros(_BINS, np.int64))

    def add(self, x: Array) -> None:
        """Add the finite elements of an array to the histogram."""
        values = np.asarray(x, np.float32).reshape(-1)
        values = values[np.isfinite(values)]
        if not values.size:
            return
        self.low = min(self.low, float(values.min()))
        self.high = max(self.high, float(values.max()))
        self._widen(max(-self.low, self.high))
        if self.end:
            width = np.float32(2 * self.end / _BINS)  # by which nothing is rounded
            bins = np.floor(values / width).astype(np.int64) + _BINS // 2
            self.counts += np.bincount(np.minimum(bins, _BINS - 1), minlength=_BINS)
        else:  # nothing but zeros so far
            self.counts[_BINS // 2] += values.size

    def _widen(self, most: float) -> None:
        """Double the range of the bins, merging neighbours, until it holds `most`."""
        if most and not self.end:
            self.end = 2.0 ** math.ceil(math.log2(most))
        while self.end < most:
            pairs = self.counts.reshape(-1, 2).sum(axis=1)
            self.counts[:] = 0
            self.counts[_BINS // 4 : -_BINS // 4] = pairs
            self.end *= 2

    @property
    def centres(self) -> Array:
        """Middle of each bin."""
        return ((np.arange(_BINS) + 0.5) / (_BINS / 2) - 1) * self.end


def input_grid(histogram: ValueHistogram, method: str, percentile: float) -> InputGrid:
    """Return the scale and zero point of an input by a calibration method.

    Args:
        histogram: of the data.
        method: `min-max` takes all; `percentile` so many of a hundred; `mean-square`
            the range with the least mean square error; `entropy` the one whose
            distribution is nearest (Migacz, "8-bit inference with TensorRT", 2017).
        percentile: for the method of that name.
    """
    if method == "min-max" or not histogram.end:
        return InputGrid.of(histogram.low, histogram.high)
    if method == "percentile":
        return InputGrid.of(*_percentiles(histogram, percentile))
    cost = _square_error if method == "mean-square" else _divergence
    grids = [
        InputGrid.of(histogram.low * share, histogram.high * share) for share in _SHARES
    ]
    costs = [cost(histogram, grid) for grid in grids]
    return grids[int(np.argmin(costs))]


def _percentiles(histogram: ValueHistogram, percentile: float) -> tuple[float, float]:
    """Return the central range that holds `percentile` percent of the numbers."""
    total = histogram.counts.cumsum()
    beyond = total[-1] * (1 - percentile / 100) / 2
    width = 2 * histogram.end / _BINS
    first = int(np.searchsorted(total, beyond, side="right"))
    last = int(np.searchsorted(total, total[-1] - beyond, side="left"))
    low, high = first * width - histogram.end, (last + 1) * width - histogram.end
    return max(low, histogram.low), min(high, histogram.high)


def _square_error(histogram: ValueHistogram, grid: InputGrid) -> float:
    """Return the summed square error of quantising the numbers of a histogram."""
    centres = histogram.centres
    return float(
        (histogram.counts * np.square(fake_input(centres, grid) - centres)).sum()
    )


def _divergence(histogram: ValueHistogram, grid: InputGrid) -> float:
    """Return the KL divergence of a histogram from its quantised version."""
    held = histogram.counts > 0
    levels = np.round(fake_input(histogram.centres, grid) / grid.scale).astype(np.int64)
    levels -= levels.min()
    inside = (
        np.abs(fake_input(histogram.centres, grid) - histogram.centres) <= grid.scale
    )
    kept = np.where(inside, histogram.counts, 0).astype(np.float64)
    bins = np.bincount(levels[held & inside], minlength=int(levels.max()) + 1)
    mass = np.bincount(levels, weights=kept, minlength=bins.size)
    spread = np.where(held & inside, (mass / np.maximum(bins, 1))[levels], 0)
    ends = np.where(held & ~inside, histogram.counts, 0)
    reference = kept.copy()  # what is beyond counts at the ends of the range
    where = np.flatnonzero(inside & held)
    if not where.size:
        return math.inf
    middle = histogram.centres < 0
    reference[where[0]] += ends[middle].sum()
    reference[where[-1]] += ends[~middle].sum()
    p, q = reference / reference.sum(), spread / spread.sum()
    both = (p > 0) & (q > 0)
    return float((p[both] * np.log(p[both] / q[both])).sum())
