"""`python -m aotc.timing.serve PARENT`: the other side of `process`.

The first message says what to load and call, every other one how often.
"""

from __future__ import annotations

import gc
import resource
import time
import warnings
from collections.abc import Callable
from typing import Any

from aotc.artifacts.trust import Trust
from aotc.counting.memory import memory
from aotc.errors import InputError
from aotc.processes.answering import answer_parent
from aotc.runtime import Model, engine, load
from aotc.runtime.small import is_small
from aotc.timing.messages import Budget, LoadedBundle, Round, TimedBundle


class Caller:
    """A loaded entry with its inputs and initial states, to be timed in this process.

    Raises:
        AotcError: as `aotc.load`, `load_state` and the first call raise it.
    """

    def __init__(self, subject: TimedBundle) -> None:
        before = memory()["resident"]
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            start = time.perf_counter_ns()
            self.model = load_subject(subject)
            loading = time.perf_counter_ns() - start
        entry = self.model.entry(subject.entry)
        leaves = [_input(subject, leaf.name) for leaf in entry.spec.inputs]
        self._call: Callable[[], Any] = lambda: entry.call_flat(leaves)
        if subject.states is not None:
            self.model.load_state(subject.states)
        updates = entry.spec.updates
        self._states = {
            name: self.model.read_state(name)
            for name in updates
            if name in self.model.manifest.states
        }
        after = memory()["resident"]
        variant = self.model.variant
        self.loaded = LoadedBundle(
            name=self.model.manifest.name,
            version=self.model.manifest.version,
            digest=self.model.manifest.identity,
            compiler=self.model.manifest.compiler_version,
            runtime=engine.iree_version(),
            variant=variant.id,
            threads=threads_of(self.model, subject.threads),
            fallback=self.model.selection.fallback,
            states=tuple(self._states),
            load_ns=loading,
            first_call_ns=self.times(Budget(calls=1)).times[0],
            memory_before_load=before,
            memory_after_load=after,
            warnings=tuple(str(each.message) for each in caught),
        )

    def times(self, budget: Budget) -> Round:
        """Reset the states and time calls until the budget is spent; return the
        round.
        """
        for name, tree in self._states.items():
            self.model.write_state(tree, name)
        gc.collect()
        gc.disable()
        try:
            faults = _page_faults()
            start, used = time.perf_counter_ns(), time.process_time_ns()
            times = _times(self._call, budget, start)
            wall = time.perf_counter_ns() - start
            used = time.process_time_ns() - used
            faults = _page_faults() - faults
        finally:
            gc.enable()
        found = memory()
        return Round(times, wall, used, faults, found["resident"], found["peak"])


def _page_faults() -> int:
    """Return the minor page faults of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def _times(call: Callable[[], object], budget: Budget, start: int) -> list[int]:
    """Call until the budget is spent, at least once; return the nanoseconds of each
    call.
    """
    clock = time.perf_counter_ns
    end = start + int(budget.seconds * 1e9)
    times: list[int] = []
    while True:
        before = clock()
        call()
        after = clock()
        times.append(after - before)
        if len(times) >= budget.calls and after >= end:
            return times


def load_subject(subject: TimedBundle) -> Model:
    """Load and return the bundle of a `TimedBundle`, with its options.

    Raises:
        AotcError: as `aotc.load` raises it.
    """
    return load(
        subject.bundle,
        trust=Trust.of(*subject.keys) if subject.keys else None,
        allow_unsigned=subject.allow_unsigned,
        threads=subject.threads,
        target=subject.target,
        fallback=subject.fallback,
    )


def threads_of(model: Model, asked: int | None) -> int | None:
    """Return the number of threads that a model computes with; None on an accelerator.

    Args:
        model: that is loaded.
        asked: as `aotc.load` was asked.
    """
    variant = model.variant
    meant = engine.threads(variant.backend, asked)
    small = is_small(model.manifest, variant, meant)
    return engine.threads(variant.backend, asked, is_small=small)


def _input(subject: TimedBundle, name: str) -> Any:
    """Return the array for an input; refuse if the bundles share none of that name."""
    if name in subject.inputs:
        return subject.inputs[name]
    raise InputError(
        "missing-input",
        f"{subject.entry}: expected the inputs that the bundles share "
        f"({', '.join(subject.inputs) or 'none'}), {name} is missing",
        where=subject.bundle,
    )


def main() -> None:
    """Serve timing requests of the parent process named on the command line."""
    answer_parent(Caller, lambda caller: caller.loaded, Caller.times)


if __name__ == "__main__":
    main()
