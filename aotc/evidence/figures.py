"""Figures computed from the replays of a contender."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from aotc.core.json_values import JsonObject
from aotc.evidence.messages import FALLBACKS, PATHS, Way
from aotc.evidence.queueing import Queue, Times
from aotc.evidence.replay import ReplayMeasurement

_BOUND = 2.0  # times the slowest p99


@dataclass(frozen=True)
class ReplayLatency:
    """Percentiles and mean of call times in milliseconds, linearly interpolated."""

    p50: float
    p90: float
    p99: float
    mean: float

    @classmethod
    def of(cls, times: Times) -> ReplayLatency:
        """Compute the percentiles of call times, of which there is at least one."""
        p50, p90, p99 = (float(each) for each in np.percentile(times, [50, 90, 99]))
        return cls(p50, p90, p99, float(times.mean()))

    def to_json(self) -> dict[str, float]:
        """Return the percentiles by name."""
        return dict(vars(self))


@dataclass(frozen=True)
class Figures:
    """The latency, padding, cache hits and goodput of one contender's replays.

    Args:
        measured: its replays.
        latency: of warm calls, each by its median over the rounds; None if all were
            refused.
        least: the same by the quickest round of each call.
        shares: of calls, by their path.
        hit_rate: the share of calls whose code the first replay had called before.
        padding: elements added to those of calls, for each that they have.
        queue: of its warm calls; None if all were refused.
        goodput: calls a second, within the bound.
    """

    measured: ReplayMeasurement
    latency: ReplayLatency | None
    least: ReplayLatency | None
    shares: dict[str, float]
    hit_rate: float
    padding: float
    queue: Queue | None
    goodput: float

    @property
    def name(self) -> str:
        """The name of the contender."""
        return self.measured.contender.name

    @property
    def fallback(self) -> float:
        """The fraction of calls that no compiled code of the entry computes."""
        return sum(self.shares[path] for path in FALLBACKS)

    @property
    def cold_ms(self) -> float | None:
        """Milliseconds of the first call of the fresh process that was not refused."""
        times = self.measured.cold.times
        return next((time / 1e6 for time in times if time is not None), None)

    @property
    def slowest_cold_ms(self) -> float | None:
        """Milliseconds of the longest call in the first replay."""
        times = [time for time in self.measured.cold.times if time is not None]
        return max(times) / 1e6 if times else None

    @property
    def peak_memory(self) -> int | None:
        """The peak memory of the process in bytes."""
        return self.measured.rounds[-1].peak_memory

    def p99_at(self, rate: float) -> float:
        """Return the 99th percentile of latency in milliseconds at a rate of
        arrivals.
        """
        assert self.queue is not None
        return float(np.percentile(self.queue.latencies(rate), 99))

    def to_json(self) -> JsonObject:
        """Return all figures by name; times in milliseconds."""
        loaded, contender = self.measured.loaded, self.measured.contender
        agreement = self.measured.agreement
        return {
            "name": contender.name,
            "artifact": loaded.title,
            "variant": loaded.variant,
            "threads": loaded.threads,
            "build": contender.build.to_json() if contender.build else None,
            "codes": loaded.codes,
            "dispatches": loaded.dispatches,
            "partitions": loaded.partitions,
            "islands": loaded.islands,
            "artifact_bytes": loaded.artifact_bytes,
            "load_ms": loaded.load_ns / 1e6,
            "first_call_ms": self.cold_ms,
            "slowest_cold_call_ms": self.slowest_cold_ms,
            "compiles": self.measured.cold.compiles,
            "recompiles": dict(
                zip(("cold", "warm"), self.measured.recompiles, strict=True)
            ),
            "rounds": len(self.measured.rounds),
            "agreement": agreement.to_json() if agreement else None,
            "latency_ms": self.latency.to_json() if self.latency else None,
            "least_latency_ms": self.least.to_json() if self.least else None,
            "shares": self.shares,
            "fallback_share": self.fallback,
            "hit_rate": self.hit_rate,
            "padding_overhead": self.padding,
            "goodput_per_second": self.goodput,
            "capacity_per_second": self.queue.capacity if self.queue else 0.0,
            "memory_bytes": {"before_load": loaded.memory, "peak": self.peak_memory},
        }


def latency_bound(measured: Sequence[ReplayMeasurement]) -> float:
    """Return the default latency bound: twice the greatest warm p99, in milliseconds.

    Twice a median would be less than the longest calls of skewed traffic take by
    themselves, and no rate would do.
    """
    tails = [float(np.percentile(x.medians, 99)) for x in measured if len(x.medians)]
    return _BOUND * max(tails, default=0.0)


def figures_of(
    measured: ReplayMeasurement, order: Sequence[int], bound: float, seed: int
) -> Figures:
    """Compute the figures of one contender from its replays.

    Args:
        measured: its replays.
        order: of the calls, see `RequestSequence`.
        bound: milliseconds within which calls have to end.
        seed: of the arrivals.
    """
    times = measured.medians
    is_served = len(times) > 0
    queue = Queue.of(times.tolist(), seed) if is_served else None
    calls = [measured.cold.ways[place] for place in order]
    return Figures(
        measured=measured,
        latency=ReplayLatency.of(times) if is_served else None,
        least=ReplayLatency.of(measured.minima) if is_served else None,
        shares={path: _share(calls, path) for path in PATHS},
        hit_rate=_hit_rate(calls),
        padding=_padding(calls),
        queue=queue,
        goodput=queue.goodput(bound) if queue else 0.0,
    )


def _share(calls: Sequence[Way], path: str) -> float:
    """Return the fraction of calls that took this path."""
    return sum(call.path == path for call in calls) / len(calls)


def _hit_rate(calls: Sequence[Way]) -> float:
    """Return the fraction of calls whose code an earlier call had used."""
    served = [call.code for call in calls if call.code]
    return (len(served) - len({*served})) / len(calls)


def _padding(calls: Sequence[Way]) -> float:
    """Return the elements that padding adds, per element of the served calls."""
    served = [call for call in calls if call.code]
    given = sum(call.elements for call in served)
    return sum(call.added for call in served) / given if given else 0.0
