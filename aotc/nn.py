"""Layers and losses as functions: parameters are arguments, never hidden state.

Images are N, spatial…, C ("NHWC"); kernels are spatial…, C / groups, F ("HWIO").
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from aotc import numpy as np
from aotc.dialects.types import Size
from aotc.errors import InputError
from aotc.frontends.tracing import Array, emit, lift, scope, user_line

__all__ = [
    "avg_pool",
    "conv",
    "conv1d",
    "conv2d",
    "conv3d",
    "cross_entropy",
    "dense",
    "dropout",
    "embedding",
    "gelu",
    "layer_norm",
    "log_softmax",
    "max_pool",
    "one_hot",
    "relu",
    "scope",
    "sigmoid",
    "silu",
    "softmax",
    "stop_gradient",
]

ArrayLike = Any
Window = int | Sequence[int]
Padding = str | int | Sequence[Any]


def relu(x: ArrayLike) -> Array:
    """max(x, 0)."""
    return emit("relu", lift(x))


def gelu(x: ArrayLike, approximate: bool = False) -> Array:
    """x * Phi(x); `approximate` takes the tanh form."""
    return emit("gelu", lift(x), form="tanh" if approximate else "exact")


def sigmoid(x: ArrayLike) -> Array:
    """1 / (1 + e**-x)."""
    return emit("logistic", lift(x))


def silu(x: ArrayLike) -> Array:
    """x * sigmoid(x)."""
    return np.multiply(x, sigmoid(x))


def softmax(x: ArrayLike, axis: int = -1) -> Array:
    """e**x / sum(e**x) along `axis`, without overflow."""
    x = lift(x)
    return emit("softmax", x, axis=np._axis(x, axis))


def log_softmax(x: ArrayLike, axis: int = -1) -> Array:
    """The logarithm of softmax, without overflow or underflow."""
    x = lift(x)
    return emit("log_softmax", x, axis=np._axis(x, axis))


def stop_gradient(x: ArrayLike) -> Array:
    """x, as a constant to differentiation."""
    return emit("stop_gradient", lift(x))


def layer_norm(
    x: ArrayLike, scale: ArrayLike, bias: ArrayLike, epsilon: float = 1e-5
) -> Array:
    """Normalised over the last axis, times `scale`, plus `bias` (both of its size)."""
    return emit("layer_norm", lift(x), lift(scale), lift(bias), epsilon=float(epsilon))


def dense(x: ArrayLike, kernel: ArrayLike, bias: ArrayLike | None = None) -> Array:
    """x @ kernel + bias, over the last axis of x."""
    y = np.matmul(x, kernel)
    return y if bias is None else np.add(y, bias)


def embedding(table: ArrayLike, indices: ArrayLike) -> Array:
    """Rows of `table` at `indices`."""
    return np.take(table, indices, 0)


def one_hot(indices: ArrayLike, count: int, dtype: Any = "f32") -> Array:
    """1 at the position that each index names along a new last axis, 0 elsewhere."""
    indices = lift(indices)
    shape = (*indices.shape, count)
    positions = emit("iota", shape=shape, axis=indices.ndim, dtype=indices.dtype)
    return np.astype(np.equal(positions, np.expand_dims(indices, -1)), dtype)


def cross_entropy(logits: ArrayLike, labels: ArrayLike) -> Array:
    """-log softmax(logits) at the labelled class, per example; labels are integers."""
    logits = lift(logits)
    classes = logits.shape[-1]
    if not isinstance(classes, int):
        raise InputError(
            "symbolic-size",
            f"expected a fixed number of classes; got {logits.type}",
            where=user_line(),
        )
    chosen = np.multiply(one_hot(labels, classes, logits.dtype), log_softmax(logits))
    return np.negative(np.sum(chosen, -1))


def dropout(key: ArrayLike, x: ArrayLike, rate: float) -> Array:
    """Zero with probability `rate`, scaled by 1 / (1 - rate) otherwise (training)."""
    from aotc import random

    x = lift(x)
    keep = random.bernoulli(key, 1 - rate, x.shape)
    return np.where(keep, np.multiply(x, 1 / (1 - rate)), 0.0)


# ---- convolution and pooling --------------------------------------------------------


def conv(
    x: ArrayLike,
    kernel: ArrayLike,
    bias: ArrayLike | None = None,
    *,
    strides: Window = 1,
    padding: Padding = "VALID",
    dilation: Window = 1,
    groups: int = 1,
) -> Array:
    """Convolution over 1 to 3 spatial axes.

    Args:
        x: N, spatial…, C.
        kernel: spatial…, C / groups, F.
        bias: F, or None.
        strides: steps between windows.
        padding: "VALID", "SAME" (as many positions as size / stride, rounded up), an
            int, or (low, high) per spatial axis.
        dilation: distance between the elements of a window.
        groups: channel groups that only see features of their own group.
    """
    x, kernel = lift(x), lift(kernel)
    spatial = x.ndim - 2
    steps, spread = _each(strides, spatial), _each(dilation, spatial)
    window = [_fixed(n, "kernel") for n in kernel.shape[:-2]]
    y = emit(
        "conv_general",
        x,
        kernel,
        strides=steps,
        padding=_padding(padding, x, window, steps, spread),
        dilation=spread,
        groups=groups,
    )
    return y if bias is None else np.add(y, bias)


conv1d = conv2d = conv3d = conv


def max_pool(
    x: ArrayLike, window: Window, strides: Window | None = None, padding: Padding = "VALID"
) -> Array:
    """The largest element of each window; windows touch unless `strides` is given."""
    x = lift(x)
    return emit("max_pool", x, **_pooling(x, window, strides, padding))


def avg_pool(
    x: ArrayLike, window: Window, strides: Window | None = None, padding: Padding = "VALID"
) -> Array:
    """The mean of each window; zeros around the image do not count."""
    x = lift(x)
    attributes = _pooling(x, window, strides, padding)
    total = emit("sum_pool", x, **attributes)
    if not [n for n in attributes["padding"] if n]:
        return np.divide(total, float(math.prod(attributes["window"])))
    return np.divide(total, emit("sum_pool", np.ones_like(x), **attributes))


def _pooling(
    x: Array, window: Window, strides: Window | None, padding: Padding
) -> dict[str, Any]:
    spatial = x.ndim - 2
    sizes = _each(window, spatial)
    steps = sizes if strides is None else _each(strides, spatial)
    around = _padding(padding, x, sizes, steps, (1,) * spatial)
    return {"window": sizes, "strides": steps, "padding": around}


def _each(value: Window, spatial: int) -> tuple[int, ...]:
    return (value,) * spatial if isinstance(value, int) else tuple(value)


def _fixed(size: Size, what: str) -> int:
    if isinstance(size, int):
        return size
    raise InputError(
        "symbolic-size", f"expected a {what} of fixed size; got {size}", where=user_line()
    )


def _padding(
    padding: Padding,
    x: Array,
    window: Sequence[int],
    strides: Sequence[int],
    dilation: Sequence[int],
) -> tuple[int, ...]:
    """Low and high padding per spatial axis, in a row."""
    spatial = len(window)
    if isinstance(padding, int):
        return (padding,) * (2 * spatial)
    if not isinstance(padding, str):
        return tuple(n for pair in padding for n in pair)
    if padding.upper() == "VALID":
        return (0,) * (2 * spatial)
    if padding.upper() != "SAME":
        raise InputError(
            "bad-padding",
            f"expected padding 'SAME', 'VALID', an int or (low, high) pairs; got {padding!r}",
            where=user_line(),
        )
    sides = []
    for size, w, s, d in zip(x.shape[1:-1], window, strides, dilation, strict=True):
        reach = d * (w - 1)
        if s == 1:
            total = reach
        else:
            fixed = _fixed(size, "image, for padding 'SAME' with strides,")
            total = max((-(-fixed // s) - 1) * s + reach + 1 - fixed, 0)
        sides += [total // 2, total - total // 2]
    return tuple(sides)
