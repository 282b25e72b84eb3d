"""Normalisation: over features, batches and groups, and to a sum of one."""

from __future__ import annotations

import math
from collections.abc import Sequence

from aotc import numpy as np
from aotc.dialects.types import Shape, format_shape
from aotc.numpy.axes import Axes, one_axis, rising_axes
from aotc.tracing.array import Array
from aotc.tracing.conversion import ArrayLike, as_float, lift, to_accumulator
from aotc.tracing.source_locations import fail
from aotc.tracing.tracing import emit, emit_all

__all__ = [
    "batch_norm", "batch_norm_training", "group_norm", "gumbel_softmax",
    "instance_norm", "l2_normalize", "layer_norm", "local_response_norm", "log_softmax",
    "rms_norm", "softmax", "softmin",
]  # fmt: skip

# ---- to a sum of one ----------------------------------------------------------------


def softmax(x: ArrayLike, axis: int = -1, where: ArrayLike | None = None) -> Array:
    """`e**x / sum(e**x)` along `axis`, without overflow.

    Where `where` does not hold, elements count as -infinity and become 0; so do rows in
    which it holds nowhere.
    """
    x = as_float(x)
    number = one_axis(x, axis)
    if where is None:
        return emit("softmax", x, axis=number)
    y = emit("softmax", np.where(where, x, -math.inf), axis=number)
    return np.where(where, y, 0.0)


def log_softmax(x: ArrayLike, axis: int = -1, where: ArrayLike | None = None) -> Array:
    """The logarithm of `softmax`, without overflow or underflow."""
    x = as_float(x)
    number = one_axis(x, axis)
    if where is None:
        return emit("log_softmax", x, axis=number)
    y = emit("log_softmax", np.where(where, x, -math.inf), axis=number)
    return np.where(where, y, -math.inf)


def softmin(x: ArrayLike, axis: int = -1) -> Array:
    """The softmax of -x."""
    return softmax(np.negative(as_float(x)), axis)


def gumbel_softmax(
    key: ArrayLike,
    logits: ArrayLike,
    temperature: float = 1.0,
    *,
    hard: bool = False,
    axis: int = -1,
) -> Array:
    """Draw a one-hot class, or near it, so that it is differentiable in the logits.

    Jang, Gu and Poole, "Categorical reparameterization with Gumbel-softmax", ICLR 2017.

    Args:
        key: a random key.
        logits: unnormalised logarithms of the probabilities.
        temperature: the smaller, the nearer to one-hot.
        hard: whether the result is one-hot; it has the derivative of the soft one.
        axis: that of the classes.
    """
    from aotc import random

    if not temperature > 0:
        fail("bad-temperature", f"expected a temperature above 0; got {temperature}")
    logits = as_float(logits)
    number = one_axis(logits, axis)
    noise = random.gumbel(key, logits.shape, logits.dtype)
    soft = softmax(np.divide(np.add(logits, noise), temperature), number)
    if not hard:
        return soft
    best = np.argmax(soft, number, keepdims=True)
    line = emit("iota", shape=soft.shape, axis=number, dtype="i32")
    chosen = np.astype(np.equal(line, best), soft.dtype)
    return np.add(soft, emit("stop_gradient", np.subtract(chosen, soft)))


# ---- to mean zero and variance one --------------------------------------------------


def layer_norm(
    x: ArrayLike,
    scale: ArrayLike | None = None,
    bias: ArrayLike | None = None,
    epsilon: float = 1e-5,
    *,
    axes: int | Sequence[int] = -1,
) -> Array:
    """Normalise over `axes`, times `scale`, plus `bias`, both of the shape of these
    axes.

    Ba, Kiros and Hinton, "Layer normalization", 2016.
    """
    x = as_float(x)
    numbers = rising_axes(x, axes)
    return _scale_and_shift(_normal(x, numbers, epsilon), numbers, scale, bias)


def rms_norm(
    x: ArrayLike,
    scale: ArrayLike | None = None,
    epsilon: float = 1e-6,
    *,
    axes: int | Sequence[int] = -1,
) -> Array:
    """`x / sqrt(mean(x**2) + epsilon) * scale` over `axes`.

    Zhang and Sennrich, "Root mean square layer normalization", NeurIPS 2019.
    """
    x = as_float(x)
    numbers = rising_axes(x, axes)
    return _scale_and_shift(
        _normal(x, numbers, epsilon, centered=False), numbers, scale, None
    )


