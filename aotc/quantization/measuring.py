"""Results of a program on data, by the reference evaluator."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from aotc import reference
from aotc.computed_arrays import Array
from aotc.dialects.entries import Entry
from aotc.program import Program
from aotc.quantization.data import Data, entries_with
from aotc.quantization.metrics import Metric

Calls = Mapping[str, Sequence[Sequence[Array]]]  # inputs of each call, by entry


def calls_of(program: Program, data: Data) -> dict[str, list[list[Array]]]:
    """Return the calls of each entry that the data has inputs for."""
    return {each.name: data.calls(each) for each in entries_with(program, data)}


def run(
    program: Program, calls: Calls, watch: reference.Watch | None = None
) -> dict[str, list[Array]]:
    """Return the outputs of each entry, those of all calls joined along the first axis.

    States have their initial values in each call.

    Args:
        program: of the graph.
        calls: of some of its entries.
        watch: see `reference.evaluate`.
    """
    arrays = {name: np.asarray(array) for name, array in program.parameters.items()}
    found = {}
    for entry in program.entries:
        if entry.name in calls:
            rows = [
                _call(program.module, entry, arrays, inputs, watch)
                for inputs in calls[entry.name]
            ]
            found[entry.name] = [_joined(each) for each in zip(*rows, strict=True)]
    return found


def _call(
    module: Any,
    entry: Entry,
    arrays: Mapping[str, Array],
    inputs: Sequence[Array],
    watch: reference.Watch | None,
) -> list[Array]:
    given = iter(inputs)
    values = [
        next(given) if port.kind == "input" else arrays[port.name]
        for port in entry.arguments
    ]
    results = reference.evaluate(module, entry.name, values, watch)
    pairs = zip(entry.results, results, strict=True)
    return [array for port, array in pairs if port.kind == "output"]


def _joined(parts: Sequence[Array]) -> Array:
    """Outputs of several calls as one array."""
    shapes = {part.shape[1:] for part in parts}
    if parts[0].ndim and len(shapes) == 1:
        return np.concatenate(parts)
    if parts[0].ndim == 0:
        return np.stack(parts)
    return np.concatenate([part.reshape(-1) for part in parts])  # of several sizes


@dataclass(frozen=True)
class Yardstick:
    """What programs are measured by: data, metric, and the results to come near.

    Args:
        metric: how.
        data: on what.
        calls: of it.
        outputs: of the program as it was.
    """

    metric: Metric
    data: Data
    calls: Calls
    outputs: Mapping[str, list[Array]]

    @classmethod
    def of(cls, program: Program, data: Data, metric: Metric) -> Yardstick:
        """Return that of a program."""
        calls = calls_of(program, data)
        return cls(metric, data, calls, run(program, calls))

    @property
    def name(self) -> str:
        """The name of the metric."""
        return self.metric.chosen(next(iter(self.outputs.values())))

    def lost(self, program: Program) -> float:
        """Return what a program loses: the most of any entry."""
        found = run(program, self.calls)
        names = {
            entry.name: [port.name for port in entry.ports("output")]
            for entry in program.entries
        }
        return max(
            self.metric.lost(names[each], self.outputs[each], found[each], arrays)
            for arrays in [dict(self.data.arrays)]
            for each in self.outputs
        )


Tell = Callable[[str], None]
