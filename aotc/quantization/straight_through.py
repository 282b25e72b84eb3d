"""Weights and inputs rounded as a precision has them, in floats, with derivatives.

The numbers are those of `rewrite`, which makes integers of them. Rounding counts as the
identity (the straight-through estimator: Bengio, Leonard and Courville, 2013). Within a
range, its ends included, a number has the derivative 1, and beyond it 0: there an end
that is learned has that of 1. Steps that are learned have the derivative of Esser et
al., "Learned step size quantization", ICLR 2020, with its factor; the ends of ranges
have that of the step that they decide, without it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from aotc import numpy as np
from aotc.nn.layers import stop_gradient
from aotc.nn.quantizing import round_straight_through
from aotc.quantization.forms import LayerForm
from aotc.quantization.grids import LARGEST_F16, LEAST_STEP, grouped_shape
from aotc.quantization.precisions import LayerPrecision
from aotc.tracing.array import Array

_LEVELS = 255  # of bytes, less one
_SIGNED = 127


def fake_weight(
    weight: Array, form: LayerForm, precision: LayerPrecision, steps: Array | None
) -> Array:
    """Return a weight quantised and dequantised, with straight-through gradients.

    Args:
        weight: in f32.
        form: of its layer.
        precision: with integers.
        steps: learned ones, one for each group that shares one; without, the largest
            element of each group is the end of its range.
    """
    shape, axes = grouped_shape(form.shape, form.summed, precision)
    grouped = np.reshape(weight, shape)
    least, most = precision.bounds
    if steps is None:  # nothing is beyond the range, but what f16 has no step for
        step = _storable(_step_of_range(grouped, axes, most), precision)
        nearest = round_straight_through(np.divide(grouped, step))
        integers = np.clip(nearest, float(least), float(most))
    else:
        terms = math.prod(shape[axis] for axis in axes)
        scaled = _with_scaled_gradient(steps, terms * most)
        step = _storable(np.maximum(np.abs(scaled), LEAST_STEP), precision)
        ratio = np.clip(np.divide(grouped, step), float(least), float(most))
        integers = round_straight_through(ratio)
    return np.reshape(np.multiply(integers, step), form.shape)


def _step_of_range(grouped: Array, axes: Sequence[int], most: int) -> Array:
    """Return the step that maps each group's largest magnitude to the largest
    integer.
    """
    whole = np.max(np.abs(stop_gradient(grouped)), tuple(axes), keepdims=True)
    is_any = np.greater(whole, 0.0)
    return np.where(is_any, np.divide(whole, float(most)), 1.0)


def _storable(step: Array, precision: LayerPrecision) -> Array:
    """Return steps rounded as they are stored (f16 for groups), straight-through."""
    if not precision.group:
        return step
    step = np.clip(step, LEAST_STEP, LARGEST_F16)
    half = np.astype(np.astype(stop_gradient(step), "f16"), "f32")
    return np.add(step, stop_gradient(np.subtract(half, step)))


def _with_scaled_gradient(x: Array, count: int) -> Array:
    """Return the same numbers, with LSQ's gradient factor 1/√(terms · levels)."""
    fixed = stop_gradient(x)
    return np.add(fixed, np.multiply(np.subtract(x, fixed), 1 / math.sqrt(count)))


# ---- inputs -------------------------------------------------------------------------


def fake_static_input(x: Array, low: Array, high: Array) -> Array:
    """Return an input quantised to u8 in a given range and dequantised, differentiable.

    Args:
        x: in f32.
        low: the lower end of its range, a scalar.
        high: the upper one.
    """
    low, high = np.clip(low, max=0.0), np.clip(high, min=0.0)
    step = np.divide(np.subtract(high, low), float(_LEVELS))
    step = np.where(np.greater(step, 0.0), step, 1.0)
    zero = np.clip(np.divide(np.negative(low), step), 0.0, float(_LEVELS))
    return _fake_quantize(x, step, round_straight_through(zero))


def fake_dynamic_input(x: Array, *, is_padded: bool) -> Array:
    """Return an input quantised to bytes in its own range and dequantised,
    differentiable.

    Args:
        x: in f32.
        is_padded: whether its bytes are those around 0.
    """
    fixed = stop_gradient(x)
    if is_padded:
        step = _step(np.max(np.abs(fixed)), _SIGNED)
        ratio = np.clip(np.divide(x, step), float(-_SIGNED), float(_SIGNED))
        return np.multiply(round_straight_through(ratio), step)
    low, high = np.minimum(np.min(fixed), 0.0), np.maximum(np.max(fixed), 0.0)
    step = _step(np.subtract(high, low), _LEVELS)
    zero = np.clip(np.round(np.divide(np.negative(low), step)), 0.0, float(_LEVELS))
    return _fake_quantize(x, step, zero)


def _fake_quantize(x: Array, step: Array, zero: Array) -> Array:
    """Return an input quantised to u8 and dequantised by a step and a zero point."""
    bounds = np.negative(zero), np.subtract(float(_LEVELS), zero)
    ratio = np.clip(np.divide(x, step), *bounds)
    return np.multiply(round_straight_through(ratio), step)


def _step(span: Array, count: int) -> Array:
    """Return `span / count`, the step of a range; 1 where it is 0."""
    step = np.multiply(span, 1 / count)
    return np.where(np.equal(step, 0.0), 1.0, step)