def group_norm(
    x: ArrayLike,
    groups: int,
    scale: ArrayLike | None = None,
    bias: ArrayLike | None = None,
    epsilon: float = 1e-5,
) -> Array:
    """Normalise over the spatial axes and each of `groups` groups of channels.

    x is N, …, C; scale and bias have C elements. Wu and He, ECCV 2018.
    """
    x = _with_channels(x)
    *sizes, channels = x.type.shape
    if not isinstance(groups, int) or groups < 1 or channels % groups != 0:
        fail(
            "bad-groups",
            f"expected a number of groups that divides the channels of {x.type}; "
            f"got {groups}",
        )
    split = np.reshape(x, (*sizes, groups, channels // groups))
    axes = (*range(1, x.ndim - 1), x.ndim)
    y = np.reshape(_normal(split, axes, epsilon), x.shape)
    return _scale_and_shift(y, (x.ndim - 1,), scale, bias)


def instance_norm(
    x: ArrayLike,
    scale: ArrayLike | None = None,
    bias: ArrayLike | None = None,
    epsilon: float = 1e-5,
) -> Array:
    """Normalise over the spatial axes of each image; the others have C elements."""
    x = _with_channels(x)
    y = _normal(x, tuple(range(1, x.ndim - 1)), epsilon)
    return _scale_and_shift(y, (x.ndim - 1,), scale, bias)


def batch_norm(
    x: ArrayLike,
    mean: ArrayLike,
    variance: ArrayLike,
    scale: ArrayLike | None = None,
    bias: ArrayLike | None = None,
    *,
    epsilon: float = 1e-5,
) -> Array:
    """Normalise by a known mean and variance of each channel: for inference.

    x is N, …, C; all others have C elements. Half precision may have its statistics in
    f32, as `batch_norm_training` returns them.
    """
    x = _with_channels(x)
    last = (x.ndim - 1,)
    mean, variance = (_broadcast_parameter(part, x, last) for part in (mean, variance))
    centered = np.subtract(np.astype(x, mean.dtype), mean)
    y = np.multiply(centered, np.rsqrt(np.add(variance, epsilon)))
    return _scale_and_shift(np.astype(y, x.dtype), last, scale, bias)


def batch_norm_training(
    x: ArrayLike,
    mean: ArrayLike,
    variance: ArrayLike,
    scale: ArrayLike | None = None,
    bias: ArrayLike | None = None,
    *,
    momentum: float = 0.9,
    epsilon: float = 1e-5,
) -> tuple[Array, Array, Array]:
    """Normalise by the statistics of this batch, over all axes but the last.

    Ioffe and Szegedy, "Batch normalization", ICML 2015.

    Args:
        x: N, …, C.
        mean: running mean of each channel.
        variance: running variance of each channel.
        scale: factor of each channel, or None.
        bias: term of each channel, or None.
        momentum: what the running statistics keep of themselves; 0 gives the batch's.
        epsilon: added to the variance.

    Returns:
        The normalised x and the new running statistics, which are constants to
        differentiation. The variance is that of the batch (divided by the count).
    """
    x = _with_channels(x)
    last, others = (x.ndim - 1,), tuple(range(x.ndim - 1))
    y, *batch = _statistics(x, others, epsilon, centered=True)
    running = [
        np.add(
            np.multiply(_broadcast_parameter(known, x, last, new.dtype), momentum),
            np.multiply(emit("stop_gradient", new), 1 - momentum),
        )
        for known, new in zip((mean, variance), batch, strict=True)
    ]
    return _scale_and_shift(y, last, scale, bias), running[0], running[1]


def _statistics(
    x: Array, axes: tuple[int, ...], epsilon: float, centered: bool
) -> list[Array]:
    """Return `x` normalised over the axes, its mean, and its variance."""
    return emit_all(
        "normalize", x, axes=axes, epsilon=float(epsilon), centered=centered
    )


def _normal(
    x: Array, axes: tuple[int, ...], epsilon: float, centered: bool = True
) -> Array:
    """Return `x` normalised to mean 0 and variance 1 over the axes."""
    return _statistics(x, axes, epsilon, centered)[0]


def _with_channels(x: ArrayLike) -> Array:
    """Return a float array; raise unless it has at least the axes N and C."""
    array = as_float(x)
    if array.ndim < 2:
        fail("shape-mismatch", f"expected x as N, …, C; got {array.type}")
    return array


def _scale_and_shift(
    y: Array,
    axes: tuple[int, ...],
    scale: ArrayLike | None,
    bias: ArrayLike | None,
) -> Array:
    """`y * scale + bias`; both have the shape of `axes`."""
    if scale is not None:
        y = np.multiply(y, _broadcast_parameter(scale, y, axes))
    return y if bias is None else np.add(y, _broadcast_parameter(bias, y, axes))


def _broadcast_parameter(
    parameter: ArrayLike, x: Array, axes: tuple[int, ...], dtype: str | None = None
) -> Array:
    """Reshape a scale or bias of the shape of `axes` to broadcast with x."""
    array = lift(parameter, dtype or x.dtype)
    shape: Shape = tuple(x.type.shape[axis] for axis in axes)
    if array.type.shape != shape:
        fail(
            "shape-mismatch",
            f"expected a parameter of shape {format_shape(shape)} for x {x.type}; "
            f"got {array.type}",
        )
    if axes == tuple(range(x.ndim - len(axes), x.ndim)):
        return array
    return np.reshape(array, [n if i in axes else 1 for i, n in enumerate(x.shape)])


# ---- by size ------------------------------------------------------------------------


def l2_normalize(x: ArrayLike, axis: Axes = -1, epsilon: float = 1e-12) -> Array:
    """`x` divided by its Euclidean norm over `axis`, which is at least `epsilon`."""
    x = as_float(x)
    wide = to_accumulator(x)
    squares = np.sum(np.square(wide), axis, keepdims=True)
    y = np.multiply(wide, np.rsqrt(np.maximum(squares, epsilon * epsilon)))
    return np.astype(y, x.dtype)


def local_response_norm(
    x: ArrayLike,
    size: int,
    alpha: float = 1e-4,
    beta: float = 0.75,
    k: float = 1.0,
) -> Array:
    """`x / (k + alpha * mean of x**2 over `size` channels nearby)**beta`.

    Krizhevsky, Sutskever and Hinton, NIPS 2012; the mean is over `size` channels, also
    where fewer exist.
    """
    x = as_float(x)
    if not isinstance(size, int) or size < 1 or x.ndim < 2:
        fail(
            "bad-window",
            f"expected x as N, …, C and a size of at least 1; got {x.type}, {size}",
        )
    channels = x.shape[-1]
    around = [(0, 0)] * (x.ndim - 1) + [(size // 2, (size - 1) // 2)]
    squares = np.pad(np.square(x), around)
    total = squares[..., :channels]
    for shift in range(1, size):
        total = np.add(total, squares[..., shift : shift + channels])
    factor = np.power(np.add(np.multiply(total, alpha / size), k), -beta)
    return np.multiply(x, factor)
