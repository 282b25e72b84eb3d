"""Draws out of a set: categories, choices and permutations. None is differentiable."""

from __future__ import annotations

import math
from typing import Any

from aotc import numpy as np
from aotc.dialects.types import Shape, Size, element_count
from aotc.numpy.axes import one_axis
from aotc.numpy.broadcasting import ShapeLike, as_shape
from aotc.random import exact
from aotc.random.distributions import gumbel, randint
from aotc.random.threefry import bits
from aotc.tracing.array import Array
from aotc.tracing.call_sizes import compiler_size
from aotc.tracing.conversion import ArrayLike, as_float, lift
from aotc.tracing.source_locations import fail
from aotc.tracing.tracing import emit

__all__ = ["categorical", "choice", "permutation"]


def categorical(
    key: ArrayLike, logits: ArrayLike, axis: int = -1, shape: ShapeLike | None = None
) -> Array:
    """Draw indices (i32) along `axis`, with probabilities softmax(logits).

    The largest of logits + Gumbel noise (Gumbel 1954).

    Args:
        key: the key.
        logits: logarithms of the probabilities, up to a constant.
        axis: of the categories.
        shape: of the result; it ends with that of logits without `axis`, its default.
    """
    logits = as_float(logits)
    number = one_axis(logits, axis)
    batch = tuple(n for i, n in enumerate(logits.type.shape) if i != number)
    wanted = batch if shape is None else as_shape(shape)
    extra = len(wanted) - len(batch)
    if extra < 0 or wanted[extra:] != batch:
        fail(
            "shape-mismatch",
            f"expected a shape that ends with {batch}, that of logits without axis "
            f"{axis}; got {wanted}",
        )
    noise = gumbel(key, (*wanted[:extra], *logits.shape), logits.dtype)
    return np.argmax(logits + noise, extra + number)


def permutation(
    key: ArrayLike, x: ArrayLike, axis: int = 0, independent: bool = False
) -> Array:
    """Shuffle `x` along an axis, or the integers below an integer `x`.

    In the order of random words of 32 bits: some two of n are equal, and stay in order,
    with probability n**2 / 2**33. With `independent`, each line along the axis has its
    own order.
    """
    if isinstance(x, Size):
        return _order(bits(key, (x,)))
    array = lift(x)
    number = one_axis(array, axis)
    if independent:
        order = _order(bits(key, array.shape), number)
        return np.take_along_axis(array, order, number)
    return np.take(array, _order(bits(key, (array.shape[number],))), number)


def _order(x: Array, axis: int = 0, descending: bool = False) -> Array:
    """Return the indices that sort `x` along an axis."""
    count = (x.shape[axis],)
    return emit("argsort", x, axis=axis, descending=descending, count=count)


def choice(
    key: ArrayLike,
    a: Any,
    shape: ShapeLike = (),
    replace: bool = True,
    p: ArrayLike | None = None,
    axis: int = 0,
) -> Array:
    """Draw elements of `a` along an axis, or of the integers below an integer `a`.

    Args:
        key: the key.
        a: what to choose from.
        shape: of the choices, in the place of the axis.
        replace: whether an element may be chosen more than once.
        p: the probabilities, which need not add up to 1; all alike for None.
        axis: of the elements.
    """
    array = None if isinstance(a, Size) else lift(a)
    number = 0 if array is None else one_axis(array, axis)
    count = compiler_size(a) if array is None else array.type.shape[number]
    wanted = as_shape(shape)
    chosen = _positions(key, count, wanted, replace, _logits(p, count))
    return chosen if array is None else np.take(array, chosen, number)


def _logits(p: ArrayLike | None, count: Size) -> Array | None:
    """Return the logarithms of weights; None for None."""
    if p is None:
        return None
    weights = as_float(p)
    if weights.type.shape != (count,):
        fail("shape-mismatch", f"expected {count} probabilities; got {weights.type}")
    return np.where(weights > 0.0, exact.log(weights), -math.inf)


def _positions(
    key: ArrayLike, count: Size, shape: Shape, replace: bool, logits: Array | None
) -> Array:
    """Draw indices below `count`, with or without replacement."""
    if replace and logits is None:
        return randint(key, shape, 0, count)
    if replace and logits is not None:
        return categorical(key, logits, shape=shape)
    number = element_count(shape)
    if isinstance(count, int) and isinstance(number, int) and number > count:
        fail("bad-shape", f"cannot choose {number} of {count} without replacement")
    if logits is None:
        order = permutation(key, count)
    else:  # the largest of logits + noise, in order (Efraimidis and Spirakis 2006)
        noise = gumbel(key, logits.shape, logits.dtype)
        order = _order(logits + noise, descending=True)
    return np.reshape(order[:number], shape)
