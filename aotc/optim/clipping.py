"""Transformations that bound updates."""

from __future__ import annotations

from functools import reduce

from aotc import numpy as np
from aotc.optim.numbers import in_dtype
from aotc.optim.scaling import root_mean_square, wide
from aotc.optim.transformation import GradientTransformation, stateless
from aotc.optim.trees import Tree, float_leaves, in_widest, leafwise
from aotc.tracing.array import Array

__all__ = ["clip", "clip_by_block_rms", "clip_by_global_norm", "global_norm"]


def clip(max_delta: float) -> GradientTransformation:
    """Return a transformation that clips each element to [-max_delta, max_delta]."""
    return stateless(
        lambda updates, params: leafwise(
            lambda u: np.clip(u, -max_delta, max_delta), updates
        )
    )


def clip_by_global_norm(max_norm: float) -> GradientTransformation:
    """Return a transformation that scales all updates to a norm of at most `max_norm`.

    Pascanu, Mikolov and Bengio, "On the difficulty of training recurrent neural
    networks", ICML 2013.
    """

    def clip_tree(updates: Tree, params: Tree) -> Tree:
        norm = global_norm(updates)
        factor = np.where(np.less(norm, max_norm), 1.0, max_norm / norm)
        return leafwise(lambda u: u * in_dtype(factor, u.dtype), updates)

    return stateless(clip_tree)


def clip_by_block_rms(threshold: float) -> GradientTransformation:
    """Return a transformation that limits the root mean square of each array.

    Shazeer and Stern, "Adafactor", ICML 2018, section 6.
    """

    def clip_block(update: Array) -> Array:
        excess = np.maximum(root_mean_square(update) / threshold, 1.0)
        return update / in_dtype(excess, update.dtype)

    return stateless(lambda updates, params: leafwise(clip_block, updates))


def global_norm(updates: Tree) -> Array:
    """The square root of the sum of the squares of all elements of a pytree.

    Args:
        updates: a pytree of float arrays.

    Returns:
        An f32 scalar, or an f64 one where there are f64 arrays.
    """
    sums = [np.sum(np.square(wide(x))) for x in float_leaves(updates)]
    return np.sqrt(reduce(np.add, in_widest([np.zeros(()), *sums])))
