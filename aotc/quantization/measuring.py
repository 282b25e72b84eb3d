"""Results of a program on data, by the reference evaluator."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from aotc import reference
from aotc.dialects.functions.entries import Entry
from aotc.errors import InputError
from aotc.mlir import Module
from aotc.programs.computed_arrays import Array
from aotc.programs.program import Program
from aotc.quantization.data import Data, entries_with
from aotc.quantization.metrics import LossMetric

_PART = 1 << 14  # elements that are looked at together

Calls = Mapping[str, Sequence[Sequence[Array]]]  # inputs of each call, by entry


def calls_of(program: Program, data: Data) -> dict[str, list[list[Array]]]:
    """Return the calls (input arrays) of each entry that the data has inputs for."""
    return {each.name: data.calls(each) for each in entries_with(program, data)}


def run(
    program: Program, calls: Calls, watch: reference.Watch | None = None
) -> dict[str, list[Array]]:
    """Run calls by the reference evaluator; return each entry's outputs, each joined
    over its calls.

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
            found[entry.name] = [join_outputs(each) for each in zip(*rows, strict=True)]
    return found


def _call(
    module: Module,
    entry: Entry,
    arrays: Mapping[str, Array],
    inputs: Sequence[Array],
    watch: reference.Watch | None,
) -> list[Array]:
    """Evaluate one call of an entry; return its outputs."""
    given = iter(inputs)
    values = [
        next(given) if port.kind == "input" else arrays[port.name]
        for port in entry.arguments
    ]
    results = reference.evaluate(module, entry.name, values, watch)
    pairs = zip(entry.results, results, strict=True)
    return [array for port, array in pairs if port.kind == "output"]


def join_outputs(parts: Sequence[Array]) -> Array:
    """Join an output's arrays of several calls along axis 0; flatten them if sizes
    differ.
    """
    shapes = {part.shape[1:] for part in parts}
    if parts[0].ndim and len(shapes) == 1:
        return np.concatenate(parts)
    if parts[0].ndim == 0:
        return np.stack(parts)
    return np.concatenate([part.reshape(-1) for part in parts])  # of several sizes


class MeasuredLoss(NamedTuple):
    """The loss of a quantised program against the original, by the metric and as noise.

    Args:
        lost: by the metric.
        noise: the square of the differences of results, by that of the results.
    """

    lost: float
    noise: float


@dataclass(frozen=True)
class Yardstick:
    """The data, metric and reference outputs by which quantised programs are measured.

    Args:
        metric: how.
        data: on what.
        calls: of it.
        outputs: of the program as it was.
    """

    metric: LossMetric
    data: Data
    calls: Calls
    outputs: Mapping[str, list[Array]]

    @classmethod
    def of(cls, program: Program, data: Data, metric: LossMetric) -> Yardstick:
        """Run the unquantised program on the data, and return the yardstick of its
        outputs.
        """
        calls = calls_of(program, data)
        outputs = run(program, calls)
        every = [x for each in outputs.values() for x in each]
        metric = metric.resolve_auto(every)
        if not any(map(metric.measures, every)):
            said = ", ".join(f"{x.dtype}{list(x.shape)}" for x in every) or "none"
            raise InputError(
                "bad-metric",
                f"expected an output that '{metric.name}' can measure; got {said}",
                where=data.where,
                hint="--metric cosine is for floats, disagreement for integers, top1 "
                "and kl for rows; FILE.py:FUNCTION for any",
            )
        return cls(metric, data, calls, outputs)

    @property
    def name(self) -> str:
        """The name of the metric."""
        return self.metric.name

    @property
    def entries(self) -> list[str]:
        """Names of the entries with an output that the metric measures."""
        found = self.outputs.items()
        return [name for name, each in found if any(map(self.metric.measures, each))]

    def unmeasured(self, program: Program) -> list[str]:
        """Return the outputs that the metric does not measure, as `entry/output`."""
        found = []
        for entry in program.entries:
            ports = entry.ports("output")
            arrays = self.outputs.get(entry.name, [None] * len(ports))
            for port, array in zip(ports, arrays, strict=True):
                if array is None or not self.metric.measures(array):
                    found.append(f"{entry.name}/{port.name}")
        return found

    def measure(self, program: Program) -> MeasuredLoss:
        """Run a quantised program, and return its loss: the largest over entries."""
        return self.compare(program, run(program, self.calls))

    def compare(
        self, program: Program, found: Mapping[str, list[Array]]
    ) -> MeasuredLoss:
        """Return the loss of a program's outputs against the reference outputs.

        Args:
            program: that gave them.
            found: the outputs of each entry.
        """
        names = {
            entry.name: [port.name for port in entry.ports("output")]
            for entry in program.entries
        }
        data = dict(self.data.arrays)
        pairs = {name: (self.outputs[name], found[name]) for name in self.entries}
        lost = [self.metric.loss_of(names[x], *pair, data) for x, pair in pairs.items()]
        noise = [_relative_square_error(*pair) for pair in pairs.values()]
        return MeasuredLoss(max(lost), max(noise))


def _relative_square_error(reference: Sequence[Array], found: Sequence[Array]) -> float:
    """Return the largest relative square error of any output."""
    shares = [0.0]
    for x, y in zip(reference, found, strict=True):
        size, error = (
            map(sum, zip(*_sums_of_squares(x, y), strict=True)) if x.size else (0, 0)
        )
        if size and np.isfinite(size):
            shares.append(float(error) / float(size))
    return max(shares) if np.isfinite(shares).all() else np.inf


def _sums_of_squares(x: Array, y: Array) -> Iterator[tuple[float, float]]:
    """Yield Σx² and Σ(x - y)² of consecutive slices of two arrays.

    Parts are small, so that what is computed of them stays in the processor's caches.
    """
    flat, other = np.reshape(x, -1), np.reshape(y, -1)
    for start in range(0, flat.size, _PART):
        part = slice(start, start + _PART)
        wide = flat[part].astype(np.float64)
        difference = wide - other[part].astype(np.float64)
        yield float(np.square(wide).sum()), float(np.square(difference).sum())


Tell = Callable[[str], None]
