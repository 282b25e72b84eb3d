"""GPTQ: round a weight row by row, and let the rows to come make up for the error.

Frantar et al., "GPTQ: Accurate Post-Training Quantization for Generative Pre-trained
Transformers", ICLR 2023: what is to be small is the error of results, so what rounding
a row adds to them is taken from the other rows, as far as inputs go together. Scales
are known before, so that rows go in the order of their inputs' size.
"""

from __future__ import annotations

import numpy as np

from aotc.programs.computed_arrays import Array
from aotc.quantization.grids import WeightGrid
from aotc.quantization.layers import Layer
from aotc.quantization.precisions import LayerPrecision
from aotc.quantization.recipe import LayerPlan
from aotc.quantization.statistics import InputStatistics

_DAMPING = 0.01  # of the mean square of inputs
_BLOCK = 128  # rows whose errors reach the others together


def integers_of(
    layer: Layer,
    plan: LayerPlan,
    weight: Array,
    grid: WeightGrid,
    statistics: InputStatistics,
) -> Array:
    """Return the integers of a layer's weight as GPTQ rounds it, in the shape of its
    grid.

    Args:
        layer: a product that sums one axis up.
        plan: of it.
        weight: multiplied by its factors.
        grid: of it.
        statistics: of the inputs, with moments.
    """
    assert layer.channels is not None
    assert statistics.moments is not None
    axis, moments = layer.channels[1], statistics.moments
    if plan.factors is not None:
        inverse = 1 / plan.factors.astype(np.float64)
        moments = moments * np.outer(inverse, inverse)
    scales = np.broadcast_to(grid.scales, grid.grouped).reshape(weight.shape)
    rows = np.moveaxis(weight, axis, 0).reshape(weight.shape[axis], -1)
    steps = np.moveaxis(scales, axis, 0).reshape(rows.shape)
    found = _round_rows(rows.astype(np.float64), steps, moments, plan.kind)
    shape = np.moveaxis(weight, axis, 0).shape
    whole = np.moveaxis(found.reshape(shape), 0, axis)
    return np.ascontiguousarray(whole).reshape(grid.grouped)


def _round_rows(
    rows: Array, scales: Array, moments: Array, precision: LayerPrecision
) -> Array:
    """Return the integers of a weight's rows by GPTQ; earlier errors adjust
    later rows.
    """
    size = np.diag(moments)
    order = np.argsort(-size, kind="stable")
    rows, scales = rows[order], scales[order].astype(np.float64)
    factor = _inverse_factor(moments[np.ix_(order, order)])
    found = np.zeros(rows.shape, np.int8)
    for start in range(0, len(rows), _BLOCK):
        block = slice(start, start + _BLOCK)
        errors = np.zeros_like(rows[block])
        for number in range(start, min(start + _BLOCK, len(rows))):
            step = np.clip(np.round(rows[number] / scales[number]), *precision.bounds)
            found[number] = step
            error = (rows[number] - step * scales[number]) / factor[number, number]
            rest = slice(number + 1, start + _BLOCK)
            rows[rest] -= np.outer(factor[number, rest], error)
            errors[number - start] = error
        behind = slice(start + _BLOCK, None)
        rows[behind] -= factor[block, behind].T @ errors
    back = np.empty_like(order)
    back[order] = np.arange(len(order))
    return found[back]


def _inverse_factor(moments: Array) -> Array:
    """Return the Cholesky factor (upper) of the inverse of the damped moments."""
    size = np.diag(moments)
    damped = moments + np.diag(np.where(size > 0, _DAMPING * size.mean(), 1.0))
    inverse = np.linalg.inv(damped)
    return np.linalg.cholesky((inverse + inverse.T) / 2).T
