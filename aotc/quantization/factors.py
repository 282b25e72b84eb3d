"""Factors of input channels that move rounding errors between input and weight.

    x W = (x / f) (f W)

for any positive f of each channel that is summed up. The input is divided where it is
read, which is a multiplication that the kernel of what computes it takes along.

- `smooth`: Xiao et al., "SmoothQuant: Accurate and Efficient Post-Training Quantization
  for Large Language Models", ICML 2023;
- `activation_aware`: Lin et al., "AWQ: Activation-aware Weight Quantization for LLM
  Compression and Acceleration", MLSys 2024;
- `equalize`: Nagel et al., "Data-Free Quantization Through Weight Equalization and Bias
  Correction", ICCV 2019, with the scales left at the layer that reads them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from aotc.dialects.functions.walking import defining_op
from aotc.dialects.graph import GraphOp
from aotc.dialects.ops.shape import Broadcast
from aotc.dialects.patterns.values import made_by
from aotc.dialects.types import Tensor
from aotc.mlir import Value
from aotc.programs.computed_arrays import Array
from aotc.programs.program import Program
from aotc.quantization.grids import InputGrid, fake_input, fake_weight, weight_grid
from aotc.quantization.layers import Layer
from aotc.quantization.precisions import LayerPrecision
from aotc.quantization.statistics import InputStatistics

# of what is hard to round in inputs, the shares that weights may take
_BALANCES = (0.0, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
_EXPONENTS = np.linspace(0, 1, 21)
_LEAST, _MOST = 2.0**-10, 2.0**10  # of factors


def smooth(
    program: Program,
    layers: Sequence[Layer],
    statistics: Mapping[str, InputStatistics],
    precision: LayerPrecision,
) -> dict[str, Array]:
    """Return SmoothQuant's factors by layer, which even out the ranges of input
    channels.

    Layers that read one input have the same, so that it is rounded once. How much of
    what is hard to round weights take is what leaves products the least error, which
    may be nothing.
    """
    by_input: dict[Value, list[Layer]] = {}
    for layer in layers:
        if layer.name in statistics and layer.channels is not None:
            by_input.setdefault(layer.op.operands[0], []).append(layer)
    found = {}
    for group in by_input.values():
        looked_at = statistics[group[0].name]
        if looked_at.channel_most is None or not looked_at.channel_most.any():
            continue
        tried = [_balanced(program, group, looked_at, share) for share in _BALANCES]
        if looked_at.rows:
            errors = [_error(program, group, looked_at, x, precision) for x in tried]
            factors = tried[int(np.argmin(errors))]
        else:
            factors = tried[_BALANCES.index(0.5)]
        if factors is not None:
            found.update({layer.name: factors for layer in group})
    return found


def _balanced(
    program: Program, group: Sequence[Layer], statistics: InputStatistics, share: float
) -> Array | None:
    """Return channel factors that shift a share of input range to weights; None for
    none.

    What is below the median counts as that: channels that the data hardly uses, such as
    pixels at the border, would else exceed their range in a call that does.
    """
    if not share:
        return None
    inputs = statistics.channel_most
    assert inputs is not None
    inputs = np.maximum(inputs, np.median(inputs[inputs > 0]))
    weights = np.max([_channel_most(program, layer) for layer in group], axis=0)
    return _usable(inputs**share / np.maximum(weights, 1e-12) ** (1 - share))


def _error(
    program: Program,
    group: Sequence[Layer],
    statistics: InputStatistics,
    factors: Array | None,
    precision: LayerPrecision,
) -> float:
    """Return the relative square error of quantised products on the calibration
    rows.
    """
    rows = statistics.matrix
    by = np.ones(rows.shape[1], np.float32) if factors is None else factors
    divided = rows / by
    grid = InputGrid.of(float(divided.min()), float(divided.max()))
    inputs = fake_input(divided, grid)
    total = 0.0
    for layer in group:
        assert layer.channels is not None
        axis = layer.channels[1]
        weight = np.moveaxis(layer.array(program), axis, 0)
        scaled = np.moveaxis(weight * by.reshape(-1, *[1] * (weight.ndim - 1)), 0, axis)
        fake = fake_weight(
            scaled, weight_grid(scaled, layer.summed, precision), precision
        )
        wanted = rows @ weight.reshape(len(weight), -1)
        given = inputs @ np.moveaxis(fake, axis, 0).reshape(len(weight), -1)
        size = float(np.square(wanted, dtype=np.float64).sum())
        total += float(np.square(wanted - given, dtype=np.float64).sum()) / (size or 1)
    return total


def equalize(program: Program, layers: Sequence[Layer]) -> dict[str, Array]:
    """Return channel factors by layer that equalise weight ranges of consecutive
    layers.
    """
    by_result = {layer.op.results[0]: layer for layer in layers if not layer.is_table}
    found = {}
    for layer in layers:
        before = _layer_before(layer, by_result)
        if before is None:
            continue
        outputs = np.abs(before.array(program)).max(axis=before.summed)
        inputs = _channel_most(program, layer)
        ratio = np.sqrt(outputs / np.maximum(inputs, 1e-12))
        found[layer.name] = _usable(np.where((outputs > 0) & (inputs > 0), ratio, 1))
    return found


def activation_aware(
    program: Program,
    layer: Layer,
    statistics: InputStatistics,
    precision: LayerPrecision,
) -> Array | None:
    """Return AWQ's channel factors for a layer; None where none lowers the error.

    They are a power of the mean magnitude of each channel, the one by which results
    have the least error.
    """
    if layer.channels is None or not statistics.rows:
        return None
    rows, axis = statistics.matrix, layer.channels[1]
    weight = np.moveaxis(layer.array(program), axis, 0)
    size = np.abs(rows).mean(axis=0)
    size = np.where(size > 0, size, size[size > 0].min(initial=1))
    best, least = None, np.inf
    for exponent in _EXPONENTS:
        powers = size**exponent
        factors = _usable(powers / np.sqrt(powers.max() * powers.min()))
        shape = (-1, *[1] * (weight.ndim - 1))
        scaled = np.moveaxis(weight * factors.reshape(shape), 0, axis)
        fake = fake_weight(
            scaled, weight_grid(scaled, layer.summed, precision), precision
        )
        found = np.moveaxis(fake, axis, 0) / factors.reshape(shape)
        error = np.square(rows @ (found - weight).reshape(len(weight), -1)).sum()
        if error < least:
            best, least = (factors if exponent else None), error
    return best


def _usable(factors: Array) -> Array:
    """Return factors clipped to the range that is stored, in f32."""
    found: Array = np.clip(factors, _LEAST, _MOST).astype(np.float32)
    return found


def _channel_most(program: Program, layer: Layer) -> Array:
    """Return the largest magnitude of a layer's weight for each input channel."""
    array = np.abs(layer.array(program))
    assert layer.channels is not None
    axis = layer.channels[1]
    most: Array = array.max(axis=tuple(i for i in range(array.ndim) if i != axis))
    return most


def _layer_before(layer: Layer, by_result: Mapping[Value, Layer]) -> Layer | None:
    """Return the layer whose features reach a layer as its input channels; None without
    one.
    """
    if layer.channels is None:
        return None
    value: Value = layer.op.operands[0]
    rank, channels = Tensor.of(value).rank, Tensor.of(value).shape[-1]
    if layer.channels[0] != rank - 1:
        return None
    while value not in by_result:
        op = defining_op(value)
        if not isinstance(op, GraphOp):
            return None
        computed = [x for x in op.operands if not _is_weight(layer, x)]
        kinds = [Tensor.of(x) for x in computed]
        if (
            len(computed) != 1
            or kinds[0].rank != rank
            or kinds[0].shape[-1] != channels
        ):
            return None
        value = computed[0]
    before = by_result[value]
    return before if len(before.kept_axes) == 1 else None


def _is_weight(layer: Layer, value: Value) -> bool:
    """Return whether a value depends on weights alone, or broadcasts a weight."""
    repeated = made_by(value, Broadcast)
    known = layer.values.number_of
    return value in known or (repeated is not None and repeated.x in known)
