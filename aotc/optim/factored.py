"""Averages of squared gradients as products of two vectors: Adafactor's.

Shazeer and Stern, "Adafactor: adaptive learning rates with sublinear memory cost", ICML
2018.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from aotc import numpy as np
from aotc.optim.moments import average
from aotc.optim.numbers import in_each_dtype, increment, zero_count
from aotc.optim.transformation import GradientTransformation, require_params, stateful
from aotc.optim.trees import (
    Tree,
    in_widest,
    leafwise,
    leafwise_unzip,
    like,
    zeros_like,
)
from aotc.tracing.array import Array
from aotc.tracing.conversion import astype, lift

__all__ = ["FactoredState", "scale_by_factored_rms"]


class FactoredState(NamedTuple):
    """State of Adafactor: the step count (i32), and factored averages of squares.

    Of each parameter either `v_row` and `v_col`, the averages over its largest and its
    second largest axis, or `v`, of all elements; the others are one zero.
    """

    count: Any
    v_row: Any
    v_col: Any
    v: Any


def scale_by_factored_rms(
    factored: bool = True,
    decay_rate: float = 0.8,
    step_offset: int = 0,
    min_dim_size_to_factor: int = 128,
    epsilon: float = 1e-30,
) -> GradientTransformation:
    """Return a transformation: updates over the root of rank-one averages of squares.

    Args:
        factored: whether matrices are kept as two vectors.
        decay_rate: step t weighs t ** -decay_rate in the average.
        step_offset: the number of steps that do not count.
        min_dim_size_to_factor: the size of the second largest axis from which an array
            is factored.
        epsilon: added to squares.
    """

    def axes_of(x: Array) -> tuple[int, int] | None:
        return _axes(x.shape, min_dim_size_to_factor) if factored else None

    def init(params: Tree) -> Tree:
        kept = leafwise_unzip(lambda x: _empty(x, axes_of(x)), 3, zeros_like(params))
        return FactoredState(zero_count(), *kept)

    def update(updates: Tree, state: FactoredState, params: Tree) -> tuple[Tree, Tree]:
        # Refuses updates that have not the form of the parameters.
        updates = leafwise(lambda u, p: u, updates, require_params(params))
        steps = lift(state.count) + (1 - step_offset)
        weight = in_each_dtype(lambda dtype: 1.0 - astype(steps, dtype) ** -decay_rate)

        def step(update: Array, row: Array, col: Array, v: Array) -> Sequence[Array]:
            update, row, col, v = in_widest([update, row, col, v])
            averaged = average(weight(update))
            square = np.square(update) + epsilon
            axes = axes_of(update)
            if axes is None:
                v = averaged(square, v)
                return update * np.rsqrt(v), row, col, v
            row = averaged(square.mean(axes[1]), row)
            col = averaged(square.mean(axes[0]), col)
            return update * _inverse_root(row, col, axes), row, col, v

        found, *kept = leafwise_unzip(
            step, 4, updates, state.v_row, state.v_col, state.v
        )
        old = state.v_row, state.v_col, state.v
        return found, FactoredState(increment(state.count), *map(like, kept, old))

    return stateful(FactoredState, init, update)


def _axes(shape: Sequence[Any], least: int) -> tuple[int, int] | None:
    """Return the two largest axes to factor along; None if the smaller one is below
    `least`.
    """
    if len(shape) < 2:
        return None
    *_, second, largest = sorted(range(len(shape)), key=shape.__getitem__)
    return (second, largest) if shape[second] >= least else None


def _empty(x: Array, axes: tuple[int, int] | None) -> Sequence[Array]:
    """Return (row, column, whole) averages of zeros `x`; zeros[1] where not kept."""
    nothing = np.zeros(1, x.dtype)
    if axes is None:
        return nothing, nothing, x
    return x.sum(axes[1]), x.sum(axes[0]), nothing


def _inverse_root(row: Array, col: Array, axes: tuple[int, int]) -> Array:
    """Return 1 / √(row col / mean of row), the inverse root of a factored average."""
    second, largest = axes
    left = second - (second > largest)  # where the second axis is without the largest
    of_row = np.rsqrt(row / row.mean(left, keepdims=True))
    return np.expand_dims(of_row, largest) * np.expand_dims(np.rsqrt(col), second)
