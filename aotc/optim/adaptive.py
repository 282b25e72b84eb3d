"""Transformations that scale each element by its past gradients: Adam's kin."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from aotc import numpy as np
from aotc.core.dtypes import DTypeLike
from aotc.optim.moments import average, average_square
from aotc.optim.numbers import bias_corrector, fraction, increment, zero_count
from aotc.optim.transformation import GradientTransformation, stateful
from aotc.optim.trees import Tree, float_dtype, leafwise, like, zeros_like
from aotc.tracing.array import Array

__all__ = [
    "ScaleByAdaDeltaState", "ScaleByAdamState", "ScaleByLionState", "scale_by_adadelta",
    "scale_by_adam", "scale_by_adamax", "scale_by_lion",
]  # fmt: skip


class ScaleByAdamState(NamedTuple):
    """State of Adam: the step count (i32), the moving averages of gradients and of
    squares.
    """

    count: Any
    mu: Any
    nu: Any


class ScaleByLionState(NamedTuple):
    """State of Lion: the step count (i32), and the moving average of gradients."""

    count: Any
    mu: Any


class ScaleByAdaDeltaState(NamedTuple):
    """State of Adadelta: the moving averages of squared gradients and squared
    updates.
    """

    e_g: Any
    e_x: Any


def scale_by_adam(
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    eps_root: float = 0.0,
    mu_dtype: DTypeLike | None = None,
    *,
    nesterov: bool = False,
) -> GradientTransformation:
    """Return Adam's transformation: average of gradients over the root of average
    squares.

    Kingma and Ba, "Adam: a method for stochastic optimization", ICLR 2015.

    Args:
        b1: how much of the average is kept from step to step: at least 0, below 1.
        b2: how much of the average of squares is kept.
        eps: added to what is divided by.
        eps_root: added under the root.
        mu_dtype: of the average of gradients; the parameters' by default.
        nesterov: whether to look one step ahead: Dozat, "Incorporating Nesterov
            momentum into Adam", ICLR workshop 2016.
    """
    fraction("b1", b1)
    fraction("b2", b2)
    dtype = float_dtype(mu_dtype)

    def init(params: Tree) -> Tree:
        zeros = zeros_like(params, dtype), zeros_like(params)
        return ScaleByAdamState(zero_count(), *zeros)

    def scale_update(mu: Array, nu: Array) -> Array:
        return mu / (np.sqrt(nu + eps_root) + eps)

    def update(
        updates: Tree, state: ScaleByAdamState, params: Tree
    ) -> tuple[Tree, Tree]:
        count = increment(state.count)
        mu = leafwise(average(b1), updates, state.mu)
        nu = leafwise(average_square(b2), updates, state.nu)
        direction = (
            _nesterov_direction(b1, count) if nesterov else _plain_direction(b1, count)
        )
        found = leafwise(
            scale_update,
            leafwise(direction, mu, updates),
            leafwise(bias_corrector(b2, count), nu),
        )
        return found, ScaleByAdamState(count, like(mu, state.mu), like(nu, state.nu))

    return stateful(ScaleByAdamState, init, update)


def _plain_direction(b1: float, count: Array) -> Callable[[Array, Array], Array]:
    """Return a function (average, update) that gives the bias-corrected average."""
    correct = bias_corrector(b1, count)
    return lambda mu, update: correct(mu)


def _nesterov_direction(b1: float, count: Array) -> Callable[[Array, Array], Array]:
    """Return a function (average, update) that gives the average one step ahead."""
    now, next = bias_corrector(b1, count), bias_corrector(b1, increment(count))
    return lambda mu, update: b1 * next(mu) + (1 - b1) * now(update)


def scale_by_adamax(
    b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8
) -> GradientTransformation:
    """Return Adamax's transformation: average of gradients over their decayed maximum.

    Kingma and Ba, section 7.1. Arguments are those of `scale_by_adam`.
    """
    fraction("b1", b1)
    fraction("b2", b2)

    def largest(update: Array, nu: Array) -> Array:
        return np.maximum(np.abs(update) + eps, b2 * nu)

    def init(params: Tree) -> Tree:
        return ScaleByAdamState(zero_count(), zeros_like(params), zeros_like(params))

    def update(
        updates: Tree, state: ScaleByAdamState, params: Tree
    ) -> tuple[Tree, Tree]:
        count = increment(state.count)
        mu = leafwise(average(b1), updates, state.mu)
        nu = leafwise(largest, updates, state.nu)
        found = leafwise(
            lambda m, v: m / v, leafwise(bias_corrector(b1, count), mu), nu
        )
        return found, ScaleByAdamState(count, like(mu, state.mu), like(nu, state.nu))

    return stateful(ScaleByAdamState, init, update)


def scale_by_lion(
    b1: float = 0.9, b2: float = 0.99, mu_dtype: DTypeLike | None = None
) -> GradientTransformation:
    """Return Lion's transformation: the signs of averages of gradients.

    Chen et al., "Symbolic discovery of optimization algorithms", NeurIPS 2023.

    Args:
        b1: how much of the kept average is in the one whose sign is taken.
        b2: how much of the average is kept from step to step.
        mu_dtype: of the average; the parameters' by default.
    """
    fraction("b1", b1)
    fraction("b2", b2)
    dtype, seen = float_dtype(mu_dtype), average(b1)

    def init(params: Tree) -> Tree:
        return ScaleByLionState(zero_count(), zeros_like(params, dtype))

    def update(
        updates: Tree, state: ScaleByLionState, params: Tree
    ) -> tuple[Tree, Tree]:
        found = leafwise(lambda g, m: np.sign(seen(g, m)), updates, state.mu)
        mu = leafwise(average(b2), updates, state.mu)
        return found, ScaleByLionState(increment(state.count), like(mu, state.mu))

    return stateful(ScaleByLionState, init, update)


def scale_by_adadelta(rho: float = 0.9, eps: float = 1e-6) -> GradientTransformation:
    """Return Adadelta's transformation: gradients scaled to the size of past updates.

    Zeiler, "ADADELTA: an adaptive learning rate method", arXiv:1212.5701 (2012).

    Args:
        rho: how much of the averages is kept from step to step.
        eps: added under the roots.
    """
    fraction("rho", rho)

    def scale_update(update: Array, square: Array, moved: Array) -> Array:
        return np.sqrt(moved + eps) / np.sqrt(square + eps) * update

    def init(params: Tree) -> Tree:
        return ScaleByAdaDeltaState(zeros_like(params), zeros_like(params))

    def update(
        updates: Tree, state: ScaleByAdaDeltaState, params: Tree
    ) -> tuple[Tree, Tree]:
        squares = leafwise(average_square(rho), updates, state.e_g)
        found = leafwise(scale_update, updates, squares, state.e_x)
        moved = leafwise(average_square(rho), found, state.e_x)
        new = ScaleByAdaDeltaState(like(squares, state.e_g), like(moved, state.e_x))
        return found, new

    return stateful(ScaleByAdaDeltaState, init, update)
