"""Layers and losses as functions: parameters are arguments, never hidden state.

Images are N, spatial…, C ("NHWC"); kernels are spatial…, C / groups, F ("HWIO").
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NoReturn

from aotc import dtypes
from aotc import numpy as np
from aotc.dialects.types import Size
from aotc.frontends.array import Array
from aotc.frontends.axes import one_axis
from aotc.frontends.conversion import ArrayLike, as_float, lift
from aotc.frontends.places import fail, scope
from aotc.frontends.tracing import emit

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

Window = int | Sequence[int]
Padding = str | int | Sequence[Any]


def relu(x: ArrayLike) -> Array:
    """`max(x, 0)`."""
    return emit("relu", lift(x))


def gelu(x: ArrayLike, approximate: bool = False) -> Array:
    """`x * Phi(x)`; `approximate` takes the tanh form."""
    return emit("gelu", as_float(x), form="tanh" if approximate else "exact")


def sigmoid(x: ArrayLike) -> Array:
    """`1 / (1 + e**-x)`."""
    return emit("logistic", as_float(x))


def silu(x: ArrayLike) -> Array:
    """`x * sigmoid(x)`."""
    x = as_float(x)
    return np.multiply(x, sigmoid(x))


def softmax(x: ArrayLike, axis: int = -1) -> Array:
    """`e**x / sum(e**x)` along `axis`, without overflow."""
    x = as_float(x)
    return emit("softmax", x, axis=one_axis(x, axis))


def log_softmax(x: ArrayLike, axis: int = -1) -> Array:
    """The logarithm of softmax, without overflow or underflow."""
    x = as_float(x)
    return emit("log_softmax", x, axis=one_axis(x, axis))


def stop_gradient(x: ArrayLike) -> Array:
    """The same values, as a constant to differentiation."""
    return emit("stop_gradient", lift(x))


def layer_norm(
    x: ArrayLike, scale: ArrayLike, bias: ArrayLike, epsilon: float = 1e-5
) -> Array:
    """Normalised over the last axis, times `scale`, plus `bias` (both of its size)."""
    return emit("layer_norm", lift(x), lift(scale), lift(bias), epsilon=float(epsilon))


def dense(x: ArrayLike, kernel: ArrayLike, bias: ArrayLike | None = None) -> Array:
    """`x @ kernel + bias`, over the last axis of x."""
    y = np.matmul(x, kernel)
    return y if bias is None else np.add(y, bias)


def embedding(table: ArrayLike, indices: ArrayLike) -> Array:
    """Rows of `table` at `indices`; those out of bounds are clipped."""
    return np.take(table, indices, 0, mode="clip")


def one_hot(indices: ArrayLike, count: int, dtype: Any = "f32") -> Array:
    """1 at the position that each index names along a new last axis, 0 elsewhere."""
    return np.astype(_is_class(indices, count), dtype)


def _is_class(indices: ArrayLike, count: int) -> Array:
    """True where the position along a new last axis is the index."""
    positions = lift(indices)
    if positions.dtype not in dtypes.INTEGERS:
        fail("dtype-mismatch", f"expected integer classes; got {positions.type}")
    if dtypes.bits(positions.dtype) < 32:  # whose counter could wrap
        positions = np.astype(positions, "i32")
    shape = (*positions.shape, count)
    line = emit("iota", shape=shape, axis=positions.ndim, dtype=positions.dtype)
    return np.equal(line, np.expand_dims(positions, -1))


def cross_entropy(logits: ArrayLike, labels: ArrayLike) -> Array:
    """-log softmax(logits) at the labelled class, per example; labels are integers."""
    logits, labels = lift(logits), lift(labels)
    if labels.shape != logits.shape[:-1]:
        fail(
            "shape-mismatch",
            f"expected one label per row of logits {logits.type}; got {labels.type}",
        )
    chosen = _is_class(labels, _fixed(logits.shape[-1], "number of classes"))
    # selected, not multiplied: the other classes may be at -infinity
    return np.negative(np.sum(np.where(chosen, log_softmax(logits), 0.0), -1))


def dropout(key: ArrayLike, x: ArrayLike, rate: float) -> Array:
    """Zero with probability `rate`, scaled by 1 / (1 - rate) otherwise (training)."""
    from aotc import random

    if not 0 <= rate < 1:
        fail("bad-rate", f"expected a rate of at least 0 and below 1; got {rate}")
    array = lift(x)
    if rate == 0:
        return array
    keep = random.bernoulli(key, 1 - rate, array.shape)
    return np.where(keep, np.multiply(array, 1 / (1 - rate)), 0.0)


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
            int, or per spatial axis an int or (low, high).
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
    x: ArrayLike,
    window: Window,
    strides: Window | None = None,
    padding: Padding = "VALID",
) -> Array:
    """The largest element of each window; windows touch unless `strides` is given."""
    x = lift(x)
    return emit("max_pool", x, **_pooling(x, window, strides, padding))


def avg_pool(
    x: ArrayLike,
    window: Window,
    strides: Window | None = None,
    padding: Padding = "VALID",
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
    """One number per spatial axis."""
    numbers = (value,) * spatial if isinstance(value, int) else tuple(value)
    if len(numbers) != spatial:
        fail(
            "shape-mismatch",
            f"expected one number, or one per spatial axis ({spatial}); got {value}",
        )
    return numbers


def _fixed(size: Size, what: str) -> int:
    if not isinstance(size, int):
        fail("symbolic-size", f"expected a {what} of fixed size; got {size}")
    return size


def _padding(
    padding: Padding,
    x: Array,
    window: Sequence[int],
    strides: Sequence[int],
    dilation: Sequence[int],
) -> tuple[int, ...]:
    """Low and high padding per spatial axis, in a row."""
    if not isinstance(padding, str):
        return _explicit_padding(padding, len(window))
    if padding.upper() == "VALID":
        return (0,) * (2 * len(window))
    if padding.upper() != "SAME":
        _fail_padding(padding)
    sides: list[int] = []
    for size, w, s, d in zip(x.shape[1:-1], window, strides, dilation, strict=True):
        total = _same_padding(size, d * (w - 1), s)
        sides += [total // 2, total - total // 2]
    return tuple(sides)


def _same_padding(size: Size, reach: int, stride: int) -> int:
    """What makes ceil(size / stride) windows fit; `reach` is a window less 1."""
    if stride == 1:
        return reach
    fixed = _fixed(size, "image, for padding 'SAME' with strides,")
    return max((-(-fixed // stride) - 1) * stride + reach + 1 - fixed, 0)


def _explicit_padding(padding: int | Sequence[Any], spatial: int) -> tuple[int, ...]:
    sides = [padding] * spatial if isinstance(padding, int) else list(padding)
    pairs = [(side, side) if isinstance(side, int) else tuple(side) for side in sides]
    if len(pairs) != spatial or any(len(pair) != 2 for pair in pairs):
        _fail_padding(padding)
    return tuple(number for pair in pairs for number in pair)


def _fail_padding(padding: Padding) -> NoReturn:
    fail(
        "bad-padding",
        "expected padding 'SAME', 'VALID', an int, or an int or (low, high) per "
        f"spatial axis; got {padding!r}",
    )
