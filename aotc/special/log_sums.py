"""Sums of exponentials, by their logarithms."""

from __future__ import annotations

import math

from aotc.numpy.axes import Axes, other_axes, rising_axes
from aotc.numpy.elementwise import (
    absolute,
    add,
    equal,
    less,
    multiply,
    subtract,
    where,
)
from aotc.numpy.exponential import exp
from aotc.numpy.reducing import lowest
from aotc.numpy.reducing import max as largest
from aotc.numpy.reducing import sum as total_over
from aotc.numpy.shaping import reshape
from aotc.tracing.array import Array
from aotc.tracing.conversion import ArrayLike, as_float
from aotc.tracing.tracing import emit

__all__ = ["logsumexp"]


def logsumexp(
    a: ArrayLike,
    axis: Axes = None,
    b: ArrayLike | None = None,
    *,
    keepdims: bool = False,
) -> Array:
    """Return ln(sum(b e**a)) over `axis` without overflow; b is 1 by default.

    Shifted by the largest element, so that nothing overflows. The derivative is the
    softmax; it is zero where the sum is.
    """
    x = as_float(a)
    axes = rising_axes(x, axis)
    top = largest(
        emit("stop_gradient", x), axes, keepdims=True, initial=lowest(x.dtype)
    )
    finite = less(absolute(top), math.inf)
    shift = where(finite, top, 0.0)
    parts = exp(subtract(x, shift))
    total = total_over(parts if b is None else multiply(parts, b), axes, keepdims=True)
    empty = equal(total, 0.0)
    logarithm = emit("log", where(empty, 1.0, total))
    found = where(empty, -math.inf, add(logarithm, shift))
    return (
        found if keepdims else reshape(found, [x.shape[i] for i in other_axes(x, axes)])
    )
