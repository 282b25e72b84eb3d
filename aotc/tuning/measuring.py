"""Times of compiled functions of one program, in turn, in a process of their own."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from aotc.artifacts.manifest import Leaf
from aotc.checks.compiled import Arrays, Call, UnbundledCode
from aotc.core.dtypes import to_numpy
from aotc.runtime.function import ExportedFunction

_ROUNDS = 7
_SLICE = 0.002  # seconds of a function in a round: several calls of a short one


@dataclass(frozen=True)
class TimedCode:
    """Code whose functions are timed instead of called.

    A call takes names of functions with commas between, and returns the seconds of each
    at the least: of the means of some calls, in rounds in which they take turns. Their
    inputs are random numbers. One thread computes, and its own time counts, so that
    other work on the machine does little harm.
    """

    code: UnbundledCode

    @property
    def target(self) -> str:
        """Target that the code is compiled for."""
        return self.code.target

    def load(self) -> Call:
        """Load the code; return a call that times the functions it is given by name."""
        functions = self.code.functions(threads=1)
        inputs = {each.name: each.inputs for each in self.code.exports}

        def measure(
            names: str,
            arrays: Arrays,
            before: Mapping[str, Arrays],
            after: Sequence[str],
        ) -> tuple[Arrays, Arrays]:
            calls = [
                _call_on_random_inputs(functions[name], inputs[name])
                for name in names.split(",")
            ]
            return [np.array(least_times(calls))], []

        return measure


def _call_on_random_inputs(
    function: ExportedFunction, leaves: Sequence[Leaf]
) -> Callable[[], object]:
    """Return a call without arguments of a function on random inputs."""
    rng = np.random.default_rng(0)
    arrays = [_random(rng, leaf) for leaf in leaves]
    arguments = function.prepare(arrays)
    return lambda: function.invoke(arguments)


def _random(rng: np.random.Generator, leaf: Leaf) -> np.ndarray:
    """Return an array of normally distributed numbers like an input."""
    shape = tuple(int(size) for size in leaf.shape)
    return rng.standard_normal(shape, "float32").astype(to_numpy(leaf.dtype))


def least_times(calls: Sequence[Callable[[], object]]) -> list[float]:
    """Return the least mean seconds of each call, over rounds in which they
    take turns.
    """
    counts = [max(1, round(_SLICE / max(_seconds(call, 1), 1e-9))) for call in calls]
    least = [float("inf")] * len(calls)
    order = list(range(len(calls)))
    for _ in range(_ROUNDS):
        for number in order:
            taken = _seconds(calls[number], counts[number])
            least[number] = min(least[number], taken)
        order.reverse()
    return least


def _seconds(call: Callable[[], object], count: int) -> float:
    """Return the mean thread seconds of `count` calls."""
    start = time.thread_time()
    for _ in range(count):
        call()
    return (time.thread_time() - start) / count
