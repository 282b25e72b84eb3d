"""The registry: counters and histograms by name and labels, and sources of figures.

A counter that is met now and then is asked for by name and added to. What is counted at
every call has its own plain integers, and attaches a function that tells them when they
are asked for.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

from aotc.counting import document, openmetrics
from aotc.counting.families import FAMILIES, Kind, MetricFamily
from aotc.counting.samples import (
    Distribution,
    Labels,
    Metric,
    Sample,
    Source,
    Totals,
)
from aotc.errors import InputError

_Cell = TypeVar("_Cell", "Counter", "Histogram")


class Counter:
    """A monotonic counter metric; thread-safe."""

    def __init__(self, family: MetricFamily) -> None:
        self._lock = threading.Lock()
        self.value: float = 0

    def add(self, amount: float = 1) -> None:
        """Increase the counter by an amount.

        Raises:
            ValueError: the amount is negative.
        """
        if amount < 0:
            raise ValueError(f"a counter never falls, got {amount}")
        with self._lock:
            self.value += amount


class Histogram:
    """A histogram metric: counts of observed values by bucket; thread-safe."""

    def __init__(self, family: MetricFamily) -> None:
        self._lock = threading.Lock()
        self._bounds = family.bounds
        self._counts = [0] * (len(family.bounds) + 1)
        self._total = 0.0

    @property
    def value(self) -> Distribution:
        """The current counts and sum."""
        with self._lock:
            return Distribution(tuple(self._counts), self._total)

    def observe(self, value: float) -> None:
        """Add an observed value, in the unit of the family."""
        with self._lock:
            self._counts[bisect_left(self._bounds, value)] += 1
            self._total += value


class Registry:
    """The metrics of a process, by the names of `aotc.counting.families`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cells: dict[tuple[str, tuple[str, ...]], Counter | Histogram] = {}
        self._sources: list[Source] = []
        # A source ends where garbage is collected, at any line of any thread, and must
        # wait for no lock there.
        self._ended: deque[Source] = deque()
        self._kept = Totals()

    def __repr__(self) -> str:
        return "<Registry: see to_openmetrics()>"

    def counter(self, name: str, labels: Labels | None = None) -> Counter:
        """Return the counter of a name and labels; create it on first use.

        Args:
            name: of a family of counters, such as `cache_hits`.
            labels: a text for each label of the family.

        Raises:
            InputError: `unknown-counter`.
        """
        return self._cell(Counter, "counter", name, labels or {})

    def histogram(self, name: str, labels: Labels | None = None) -> Histogram:
        """Return the histogram of a name and labels; create it on first use.

        Args:
            name: of a family of histograms, such as `compile_duration_seconds`.
            labels: a text for each label of the family.

        Raises:
            InputError: `unknown-counter`.
        """
        return self._cell(Histogram, "histogram", name, labels or {})

    def attach(self, source: Source) -> None:
        """Register a function that is called for samples whenever metrics are read."""
        with self._lock:
            self._fold_ended()
            self._sources.append(source)

    def detach(self, source: Source) -> None:
        """Unregister a source; its last samples go into the totals before the next
        reading.
        """
        self._ended.append(source)

    def metrics(self) -> list[Metric]:
        """Return all metrics with samples, in the order of the table."""
        found = Totals()
        with self._lock:
            self._fold_ended()
            found.add(self._kept.samples())
            sources, cells = list(self._sources), list(self._cells.items())
        for (name, values), cell in cells:
            labels = dict(zip(FAMILIES[name].labels, values, strict=True))
            found.add([Sample(name, labels, cell.value)])
        for source in sources:
            found.add(source())
        return found.metrics()

    def value(self, name: str, **labels: str) -> float:
        """Return the sum of a metric's samples that have these labels; 0 without any.

        Of a histogram it is how many values there were.

        Raises:
            InputError: `unknown-counter`.
        """
        family = _family(name, labels)
        return sum(
            sample.number
            for metric in self.metrics()
            for sample in metric.samples
            if metric.family is family and labels.items() <= sample.labels.items()
        )

    def to_json(self) -> dict[str, object]:
        """Return all metrics as a document of the schema `aotc.counters/1`."""
        return document.of_metrics(self.metrics())

    def to_openmetrics(self) -> str:
        """Return all metrics as text in the OpenMetrics 1.0 format."""
        return openmetrics.of_metrics(self.metrics())

    def _cell(
        self,
        make: Callable[[MetricFamily], _Cell],
        kind: Kind,
        name: str,
        labels: Labels,
    ) -> _Cell:
        """Return the metric object of a name and labels; create it on first use."""
        family = _family(name, labels)
        if family.kind != kind or labels.keys() != set(family.labels):
            raise _usage_error(family)
        key = name, tuple(str(labels[label]) for label in family.labels)
        with self._lock:
            cell: Any = self._cells.setdefault(key, make(family))
        found: _Cell = cell
        return found

    def _fold_ended(self) -> None:
        """Add the samples of detached sources to the totals, and remove the sources."""
        while self._ended:
            source = self._ended.popleft()
            self._kept.add(source())
            self._sources.remove(source)


def _family(name: str, labels: Labels) -> MetricFamily:
    """Return the family of a name; refuse unknown names and labels."""
    if name not in FAMILIES:
        raise InputError(
            "unknown-counter",
            f"expected the name of something that aotc counts, got {name!r}",
            hint=f"one of {', '.join(FAMILIES)}",
        )
    if not labels.keys() <= set(FAMILIES[name].labels):
        raise _usage_error(FAMILIES[name])
    return FAMILIES[name]


def _usage_error(family: MetricFamily) -> InputError:
    """Return the error for a metric used as another kind or with other labels."""
    labels = ", ".join(family.labels) or "none"
    return InputError(
        "unknown-counter",
        f"{family.name!r} is a {family.kind} with the labels {labels}; got another "
        "kind or other labels",
        hint="the table is aotc.counting.families",
    )
