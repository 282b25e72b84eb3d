"""Times of all systems on one model, in rounds."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass, field

from .worker import Worker

REST = 0.05  # seconds before a slice: idle threads of the last system stop spinning
MOST_CALLS = 200


@dataclass
class Times:
    """The seconds of one system's calls, by round."""

    rounds: list[list[float]] = field(default_factory=list)

    @property
    def calls(self) -> list[float]:
        """The number of calls of all rounds."""
        return [seconds for calls in self.rounds for seconds in calls]

    @property
    def median(self) -> float:
        """The median of all calls."""
        return statistics.median(self.calls)

    @property
    def minimum(self) -> float:
        """The minimum of all calls."""
        return min(self.calls)

    def percentile(self, share: int) -> float:
        """Return the time within which `share` % of all calls end."""
        ordered = sorted(self.calls)
        return ordered[min(len(ordered) * share // 100, len(ordered) - 1)]

    def ratio(self, other: Times) -> float:
        """Return the median over rounds of the ratio of both systems' medians."""
        pairs = zip(self.rounds, other.rounds, strict=True)
        return statistics.median(
            statistics.median(mine) / statistics.median(theirs)
            for mine, theirs in pairs
        )


def alternate(
    workers: dict[str, Worker], rounds: int, seconds: float, clock: str
) -> dict[str, Times]:
    """Time all systems in turns, round by round; return the times of each.

    In each round every system computes for about `seconds`, and each round begins with
    another one. `clock` is `wall`, or `processor` for the time that a process computes.
    There may be no system whose results are right.
    """
    counts = {
        name: max(1, min(MOST_CALLS, round(seconds / min(worker.run(2, clock)))))
        for name, worker in workers.items()
    }
    times = {name: Times() for name in workers}
    names = list(workers)
    for number in range(rounds):
        first = number % max(1, len(names))
        for name in names[first:] + names[:first]:
            time.sleep(REST)
            times[name].rounds.append(workers[name].run(counts[name], clock))
    return times
