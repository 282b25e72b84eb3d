"""Losses scaled up, so that small gradients do not vanish in f16."""

from __future__ import annotations

from typing import Any, NamedTuple

from aotc import numpy as np
from aotc.optim.numbers import increment, natural, zero_count
from aotc.optim.transformation import GradientTransformation, stateful
from aotc.optim.trees import Tree, leafwise, zeros_like
from aotc.optim.wrapping import all_finite, select_tree
from aotc.tracing.conversion import lift
from aotc.tracing.source_locations import fail

__all__ = ["DynamicLossScaleState", "dynamic_loss_scale"]


class DynamicLossScaleState(NamedTuple):
    """State of loss scaling: the scale, and how many steps it has held.

    Args:
        scale: what the loss is multiplied by before it is differentiated (f32).
        finite_steps: the number of finite gradients since it last changed (i32).
        inner_state: the state of the optimizer.
    """

    scale: Any
    finite_steps: Any
    inner_state: Any


def dynamic_loss_scale(
    inner: GradientTransformation,
    initial_scale: float = 2.0**15,
    growth_interval: int = 2000,
    factor: float = 2.0,
    minimum_scale: float = 1.0,
) -> GradientTransformation:
    """Return `inner` for gradients of a scaled loss; the scale adapts to overflows.

        state = optimizer.init(params)
        grads = aotc.grad(lambda p: loss(p) * state.scale)(params)
        updates, state = optimizer.update(grads, state, params)

    The gradients are divided by the scale again. Where one of them is infinite or NaN,
    the step is left out and the scale divided by `factor`; after `growth_interval`
    finite ones in a row it is multiplied by it. (Micikevicius et al., "Mixed precision
    training", 2018, section 3.2.)

    Args:
        inner: any optimizer.
        initial_scale: of the loss.
        growth_interval: how many finite gradients make the scale grow.
        factor: above 1; a power of 2 rounds nothing.
        minimum_scale: the least scale.
    """
    natural("growth_interval", growth_interval, 1)
    if not (factor > 1 and initial_scale >= minimum_scale > 0):
        fail(
            "bad-scale",
            "expected a factor above 1 and 0 < minimum_scale <= initial_scale; got "
            f"{factor}, {minimum_scale} and {initial_scale}",
        )

    def init(params: Tree) -> Tree:
        scale = np.asarray(initial_scale, "f32")
        return DynamicLossScaleState(scale, zero_count(), inner.init(params))

    def update(
        updates: Tree, state: DynamicLossScaleState, params: Tree
    ) -> tuple[Tree, Tree]:
        scale = lift(state.scale)
        grads = leafwise(lambda g: g / scale.astype(g.dtype), updates)
        finite = all_finite(updates)
        steps = np.where(finite, increment(state.finite_steps), 0)
        grows = np.greater_equal(steps, growth_interval)
        smaller = np.maximum(scale / factor, minimum_scale)
        larger = np.where(grows, scale * factor, scale)
        found, inner_state = inner.update(grads, state.inner_state, params)
        new = DynamicLossScaleState(
            scale=np.where(finite, larger, smaller),
            finite_steps=np.where(grows, 0, steps),
            inner_state=select_tree(finite, inner_state, state.inner_state),
        )
        return select_tree(finite, found, zeros_like(found)), new

    return stateful(DynamicLossScaleState, init, update)
