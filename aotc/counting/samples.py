"""Figures: numbers and distributions, with their labels."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from aotc.counting.families import FAMILIES, MetricFamily

Labels = Mapping[str, str]


class Distribution(NamedTuple):
    """The contents of a histogram: counts by bucket, and the sum of the values.

    Args:
        counts: how many values fell into each bucket, and above the last one.
        total: the sum of the values.
    """

    counts: tuple[int, ...]
    total: float

    def plus(self, other: Distribution) -> Distribution:
        """Return the sum of two distributions."""
        pairs = zip(self.counts, other.counts, strict=True)
        return Distribution(tuple(a + b for a, b in pairs), self.total + other.total)


class Sample(NamedTuple):
    """A value of a metric for one set of labels."""

    family: str
    labels: Labels
    value: float | Distribution

    @property
    def number(self) -> float:
        """The value; for a distribution, the number of observations."""
        if isinstance(self.value, Distribution):
            return sum(self.value.counts)
        return self.value


class Metric(NamedTuple):
    """A metric family with all its samples."""

    family: MetricFamily
    samples: tuple[Sample, ...]


Source = Callable[[], Iterable[Sample]]


class Totals:
    """Sums of samples by family and labels."""

    def __init__(self) -> None:
        self._values: dict[tuple[str, tuple[str, ...]], float | Distribution] = {}

    def add(self, samples: Iterable[Sample]) -> None:
        """Add samples to the sums."""
        for name, labels, value in samples:
            key = name, tuple(labels[label] for label in FAMILIES[name].labels)
            before = self._values.get(key)
            self._values[key] = value if before is None else _sum(before, value)

    def samples(self) -> list[Sample]:
        """Return the sums as samples."""
        return [
            Sample(name, dict(zip(FAMILIES[name].labels, labels, strict=True)), value)
            for (name, labels), value in self._values.items()
        ]

    def metrics(self) -> list[Metric]:
        """Return the sums by metric family, in the order of the table."""
        by_family: dict[str, list[Sample]] = {}
        for sample in self.samples():
            by_family.setdefault(sample.family, []).append(sample)
        return [
            Metric(family, tuple(by_family[name]))
            for name, family in FAMILIES.items()
            if name in by_family
        ]


def _sum(one: Any, other: Any) -> float | Distribution:
    """Return the sum of two numbers or distributions."""
    summed: float | Distribution = (
        one.plus(other) if isinstance(one, Distribution) else one + other
    )
    return summed
