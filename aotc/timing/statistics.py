"""Statistics of call times: percentiles, and ratios with their noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median, pstdev

import numpy as np

from aotc.core.json_values import JsonObject

_MS = 1e6  # nanoseconds
_LEAST_ROUNDS = 6


@dataclass(frozen=True)
class Latency:
    """Statistics of call times (least, percentiles, greatest) in milliseconds.

    Percentiles are interpolated linearly between the two nearest calls, so that of few
    calls the high ones say little more than `max`.
    """

    count: int
    min: float
    p50: float
    p90: float
    p99: float
    max: float
    mean: float
    std: float

    @classmethod
    def of(cls, times: Sequence[int]) -> Latency:
        """Return the statistics of the times of at least one call, in nanoseconds."""
        calls = [time / _MS for time in times]
        p50, p90, p99 = (float(each) for each in np.percentile(calls, [50, 90, 99]))
        mean, std = fmean(calls), pstdev(calls)
        return cls(len(calls), min(calls), p50, p90, p99, max(calls), mean, std)

    def to_json(self) -> dict[str, float]:
        """Return the figures by name."""
        return dict(vars(self))


@dataclass(frozen=True)
class TimeRatio:
    """The ratio of call times of one bundle to those of another.

    Args:
        ratio: of the medians of all calls.
        ratio_of_minima: of the quickest calls, which other processes disturb least.
        low: the least ratio of the medians of two rounds that came one after the other.
        high: the greatest.
        rounds: how many pairs of them there are.
    """

    ratio: float
    ratio_of_minima: float
    low: float
    high: float
    rounds: int

    @classmethod
    def of(
        cls, rounds: Sequence[Sequence[int]], others: Sequence[Sequence[int]]
    ) -> TimeRatio:
        """Return the ratios of call times of one bundle to another's, round by
        round.
        """
        pairs = [
            median(ours) / median(theirs)
            for ours, theirs in zip(rounds, others, strict=True)
        ]
        ours, theirs = (_concatenate(each) for each in (rounds, others))
        return cls(
            median(ours) / median(theirs),
            min(ours) / min(theirs),
            min(pairs),
            max(pairs),
            len(pairs),
        )

    @property
    def is_noise(self) -> bool:
        """Return whether the difference may be noise: too few rounds, or no side won
        all.

        Of two equal bundles one wins six pairs by chance in 3 % of cases (sign test),
        ten in 0.2 %.
        """
        return self.rounds < _LEAST_ROUNDS or self.low <= 1 <= self.high

    def to_json(self) -> JsonObject:
        """Return the figures by name."""
        return {**vars(self), "within_noise": self.is_noise}


def _concatenate(rounds: Sequence[Sequence[int]]) -> list[int]:
    """Return the times of all rounds in one list."""
    return [time for each in rounds for time in each]
