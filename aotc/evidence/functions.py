"""Makes the calls of a replay on a function of a model.py: by `aotc.jit`, or eager."""

from __future__ import annotations

import time
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from aotc.core.pytree import PyTree, flatten
from aotc.counting.memory import memory
from aotc.dialects.functions.entries import Entry
from aotc.evidence.collecting import collector_paused
from aotc.evidence.entry_points import entry_point_of
from aotc.evidence.messages import (
    ANY,
    EAGER,
    OWN,
    LoadedContender,
    Outputs,
    Replayed,
    ReplayOrder,
    Way,
)
from aotc.importers import python
from aotc.just_in_time import JitFunction, jit
from aotc.timing.inputs import arrays_for
from aotc.timing.messages import TimedBundle
from aotc.tracing.entry import EntryFunction, Frozen, StoredTree, parameter_sources


class _FunctionPlayer:
    """Replays calls of a Python function of a model.py, with inputs for each size."""

    title = ""
    partitions = 0

    def __init__(self, order: ReplayOrder) -> None:
        subject = order.subject
        self._before = memory()["resident"]
        start = time.perf_counter_ns()
        path, (declared, entry) = Path(subject.bundle), _entry(subject)
        self._loading = time.perf_counter_ns() - start
        point = entry_point_of(entry)
        self._outputs = [leaf.name for leaf in point.outputs]
        self._calls = [
            entry.input_tree.unflatten([arrays[leaf.name] for leaf in point.inputs])
            for sizes in order.requests.sizes
            for arrays in [arrays_for(point, sizes, {}, order.seed)]
        ]
        self._elements = [
            sum(prod(array.shape) for array in arrays_for(point, each, {}, 0).values())
            for each in order.requests.sizes
        ]
        self._order = order.requests.order
        self._declared, self._path = declared, path
        self.prepare(subject.threads)
        self.loaded = LoadedContender(
            title=f"{path.name}:{entry.name}, {self.title}",
            variant=self.title,
            threads=subject.threads,
            codes=None,
            dispatches=None,
            artifact_bytes=0,
            load_ns=self._loading,
            memory=self._before,
            warnings=(),
            partitions=self.partitions,
        )

    def prepare(self, threads: int | None) -> None:
        """Prepare the function that `call` calls, with `threads` to compute in; by
        default nothing.
        """

    def call(self, inputs: Mapping[str, object]) -> PyTree:
        """Call the function with these inputs; return its result."""
        raise NotImplementedError

    def last_code(self) -> tuple[str, str]:
        """Return the kind of code (one of `PATHS`) that the last call ran, and its
        name.
        """
        raise NotImplementedError

    @property
    def compiles(self) -> int:
        """The number of calls that have waited for a compiler so far."""
        return 0

    def play(self) -> Replayed:
        """Time all calls of the replay in order; return times, code, compiles and peak
        memory.
        """
        before, clock = self.compiles, time.perf_counter_ns
        codes: dict[int, tuple[str, str]] = {}
        times = []
        with collector_paused():
            for place in self._order:
                start = clock()
                self.call(self._calls[place])
                times.append(clock() - start)
                codes[place] = self.last_code()
        ways = tuple(
            Way(*codes[place], elements)
            for place, elements in enumerate(self._elements)
        )
        return Replayed(tuple(times), ways, self.compiles - before, memory()["peak"])

    def outputs(self, place: int) -> Outputs:
        """Return the outputs of a call with the inputs at index `place`, by name."""
        found = map(np.asarray, flatten(self.call(self._calls[place]))[0])
        return tuple(zip(self._outputs, found, strict=True))


class JitPlayer(_FunctionPlayer):
    """Replays calls through `aotc.jit`, which chooses symbolic sizes itself."""

    title = "jit"
    partitions = 1

    def prepare(self, threads: int | None) -> None:
        """Wrap the function in `jit`; nothing is compiled yet."""
        stored: dict[str, Any] = {
            name: source
            for name, source in parameter_sources(self._declared).items()
            if isinstance(source, (StoredTree, Frozen))
        }
        self._function: JitFunction = jit(
            self._declared.function, threads=threads, **stored
        )

    def call(self, inputs: Mapping[str, object]) -> PyTree:
        """Call the compiled function."""
        return self._function(**inputs)

    @property
    def compiles(self) -> int:
        """The number of calls that have waited for a compiler or the cache so far."""
        report = self._function.report()
        return int(report["compiles"] + report["from_cache"])

    def last_code(self) -> tuple[str, str]:
        """Return the kind and sizes of the jit variant that the last call ran."""
        last = self._function.variants[-1]
        return (ANY if last.is_dynamic else OWN), str(last.to_json()["sizes"])


class EagerPlayer(_FunctionPlayer):
    """Replays calls of the Python function itself, op by op."""

    title = "eager"

    def call(self, inputs: Mapping[str, object]) -> PyTree:
        """Call the Python function; return its result."""
        return self._declared(**inputs)

    def last_code(self) -> tuple[str, str]:
        """Return the kind and the name of the code that the last call ran: always
        eager.
        """
        return EAGER, "eager"


def _entry(subject: TimedBundle) -> tuple[EntryFunction, Entry]:
    """Return an entry of a model.py as the user declared it, and as traced."""
    path = Path(subject.bundle)
    program = python.load(path, (subject.entry,))
    module = python.run_file(path)
    declared = next(
        value
        for value in vars(module).values()
        if isinstance(value, EntryFunction) and value.name == subject.entry
    )
    return declared, program.entry(subject.entry)
