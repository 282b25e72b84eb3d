"""Optimizers as pure functions, in optax's shape: `init(params)` and `update`.

    optimizer = optim.adam(1e-3)
    moments = optimizer.init(params)
    params, moments = optimizer.update(grads, moments, params)

Parameters, gradients and moments are pytrees; `update` returns new ones. It compiles
into the training step like everything else.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from aotc import numpy as np
from aotc.frontends.array import Array
from aotc.frontends.calls import guard
from aotc.frontends.conversion import lift
from aotc.pytree import tree_map

__all__ = ["Optimizer", "adam", "sgd"]

Tree = Any


@dataclass(frozen=True)
class Optimizer:
    """A pair of pure functions.

    Args:
        init: params → moments.
        update: (grads, moments, params) → (new params, new moments).
    """

    init: Callable[[Tree], Tree]
    update: Callable[[Tree, Tree, Tree], tuple[Tree, Tree]]


def sgd(learning_rate: float, momentum: float = 0.0) -> Optimizer:
    """Stochastic gradient descent: v = momentum v + g; p = p - learning_rate v."""

    def init(params: Tree) -> Tree:
        return {"velocity": tree_map(np.zeros_like, params)} if momentum else {}

    def update(grads: Tree, moments: Tree, params: Tree) -> tuple[Tree, Tree]:
        direction = grads
        if momentum:
            direction = tree_map(
                lambda v, g: momentum * lift(v) + g, moments["velocity"], grads
            )
            moments = {"velocity": direction}
        step = tree_map(lambda p, d: lift(p) - learning_rate * d, params, direction)
        return step, moments

    return Optimizer(init, update)


def adam(
    learning_rate: float, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8
) -> Optimizer:
    """Adam with bias correction (Kingma and Ba, 2015)."""

    def init(params: Tree) -> Tree:
        return {
            "count": np.zeros((), "i32"),
            "mean": tree_map(np.zeros_like, params),
            "square": tree_map(np.zeros_like, params),
        }

    def update(grads: Tree, moments: Tree, params: Tree) -> tuple[Tree, Tree]:
        count = lift(moments["count"]) + 1
        mean = tree_map(_average(b1), moments["mean"], grads)
        square = tree_map(_average(b2), moments["square"], tree_map(np.square, grads))
        steps = count.astype("f32")
        rate = learning_rate / _weight(b1, steps)
        spread = 1.0 / _weight(b2, steps)

        def moved(p: Any, m: Array, v: Array) -> Array:
            size = np.sqrt(v * spread.astype(v.dtype)) + eps
            return lift(p) - rate.astype(m.dtype) * m / size

        new = tree_map(moved, params, mean, square)
        return new, {"count": count, "mean": mean, "square": square}

    return Optimizer(init, update)


def _average(decay: float) -> Callable[[Any, Any], Array]:
    """One step of an exponentially weighted average: of the old one and a new value."""
    return lambda old, new: decay * lift(old) + (1 - decay) * lift(new)


def _weight(decay: float, steps: Array) -> Array:
    """`1 - decay ** steps`: what the weights of the values averaged so far add up to.

    Without the cancellation that the formula suffers in f32 while `steps` is small.
    """
    if decay == 0:
        return np.ones_like(steps)
    return -np.expm1(steps * math.log(decay))


guard(globals(), __all__)
