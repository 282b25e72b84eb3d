"""Statistics of the inputs of each layer during calibration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from aotc.dialects.ops.contraction import DotGeneral
from aotc.errors import InputError
from aotc.mlir import Operation
from aotc.programs.computed_arrays import Array
from aotc.programs.program import Program
from aotc.quantization.layers import Layer, divide_channels
from aotc.quantization.measuring import Calls, run
from aotc.quantization.observers import ValueHistogram

ROWS = 1024  # of inputs that are kept of each product
_ROWS_OF_CALL = 128


@dataclass
class InputStatistics:
    """Statistics of a layer's input, accumulated over calibration calls.

    Args:
        histogram: of all elements.
        channel_most: the largest magnitude of each channel; None where there is not
            one axis of channels.
        rows: some inputs of a product, each a vector along the summed channel.
        moments: the sum of the outer products of all of these, for GPTQ.
    """

    histogram: ValueHistogram = field(default_factory=ValueHistogram)
    channel_most: Array | None = None
    rows: list[Array] = field(default_factory=list)
    moments: Array | None = None

    def add(self, layer: Layer, x: Array, *, with_moments: bool) -> None:
        """Add an input of the layer to the statistics."""
        self.histogram.add(x)
        if layer.channels is None:
            return
        flat = np.moveaxis(x, layer.channels[0], -1).reshape(
            -1, x.shape[layer.channels[0]]
        )
        most = np.abs(flat).max(axis=0, initial=0)
        known = self.channel_most
        self.channel_most = most if known is None else np.maximum(known, most)
        if not isinstance(layer.op, DotGeneral):
            return
        if sum(map(len, self.rows)) < ROWS:
            step = max(len(flat) // _ROWS_OF_CALL, 1)
            self.rows.append(flat[::step][:_ROWS_OF_CALL].copy())
        if with_moments:
            wide = flat.astype(np.float64)
            moments = wide.T @ wide
            self.moments = moments if self.moments is None else self.moments + moments

    @property
    def matrix(self) -> Array:
        """The sampled input rows as one matrix."""
        return np.concatenate(self.rows)


def observe(
    program: Program,
    calls: Calls,
    layers: Sequence[Layer],
    *,
    with_moments: bool = False,
    factors: Mapping[str, Array | None] | None = None,
) -> dict[str, InputStatistics]:
    """Run a program on calls, and return the statistics of its layers' inputs by name.

    Args:
        program: that the layers are of.
        calls: of its entries.
        layers: to look at.
        with_moments: whether GPTQ is to follow.
        factors: what inputs are divided by before they are looked at, by layer.
    """
    by_result = {layer.op.results[0]: layer for layer in layers if not layer.is_table}
    seen: dict[str, InputStatistics] = {}

    def watch(
        op: Operation, operands: list[np.ndarray], results: list[np.ndarray]
    ) -> None:
        layer = by_result.get(op.results[0]) if len(op.results) == 1 else None
        if layer is None:
            return
        x = np.asarray(operands[0])
        by = None if factors is None else factors[layer.name]
        if by is not None:
            x = divide_channels(layer, x, by)
        if not np.isfinite(x).all():
            raise InputError(
                "bad-data",
                f"expected finite inputs of the layer '{layer.name}'; the data "
                "gives it some that are infinite or NaN",
                where=layer.where,
                hint="leave out the samples that lead to them",
            )
        row = seen.setdefault(layer.name, InputStatistics())
        row.add(layer, x, with_moments=with_moments)

    run(program, calls, watch)
    return seen
