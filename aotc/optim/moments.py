"""Transformations that keep averages of gradients and of their squares.

Averages keep the dtype that they have in the state; an update is computed in the widest
dtype of all that it reads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from aotc import numpy as np
from aotc.core.dtypes import DTypeLike
from aotc.optim.numbers import bias_corrector, fraction, increment, zero_count
from aotc.optim.transformation import GradientTransformation, stateful
from aotc.optim.trees import Tree, float_dtype, full_like, leafwise, like, zeros_like
from aotc.tracing.array import Array

__all__ = [
    "EmaState", "ScaleByRStdDevState", "ScaleByRStdDevWithCountState",
    "ScaleByRmsState", "ScaleByRmsWithCountState", "ScaleByRssState", "TraceState",
    "ema", "scale_by_rms", "scale_by_rss", "scale_by_stddev", "trace",
]  # fmt: skip


def average(decay: Any) -> Callable[[Array, Array], Array]:
    """Return a function (new, old) of one step of a moving average."""
    return lambda new, old: (1 - decay) * new + decay * old


def average_square(decay: float) -> Callable[[Array, Array], Array]:
    """Return a function (new, old) of one step of a moving average of squares."""
    return lambda new, old: (1 - decay) * np.square(new) + decay * old


# ---- of gradients -------------------------------------------------------------------


class TraceState(NamedTuple):
    """State of momentum: the sum of past updates, decayed by their age."""

    trace: Any


class EmaState(NamedTuple):
    """State of `ema`: the moving average of updates, and their number (an i32
    scalar).
    """

    count: Any
    ema: Any


def trace(
    decay: float, nesterov: bool = False, accumulator_dtype: DTypeLike | None = None
) -> GradientTransformation:
    """Return a momentum transformation: trace = update + decay * trace.

    Polyak, USSR Computational Mathematics and Mathematical Physics 4 (1964).

    Args:
        decay: how much is kept from step to step.
        nesterov: whether to look one step ahead: Sutskever et al., "On the importance
            of initialization and momentum in deep learning", ICML 2013.
        accumulator_dtype: of the momentum; the parameters' by default.
    """
    dtype = float_dtype(accumulator_dtype)

    def add_momentum(update: Array, momentum: Array) -> Array:
        return update + decay * momentum

    def init(params: Tree) -> Tree:
        return TraceState(zeros_like(params, dtype))

    def update(updates: Tree, state: TraceState, params: Tree) -> tuple[Tree, Tree]:
        new = leafwise(add_momentum, updates, state.trace)
        ahead = leafwise(add_momentum, updates, new) if nesterov else new
        return ahead, TraceState(like(new, state.trace))

    return stateful(TraceState, init, update)


def ema(
    decay: float, debias: bool = True, accumulator_dtype: DTypeLike | None = None
) -> GradientTransformation:
    """Return a transformation that gives the exponential moving average of updates.

    `ema(0.999).update(params, state)` averages parameters.

    Args:
        decay: how much is kept from step to step: at least 0, and below 1.
        debias: whether to divide by what the weights add up to, since it starts with 0.
        accumulator_dtype: of the average; the parameters' by default.
    """
    fraction("decay", decay)
    dtype = float_dtype(accumulator_dtype)

    def init(params: Tree) -> Tree:
        return EmaState(zero_count(), zeros_like(params, dtype))

    def update(updates: Tree, state: EmaState, params: Tree) -> tuple[Tree, Tree]:
        count = increment(state.count)
        new = leafwise(average(decay), updates, state.ema)
        found = leafwise(bias_corrector(decay, count), new) if debias else new
        return found, EmaState(count, like(new, state.ema))

    return stateful(EmaState, init, update)


# ---- of squares ---------------------------------------------------------------------


class ScaleByRssState(NamedTuple):
    """State of Adagrad: the sum of squared gradients."""

    sum_of_squares: Any


def scale_by_rss(
    initial_accumulator_value: float = 0.1, eps: float = 1e-7
) -> GradientTransformation:
    """Return a transformation: updates over the root of the sum of all their squares.

    Duchi, Hazan and Singer, Journal of Machine Learning Research 12 (2011).

    Args:
        initial_accumulator_value: what the sum starts with.
        eps: added under the root.
    """

    def scale_update(update: Array, total: Array) -> Array:
        factor = np.rsqrt(total + eps)
        return np.where(np.greater(total, 0.0), factor, 0.0) * update

    def init(params: Tree) -> Tree:
        return ScaleByRssState(full_like(params, initial_accumulator_value))

    def update(
        updates: Tree, state: ScaleByRssState, params: Tree
    ) -> tuple[Tree, Tree]:
        old = state.sum_of_squares
        total = leafwise(lambda g, t: np.square(g) + t, updates, old)
        return leafwise(scale_update, updates, total), ScaleByRssState(like(total, old))

    return stateful(ScaleByRssState, init, update)


class ScaleByRmsState(NamedTuple):
    """State of RMSProp: the moving average of squared gradients."""

    nu: Any


class ScaleByRmsWithCountState(NamedTuple):
    """State of RMSProp: the moving average of squared gradients, and their number."""

    count: Any
    nu: Any


class ScaleByRStdDevState(NamedTuple):
    """State of centered RMSProp: moving averages of gradients and of their squares."""

    mu: Any
    nu: Any


class ScaleByRStdDevWithCountState(NamedTuple):
    """State of centered RMSProp: averages of gradients, of squares, and their
    number.
    """

    count: Any
    mu: Any
    nu: Any


def scale_by_rms(
    decay: float = 0.9,
    eps: float = 1e-8,
    initial_scale: float = 0.0,
    eps_in_sqrt: bool = True,
    bias_correction: bool = False,
) -> GradientTransformation:
    """Return a transformation: updates over the root of the average of their squares.

    Tieleman and Hinton, "Lecture 6.5: RMSProp", Coursera (2012).

    Args:
        decay: how much is kept from step to step: at least 0, and below 1.
        eps: added to what is divided by.
        initial_scale: what the average starts with.
        eps_in_sqrt: whether `eps` is added under the root.
        bias_correction: whether to divide by what the weights add up to.
    """
    fraction("decay", decay)
    divide = _division_by_root(eps, eps_in_sqrt)

    def init(params: Tree) -> Tree:
        nu = full_like(params, initial_scale)
        if bias_correction:
            return ScaleByRmsWithCountState(zero_count(), nu)
        return ScaleByRmsState(nu)

    def update(updates: Tree, state: Any, params: Tree) -> tuple[Tree, Tree]:
        nu = leafwise(average_square(decay), updates, state.nu)
        kept = state._replace(nu=like(nu, state.nu))
        if bias_correction:
            kept = kept._replace(count=increment(state.count))
            nu = leafwise(bias_corrector(decay, kept.count), nu)
        return leafwise(divide, updates, nu), kept

    kind = ScaleByRmsWithCountState if bias_correction else ScaleByRmsState
    return stateful(kind, init, update)


def scale_by_stddev(
    decay: float = 0.9,
    eps: float = 1e-8,
    initial_scale: float = 0.0,
    eps_in_sqrt: bool = True,
    bias_correction: bool = False,
) -> GradientTransformation:
    """Return a transformation: updates over their moving standard deviation.

    Graves, "Generating sequences with recurrent neural networks", arXiv:1308.0850
    (2013). Arguments are those of `scale_by_rms`.
    """
    fraction("decay", decay)
    divide = _division_by_root(eps, eps_in_sqrt)

    def scale_update(update: Array, mu: Array, nu: Array) -> Array:
        return divide(update, nu - np.square(mu))

    def init(params: Tree) -> Tree:
        averages = zeros_like(params), full_like(params, initial_scale)
        if bias_correction:
            return ScaleByRStdDevWithCountState(zero_count(), *averages)
        return ScaleByRStdDevState(*averages)

    def update(updates: Tree, state: Any, params: Tree) -> tuple[Tree, Tree]:
        mu = leafwise(average(decay), updates, state.mu)
        nu = leafwise(average_square(decay), updates, state.nu)
        kept = state._replace(mu=like(mu, state.mu), nu=like(nu, state.nu))
        if bias_correction:
            kept = kept._replace(count=increment(state.count))
            correct = bias_corrector(decay, kept.count)
            mu, nu = leafwise(correct, mu), leafwise(correct, nu)
        return leafwise(scale_update, updates, mu, nu), kept

    kind = ScaleByRStdDevWithCountState if bias_correction else ScaleByRStdDevState
    return stateful(kind, init, update)


def _division_by_root(eps: float, eps_in_sqrt: bool) -> Callable[[Array, Array], Array]:
    """Return a function (update, square) that divides by the root of `square`."""
    if eps_in_sqrt:
        return lambda update, square: np.rsqrt(square + eps) * update
    return lambda update, square: update / (np.sqrt(square) + eps)
