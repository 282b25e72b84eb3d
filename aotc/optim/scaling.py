"""Transformations that multiply updates by numbers, and that add to them."""

from __future__ import annotations

from typing import Any, NamedTuple

from aotc import numpy as np
from aotc.optim.masking import masked
from aotc.optim.numbers import (
    Rate,
    Schedule,
    in_dtype,
    increment,
    number,
    rate,
    scheduled_value,
    zero_count,
)
from aotc.optim.transformation import (
    GradientTransformation,
    identity,
    require_params,
    stateful,
    stateless,
)
from aotc.optim.trees import Tree, leafwise
from aotc.tracing.array import Array
from aotc.tracing.conversion import ArrayLike

__all__ = [
    "ScaleByScheduleState", "WeightDecaySchedule", "add_decayed_weights", "scale",
    "scale_by_learning_rate", "scale_by_param_block_norm", "scale_by_param_block_rms",
    "scale_by_schedule", "scale_by_trust_ratio",
]  # fmt: skip

# ---- by rates -----------------------------------------------------------------------


class ScaleByScheduleState(NamedTuple):
    """State of a schedule: the number of steps, an i32 scalar."""

    count: Any


def scale(step_size: Any) -> GradientTransformation:
    """Return a transformation: step_size * updates.

    Args:
        step_size: a number or a float scalar.
    """
    size = number("step_size", step_size)
    return stateless(lambda updates, params: _scale_updates(size, updates))


def scale_by_schedule(step_size_fn: Schedule) -> GradientTransformation:
    """Return a transformation: step_size_fn(count) * updates.

    Args:
        step_size_fn: gets the number of steps so far, an i32 scalar; returns a number
            or a float scalar.
    """

    def init(params: Tree) -> Tree:
        return ScaleByScheduleState(zero_count())

    def update(
        updates: Tree, state: ScaleByScheduleState, params: Tree
    ) -> tuple[Tree, Tree]:
        size = scheduled_value("step_size_fn", step_size_fn, state.count)
        new = ScaleByScheduleState(increment(state.count))
        return _scale_updates(size, updates), new

    return stateful(ScaleByScheduleState, init, update)


def scale_by_learning_rate(
    learning_rate: Rate | None = None, *, flip_sign: bool = True
) -> GradientTransformation:
    """Return a transformation: -learning_rate * updates.

    Args:
        learning_rate: a number, a float scalar, or a schedule; None leaves updates as
            they are.
        flip_sign: False for learning_rate * updates.
    """
    if learning_rate is None:
        return identity()
    found = rate("learning_rate", learning_rate)
    sign = -1 if flip_sign else 1
    if not callable(found):
        return scale(sign * found)
    return scale_by_schedule(
        lambda count: sign * scheduled_value("learning_rate", found, count)
    )


def _scale_updates(size: ArrayLike, updates: Tree) -> Tree:
    """Multiply each array of a tree by a number."""
    return leafwise(lambda u: in_dtype(size, u.dtype) * u, updates)


# ---- by norms of each array ---------------------------------------------------------


def scale_by_trust_ratio(
    min_norm: float = 0.0, trust_coefficient: float = 1.0, eps: float = 0.0
) -> GradientTransformation:
    """Return a transformation: each array scaled by |parameters| / |updates|.

    Where one of the norms is 0, updates stay. You, Gitman and Ginsburg, "Large batch
    training of convolutional networks", arXiv:1708.03888 (2017).

    Args:
        min_norm: what smaller norms count as.
        trust_coefficient: how much of the ratio.
        eps: against division by 0.
    """

    def scale_update(update: Array, param: Array) -> Array:
        of_param = np.maximum(norm(param), min_norm)
        of_update = np.maximum(norm(update), min_norm)
        ratio = trust_coefficient * of_param / (of_update + eps)
        unknown = np.logical_or(np.equal(of_param, 0.0), np.equal(of_update, 0.0))
        return update * in_dtype(np.where(unknown, 1.0, ratio), update.dtype)

    return stateless(
        lambda updates, ps: leafwise(scale_update, updates, require_params(ps))
    )


def scale_by_param_block_norm(min_scale: float = 1e-3) -> GradientTransformation:
    """Return a transformation: each array scaled by its parameters' norm."""

    def scale_update(update: Array, param: Array) -> Array:
        return update * in_dtype(np.maximum(norm(param), min_scale), update.dtype)

    return stateless(
        lambda updates, ps: leafwise(scale_update, updates, require_params(ps))
    )


def scale_by_param_block_rms(min_scale: float = 1e-3) -> GradientTransformation:
    """Return a transformation: each array scaled by its parameters' RMS."""

    def scale_update(update: Array, param: Array) -> Array:
        size = np.maximum(root_mean_square(param), min_scale)
        return update * in_dtype(size, update.dtype)

    return stateless(
        lambda updates, ps: leafwise(scale_update, updates, require_params(ps))
    )


def norm(x: Array) -> Array:
    """The square root of the sum of squares, in f32 or f64."""
    return np.sqrt(np.sum(np.square(wide(x))))


def root_mean_square(x: Array) -> Array:
    """The square root of the mean of squares, in f32 or f64."""
    return np.sqrt(np.mean(np.square(wide(x))))


def wide(x: Array) -> Array:
    """Cast to f32, unless it is f64, so that squares do not overflow f16."""
    return x if x.dtype == "f64" else x.astype("f32")


# ---- weight decay -------------------------------------------------------------------


class WeightDecaySchedule(NamedTuple):
    """State of a weight decay schedule: the number of steps, an i32 scalar."""

    count: Any


def add_decayed_weights(
    weight_decay: Rate = 0.0, mask: object = None
) -> GradientTransformation:
    """Return a transformation: updates + weight_decay * parameters.

    Loshchilov and Hutter, "Decoupled weight decay regularization", ICLR 2019.

    Args:
        weight_decay: a number, a float scalar, or a schedule.
        mask: which parameters decay; see `masked`. All by default.
    """
    decay = rate("weight_decay", weight_decay)
    added = _scheduled_decay(decay) if callable(decay) else _decay(decay)
    return added if mask is None else masked(added, mask)


def _decay(decay: ArrayLike) -> GradientTransformation:
    """Return a transformation that adds a constant weight decay."""
    if not isinstance(decay, Array) and decay == 0:
        return identity()
    return stateless(
        lambda updates, ps: _with_weights(updates, decay, require_params(ps))
    )


def _scheduled_decay(schedule: Schedule) -> GradientTransformation:
    """Return a transformation that adds a scheduled weight decay."""

    def init(params: Tree) -> Tree:
        return WeightDecaySchedule(zero_count())

    def update(
        updates: Tree, state: WeightDecaySchedule, params: Tree
    ) -> tuple[Tree, Tree]:
        decay = scheduled_value("weight_decay", schedule, state.count)
        new = WeightDecaySchedule(increment(state.count))
        return _with_weights(updates, decay, require_params(params)), new

    return stateful(WeightDecaySchedule, init, update)


def _with_weights(updates: Tree, decay: ArrayLike, params: Tree) -> Tree:
    """Return updates + decay * parameters, leaf by leaf."""
    return leafwise(lambda u, p: u + in_dtype(decay, u.dtype) * p, updates, params)
