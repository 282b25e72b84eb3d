"""The evidence: all figures of all contenders, and the conditions of measurement."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aotc import __version__
from aotc.core.json_values import JsonObject
from aotc.evidence.figures import Figures, figures_of, latency_bound
from aotc.evidence.peers.agreement import describe
from aotc.evidence.queueing import SHARE
from aotc.evidence.replay import ReplayMeasurement
from aotc.evidence.requests import RequestSequence
from aotc.traffic import Traffic

# of the rate at which a server is always busy
_UTILISATIONS = (0.02, *(n / 20 for n in range(1, 19)), 0.93, 0.95, 0.97)


@dataclass(frozen=True)
class Evidence:
    """The results of replaying traffic: figures of all contenders, machine, and
    settings.

    Args:
        source: the model, or the first bundle.
        entry: its name.
        traffic_file: where the traffic stands.
        traffic: recorded.
        requests: the calls that stand for it.
        seed: of their order, of inputs and of arrivals.
        machine: before the first call, as `timing.machine.description` tells it.
        bound: milliseconds within which calls have to end.
        is_bound_given: whether the user said so.
        figures: of each contender.
        left_out: why execution models that were not named are not among them.
    """

    source: str
    entry: str
    traffic_file: str
    traffic: Traffic
    requests: RequestSequence
    seed: int
    machine: Mapping[str, Any]
    bound: float
    is_bound_given: bool
    figures: tuple[Figures, ...]
    left_out: tuple[str, ...] = ()

    @property
    def baseline(self) -> Figures:
        """The contender that ratios refer to: the execution model `dynamic`, else the
        first.
        """
        named = (each for each in self.figures if each.name == "dynamic")
        return next(named, self.figures[0])

    def ratio(self, figures: Figures) -> float | None:
        """Return the warm p50 of a contender over that of the baseline."""
        if figures.latency is None or self.baseline.latency is None:
            return None
        return figures.latency.p50 / self.baseline.latency.p50

    def latency_over_rate(self, figures: Figures) -> list[dict[str, float]]:
        """Return rows of arrival `rate` and `p99` latency of a contender; none if all
        was refused.
        """
        if figures.queue is None:
            return []
        rates = [share * figures.queue.capacity for share in _UTILISATIONS]
        return [{"rate": rate, "p99": figures.p99_at(rate)} for rate in rates]

    @property
    def warnings(self) -> list[str]:
        """The warnings of loading, without duplicates."""
        said = (text for x in self.figures for text in x.measured.loaded.warnings)
        return list(dict.fromkeys(said))

    def notes(self) -> Iterator[str]:
        """Yield notes on reading the figures."""
        whose = "as asked for" if self.is_bound_given else "twice the slowest warm p99"
        yield (
            f"goodput: calls a second of which {SHARE:.0%} end within {self.bound:.4g} "
            f"ms ({whose}). Service times are measured; arrivals are simulated: "
            "Poisson, open loop, one server in order of arrival (Lindley 1952)"
        )
        yield (
            "warm calls: each request by its median over the rounds, which take turns; "
            "hit rate: calls whose code the process had called before"
        )
        yield from self.left_out
        yield from self._notes_of_peers()
        for each in self.figures:
            yield from _notes_of(each)
        load, cores = self.machine["load_average"], self.machine["cores_logical"]
        if load is not None and cores and load + 1 > cores + 0.5:
            yield (
                f"the machine was busy before the first call: {load} processes on "
                f"average wanted its {cores} processors"
            )

    def _notes_of_peers(self) -> Iterator[str]:
        """Yield notes on the comparison with peers, and on differing thread counts."""
        found = [
            (each.name, each.measured.agreement)
            for each in self.figures
            if each.measured.agreement is not None
        ]
        if not found:
            return
        yield describe(found)
        counts = {x.name: x.measured.loaded.threads for x in self.figures}
        most = max(count or 0 for count in counts.values())
        for name, count in counts.items():
            if count is not None and count < most:
                yield (
                    f"{name} computes with {count} of {most} threads: its calls are "
                    "too small for more"
                )

    def to_json(self) -> JsonObject:
        """Return the document of schema `aotc.evidence/1`; times in milliseconds."""
        return {
            "schema": "aotc.evidence/1",
            "aotc": __version__,
            "source": self.source,
            "entry": self.entry,
            "traffic": {
                "file": self.traffic_file,
                "calls": self.traffic.calls,
                "distinct_sizes": len(self.traffic.counts),
                "symbols": list(self.traffic.symbols),
            },
            "requests": len(self.requests.order),
            "seed": self.seed,
            "machine": dict(self.machine),
            "latency_bound_ms": self.bound,
            "latency_bound_given": self.is_bound_given,
            "share_in_time": SHARE,
            "baseline": self.baseline.name,
            "contenders": [
                {
                    **each.to_json(),
                    "p50_over_baseline": self.ratio(each),
                    "latency_over_rate": self.latency_over_rate(each),
                }
                for each in self.figures
            ],
            "notes": list(self.notes()),
        }


def _notes_of(figures: Figures) -> Iterator[str]:
    """Yield remarks on one contender, such as calls that it refused."""
    name, refused = figures.name, figures.shares["refused"]
    if refused:
        yield (
            f"{name} refuses {refused:.1%} of the calls: its figures are of the others"
        )
    if islands := figures.measured.loaded.islands:
        yield (
            f"{name} has a region of a hybrid program: what Python computes in its "
            f"{islands} islands is not replayed"
        )


def evidence_of(
    measured: Sequence[ReplayMeasurement], bound: float | None, **facts: Any
) -> Evidence:
    """Compute the figures of all contenders; return them as `Evidence`.

    Args:
        measured: of each contender.
        bound: milliseconds within which calls have to end; None for the default.
        facts: the other fields of `Evidence`.
    """
    within = latency_bound(measured) if bound is None else bound
    order, seed = facts["requests"].order, facts["seed"]
    return Evidence(
        **facts,
        bound=within,
        is_bound_given=bound is not None,
        figures=tuple(figures_of(each, order, within, seed) for each in measured),
    )
