"""Calls of one or several bundles, in rounds that take turns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from aotc.timing.messages import Budget, LoadedBundle, Round, TimedBundle
from aotc.timing.process import TimingProcess

_ROUNDS = 10
_WARM_UP = Budget(calls=3, seconds=0.2)


@dataclass(frozen=True)
class BundleMeasurement:
    """The timed rounds of calls of one bundle, after a warm-up."""

    subject: TimedBundle
    loaded: LoadedBundle
    warm_up: Round
    rounds: tuple[Round, ...]

    @property
    def times(self) -> list[int]:
        """Nanoseconds of every call, over all rounds."""
        return [time for each in self.rounds for time in each.times]

    @property
    def busy_processors(self) -> float:
        """Processor time over wall time: how many cores were busy on average."""
        wall = sum(each.wall_ns for each in self.rounds)
        return sum(each.processor_ns for each in self.rounds) / wall

    @property
    def page_faults(self) -> float:
        """Minor page faults for a call, on average."""
        return sum(each.page_faults for each in self.rounds) / len(self.times)


def measure(
    subjects: Sequence[TimedBundle],
    budget: Budget,
    begin: Callable[[str], None] = lambda _: None,
) -> list[BundleMeasurement]:
    """Time the calls of several bundles, each in its own process, in alternating
    rounds.

    Every other round goes through the bundles backwards, so that none is always the one
    that follows another. Each round begins with the first states.

    Args:
        subjects: what to load and call.
        budget: of each of them: so many calls, or as many as take so long.
        begin: is told what comes next, while nothing is measured.

    Raises:
        AotcError: as the loader and the calls raise it.
    """
    with ExitStack() as stack:
        begin("load")
        processes = [stack.enter_context(TimingProcess(each)) for each in subjects]
        begin("warm up")
        warm_up = [process.call(_WARM_UP) for process in processes]
        slowest = max(min(each.times) for each in warm_up)
        found: list[list[Round]] = [[] for _ in processes]
        order = list(range(len(processes)))
        shares = _budgets_of_rounds(budget, slowest)
        for turn, share in enumerate(shares, 1):
            begin(f"round {turn} of {len(shares)}")
            for number in order:
                found[number].append(processes[number].call(share))
            order.reverse()
        return [
            BundleMeasurement(subject, process.loaded, warm, tuple(rounds))
            for subject, process, warm, rounds in zip(
                subjects, processes, warm_up, found, strict=True
            )
        ]


def _budgets_of_rounds(budget: Budget, slowest: int) -> list[Budget]:
    """Split a budget into rounds: ten, or fewer if a call is slow.

    Args:
        budget: of all.
        slowest: nanoseconds of a call.
    """
    if not budget.seconds:
        rounds = min(budget.calls, _ROUNDS)
        less, more = divmod(budget.calls, rounds)
        return [Budget(less + (number < more)) for number in range(rounds)]
    fitting = int(budget.seconds * 1e9 / slowest)
    rounds = max(1, min(fitting, _ROUNDS))
    return [Budget(1, budget.seconds / rounds)] * rounds
