"""ATen ops that normalise, and dropout."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from aotc import nn, random
from aotc import numpy as np
from aotc.dialects.types import Size, element_count
from aotc.importers.common.channels import (
    apply_channels_last,
    channels_first,
    channels_last,
)
from aotc.importers.torch.dropping import next_key
from aotc.tracing.array import Array
from aotc.tracing.conversion import lift
from aotc.tracing.tracing import emit_all

Maybe = Array | None


def layer_norm(
    x: Array,
    shape: Sequence[Size],
    weight: Maybe = None,
    bias: Maybe = None,
    eps: float = 1e-5,
    cudnn_enable: bool = True,
) -> Array:
    """Return x normalised over its last axes."""
    return nn.layer_norm(x, weight, bias, eps, axes=_last_axes(shape))


def _last_axes(shape: Sequence[Size]) -> tuple[int, ...]:
    """Return the axis numbers of the last axes, as many as a shape has."""
    return tuple(range(-len(shape), 0))


def native_layer_norm(
    x: Array, shape: Sequence[Size], weight: Maybe, bias: Maybe, eps: float
) -> list[Array]:
    """Return x normalised over its last axes, the mean and 1 / deviation."""
    axes = _last_axes(shape)
    y = nn.layer_norm(x, weight, bias, eps, axes=axes)
    return [y, *_statistics(x, axes, eps)]


def _statistics(x: Array, axes: tuple[int, ...], eps: float) -> list[Array]:
    """Return the mean and 1 / deviation over axes."""
    variance = np.var(x, axes, keepdims=True)
    return [np.mean(x, axes, keepdims=True), np.rsqrt(np.add(variance, eps))]


def rms_norm(
    x: Array, shape: Sequence[Size], weight: Maybe = None, eps: float | None = None
) -> Array:
    """Return x divided by its root mean square over the last axes."""
    least = float(np.finfo(x.dtype).eps) if eps is None else eps
    return nn.rms_norm(x, weight, least, axes=_last_axes(shape))


def group_norm(
    x: Array,
    groups: int,
    weight: Maybe = None,
    bias: Maybe = None,
    eps: float = 1e-5,
    cudnn_enabled: bool = True,
) -> Array:
    """Return x normalised over groups of channels and the spatial axes."""
    return apply_channels_last(nn.group_norm, x, groups, weight, bias, eps)


def native_group_norm(
    x: Array,
    weight: Maybe,
    bias: Maybe,
    n: Size,
    channels: Size,
    positions: Size,
    groups: int,
    eps: float,
) -> list[Array]:
    """Return x normalised over groups, with mean and 1 / deviation of each."""
    rows = np.reshape(x, (n, groups, channels * positions // groups))
    mean, scale = (np.squeeze(part, 2) for part in _statistics(rows, (2,), eps))
    return [group_norm(x, groups, weight, bias, eps), mean, scale]


def batch_norm(
    x: Array,
    weight: Maybe,
    bias: Maybe,
    mean: Array,
    variance: Array,
    momentum: float,
    eps: float,
) -> list[Array]:
    """Return x normalised by running statistics, and empty batch statistics."""
    y = apply_channels_last(nn.batch_norm, x, mean, variance, weight, bias, epsilon=eps)
    return [y, np.zeros((0,), x.dtype), np.zeros((0,), x.dtype)]


def batch_norm_training(
    x: Array,
    weight: Maybe,
    bias: Maybe,
    mean: Array,
    variance: Array,
    training: bool,
    momentum: float,
    eps: float,
) -> list[Array]:
    """Return x normalised, its statistics, and running ones, updated if `training`."""
    if not training:
        return [
            *batch_norm(x, weight, bias, mean, variance, momentum, eps),
            mean,
            variance,
        ]
    y, own_mean, own_variance = _by_own_statistics(x, weight, bias, eps)
    sizes = tuple(x.type.shape[axis] for axis in _all_but_channels(x))
    count = lift(element_count(sizes), own_variance.dtype)
    unbiased = np.multiply(own_variance, np.divide(count, np.subtract(count, 1)))
    running = [
        np.add(
            np.multiply(old, 1 - momentum),
            np.astype(np.multiply(nn.stop_gradient(new), momentum), old.dtype),
        )
        for old, new in ((mean, own_mean), (variance, unbiased))
    ]
    return [y, *_saved(x, own_mean, own_variance, eps), *running]


def batch_norm_own(
    x: Array, weight: Maybe, bias: Maybe, training: bool, momentum: float, eps: float
) -> list[Array]:
    """Return x normalised by batch statistics, with those, where none are kept."""
    y, mean, variance = _by_own_statistics(x, weight, bias, eps)
    return [y, *_saved(x, mean, variance, eps)]


def _all_but_channels(x: Array) -> tuple[int, ...]:
    """Return all axes but the channel axis 1."""
    return (0, *range(2, x.ndim))


def _by_own_statistics(x: Array, weight: Maybe, bias: Maybe, eps: float) -> list[Array]:
    """Return x normalised by its own statistics, with mean and variance per channel."""
    image = channels_last(x)
    axes = tuple(range(image.ndim - 1))
    y, mean, variance = emit_all(
        "normalize", image, axes=axes, epsilon=float(eps), centered=True
    )
    if weight is not None:
        y = np.multiply(y, weight)
    if bias is not None:
        y = np.add(y, bias)
    return [channels_first(y), mean, variance]


def _saved(x: Array, mean: Array, variance: Array, eps: float) -> list[Array]:
    """Return mean and 1 / deviation in x's dtype, as PyTorch's backward ops expect."""
    scale = np.rsqrt(np.add(variance, eps))
    return [np.astype(each, x.dtype) for each in (mean, scale)]


# ---- dropout ------------------------------------------------------------------------


def native_dropout(x: Array, p: float, train: bool | None) -> list[Array]:
    """Return x with dropout in training, and the mask of elements kept."""
    if train is False or not p:
        return [x, np.ones(x.shape, "bool")]
    kept = np.zeros(x.shape, "bool")
    if p < 1:
        kept = random.bernoulli(next_key(), 1 - p, x.shape)
    scaled = np.multiply(x, 1 / (1 - p) if p < 1 else 0.0)
    return [np.where(kept, scaled, np.zeros_like(x)), kept]


OPS: dict[str, Callable[..., Any]] = {
    "aten.layer_norm": layer_norm,
    "aten.native_layer_norm": native_layer_norm,
    "aten.rms_norm": rms_norm,
    "aten.group_norm": group_norm,
    "aten.native_group_norm": native_group_norm,
    "aten._native_batch_norm_legit_no_training": batch_norm,
    "aten._native_batch_norm_legit_functional": batch_norm_training,
    "aten._native_batch_norm_legit.no_stats": batch_norm_own,
    "aten.native_dropout": native_dropout,
}
