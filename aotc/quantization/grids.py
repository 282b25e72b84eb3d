"""Scales and integers of weights and inputs, in NumPy.

Weights are symmetric, with a scale for each feature or group; inputs are u8 with one
scale and zero point, and 0 is among their values.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from aotc.programs.computed_arrays import Array
from aotc.quantization.precisions import LayerPrecision

# Shares of the largest element that are tried as the end of the grid. Rounding to
# nearest with a searched scale: Choukroun et al., "Low-bit quantization of neural
# networks for efficient inference", 2019.
_SHARES = np.linspace(1.0, 0.5, 21, dtype=np.float32)
_SHARES_OF_NIBBLES = np.linspace(1.15, 0.6, 34, dtype=np.float32)
LEAST_STEP, LARGEST_F16 = 6.2e-5, 65504.0  # that f16 holds with all of its digits


@dataclass(frozen=True)
class WeightGrid:
    """The scales of a quantised weight, and the grouped shape to which they broadcast.

    Args:
        scales: of the rank of `grouped`, with 1 for each axis that shares a scale.
        grouped: the shape of the weight, with an axis more where there are groups.
        axes: of `grouped`, those that share a scale.
    """

    scales: Array
    grouped: tuple[int, ...]
    axes: tuple[int, ...]


def grouped_shape(
    shape: tuple[int, ...], summed: tuple[int, ...], precision: LayerPrecision
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return a weight's shape with an axis for groups, and the axes that share
    a scale.
    """
    if not precision.group:
        return shape, summed
    (axis,) = summed
    size = shape[axis]
    parts = (size // precision.group, precision.group)
    return (*shape[:axis], *parts, *shape[axis + 1 :]), (axis + 1,)


def weight_grid(
    weight: Array,
    summed: tuple[int, ...],
    precision: LayerPrecision,
) -> WeightGrid:
    """Return a weight's grid: the scales, of some tried, with the least mean square
    error.

    Args:
        weight: in f32.
        summed: its axes that are summed up.
        precision: with integers.
    """
    shape, axes = grouped_shape(weight.shape, summed, precision)
    grouped = weight.reshape(shape)
    _, most = precision.bounds
    whole = np.abs(grouped).max(axis=axes, keepdims=True, initial=0).astype(np.float32)
    whole = np.where(whole > 0, whole, np.float32(most))
    best, least = whole / np.float32(most), np.full(whole.shape, np.inf)
    for share in _SHARES_OF_NIBBLES if precision.bits <= 4 else _SHARES:
        scale = _storable(whole * share / np.float32(most), precision)
        square = np.square(round_to_grid(grouped, scale, precision) * scale - grouped)
        error = square.sum(axis=axes, keepdims=True, dtype=np.float64)
        best = np.where(error < least, scale, best)
        least = np.minimum(error, least)
    return WeightGrid(best.astype(np.float32), shape, axes)


def given_grid(
    scales: Array,
    shape: tuple[int, ...],
    summed: tuple[int, ...],
    precision: LayerPrecision,
) -> WeightGrid:
    """Return the grid of a weight of this shape, given its scales as a vector."""
    grouped, axes = grouped_shape(shape, summed, precision)
    sizes = [1 if i in axes else n for i, n in enumerate(grouped)]
    return WeightGrid(scales.reshape(sizes), grouped, axes)


def trained_grid(
    weight: Array,
    summed: tuple[int, ...],
    precision: LayerPrecision,
    steps: Array | None,
) -> WeightGrid:
    """Return the grid that a weight had in quantisation-aware training.

    Args:
        weight: in f32.
        summed: its axes that are summed up.
        precision: with integers.
        steps: learned ones; without, the largest element of a group is the end.
    """
    shape, axes = grouped_shape(weight.shape, summed, precision)
    if steps is None:
        _, most = precision.bounds
        grouped = weight.reshape(shape)
        whole = np.abs(grouped).max(axis=axes, keepdims=True, initial=0)
        whole = whole.astype(np.float32)
        scale = np.where(whole > 0, whole / np.float32(most), np.float32(1))
    else:
        sizes = [1 if i in axes else n for i, n in enumerate(shape)]
        scale = np.maximum(np.abs(steps.reshape(sizes)), np.float32(LEAST_STEP))
    if precision.group:
        half = np.clip(scale, LEAST_STEP, LARGEST_F16).astype(np.float16)
        scale = half.astype(np.float32)
    return WeightGrid(scale.astype(np.float32), shape, axes)


def _storable(scale: Array, precision: LayerPrecision) -> Array:
    """Return scales rounded as they are stored: per group in f16, if the range
    allows.
    """
    fits = scale.min() >= LEAST_STEP and scale.max() <= LARGEST_F16
    if precision.group and fits:
        scale = scale.astype(np.float16).astype(np.float32)
    return scale


def are_half(scales: Array, precision: LayerPrecision) -> bool:
    """Return whether scales are those of groups, and exact in f16."""
    halves = scales.astype(np.float16).astype(np.float32)
    return bool(precision.group) and bool(np.array_equal(halves, scales))


def round_to_grid(values: Array, scale: Array, precision: LayerPrecision) -> Array:
    """Return values divided by scales, rounded half to even and clipped, as floats."""
    nearest: Array = np.clip(np.round(values / scale), *precision.bounds)
    return nearest


def fake_weight(weight: Array, grid: WeightGrid, precision: LayerPrecision) -> Array:
    """Return a weight quantised to a grid and dequantised."""
    grouped = weight.reshape(grid.grouped)
    steps = round_to_grid(grouped, grid.scales, precision)
    found: Array = (steps * grid.scales).reshape(weight.shape).astype(np.float32)
    return found


# ---- inputs -------------------------------------------------------------------------


@dataclass(frozen=True)
class InputGrid:
    """The scale and zero point of an input that is quantised to u8."""

    scale: float
    zero_point: int

    @classmethod
    def of(cls, low: float, high: float) -> InputGrid:
        """Return the grid of 256 levels that spans `low`, `high` and 0."""
        low, high = min(low, 0.0), max(high, 0.0)
        span = np.float32(high) - np.float32(low)
        scale = np.float32(span / np.float32(255))
        if not scale > 0 or not np.isfinite(scale):
            scale = np.float32(1)
        zero = int(np.clip(np.round(-np.float32(low) / scale), 0, 255))
        return cls(float(scale), zero)


def fake_input(x: Array, grid: InputGrid) -> Array:
    """Return an input quantised to u8 by a grid and dequantised."""
    scale, zero = np.float32(grid.scale), np.float32(grid.zero_point)
    steps = np.round(np.clip(x / scale, 0 - zero, 255 - zero))
    return (steps * scale).astype(np.float32)
