"""Optimizers as pure functions, in optax's shape: `init(params)` and `update`.

    optimizer = optim.adam(1e-3)
    moments = optimizer.init(params)
    params, moments = optimizer.update(grads, moments, params)

Parameters, gradients and moments are pytrees; `update` returns new ones. It compiles
into the training step like everything else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from aotc import numpy as np
from aotc.frontends.tracing import lift
from aotc.pytree import tree_map

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
        mean = tree_map(lambda m, g: b1 * lift(m) + (1 - b1) * g, moments["mean"], grads)
        square = tree_map(
            lambda v, g: b2 * lift(v) + (1 - b2) * g * g, moments["square"], grads
        )
        steps = count.astype("f32")
        mean_scale = 1 / (1 - np.power(lift(b1, "f32"), steps))
        square_scale = 1 / (1 - np.power(lift(b2, "f32"), steps))

        def moved(p: Any, m: Any, v: Any) -> Any:
            p = lift(p)
            size = np.sqrt(v * square_scale.astype(p.dtype)) + eps
            return p - learning_rate * (m * mean_scale.astype(p.dtype)) / size

        new = tree_map(moved, params, mean, square)
        return new, {"count": count, "mean": mean, "square": square}

    return Optimizer(init, update)
