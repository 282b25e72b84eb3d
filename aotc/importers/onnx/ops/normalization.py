"""Normalisation over channels, groups and features, and dropout."""

from __future__ import annotations

from aotc import nn
from aotc import numpy as np
from aotc.importers.common.channels import apply_channels_last, over_channels
from aotc.importers.onnx.calling import Imports
from aotc.importers.onnx.elements import element
from aotc.importers.onnx.values import known_of
from aotc.numpy.elementwise import root_of_squares
from aotc.tracing.array import Array
from aotc.tracing.conversion import to_accumulator
from aotc.tracing.source_locations import fail


def batch_normalization(
    x: Array,
    scale: Array,
    bias: Array,
    mean: Array,
    variance: Array,
    *,
    epsilon: float = 1e-5,
    momentum: float = 0.9,
    spatial: int = 1,
    training_mode: int = 0,
    wanted: int,
) -> Array | tuple[Array, Array, Array]:
    """Return x normalised by given statistics; in training by its own, with running
    ones.
    """
    if not training_mode:
        return _normalize(x, mean, variance, scale, bias, epsilon)
    axes = (0, *range(2, x.ndim))
    own_mean = np.mean(x, axes)
    own_variance = np.var(x, axes)
    y = _normalize(x, own_mean, own_variance, scale, bias, epsilon)
    old_share, new_share = momentum, 1 - momentum
    running = [
        np.add(np.multiply(old, old_share), np.multiply(new, new_share))
        for old, new in ((mean, own_mean), (variance, own_variance))
    ]
    return y, running[0], running[1]


def _normalize(
    x: Array, mean: Array, variance: Array, scale: Array, bias: Array, epsilon: float
) -> Array:
    """Return (x - mean) / sqrt(variance + epsilon) * scale + bias, per channel."""
    inverse = np.multiply(scale, np.rsqrt(np.add(variance, epsilon)))
    center, factor, offset = (
        over_channels(np.astype(part, x.dtype), x) for part in (mean, inverse, bias)
    )
    return np.add(np.multiply(np.subtract(x, center), factor), offset)


def instance_normalization(
    x: Array, scale: Array, bias: Array, *, epsilon: float = 1e-5
) -> Array:
    """Return x normalised over the spatial axes, for each image and channel."""
    return apply_channels_last(nn.instance_norm, x, scale, bias, epsilon)


def layer_normalization(
    x: Array,
    scale: Array,
    bias: Array | None = None,
    *,
    axis: int = -1,
    epsilon: float = 1e-5,
    stash_type: int = 1,
    wanted: int,
) -> Array | tuple[Array, Array, Array]:
    """Return x normalised over axes from `axis` on; also mean and 1 / deviation if
    wanted.
    """
    axes = tuple(range(axis % x.ndim, x.ndim))
    wide = np.astype(x, element(stash_type).dtype)
    mean = np.mean(wide, axes, keepdims=True)
    if wanted == 1:
        return np.astype(
            _layer_norm(x, scale, bias, epsilon, axes, element(stash_type).dtype),
            x.dtype,
        )
    centered = np.subtract(wide, mean)
    variance = np.mean(np.square(centered), axes, keepdims=True)
    inverse = np.reciprocal(np.sqrt(np.add(variance, epsilon)))
    y = np.multiply(np.astype(np.multiply(centered, inverse), x.dtype), scale)
    return (y if bias is None else np.add(y, bias)), mean, inverse


def _layer_norm(
    x: Array,
    scale: Array,
    bias: Array | None,
    epsilon: float,
    axes: tuple[int, ...],
    dtype: str,
) -> Array:
    """Return layer normalisation: computed in `dtype`, scaled and shifted in x's
    dtype.
    """
    y = np.astype(
        nn.layer_norm(np.astype(x, dtype), epsilon=epsilon, axes=axes), x.dtype
    )
    y = np.multiply(y, scale)
    return y if bias is None else np.add(y, bias)


def rms_normalization(
    x: Array,
    scale: Array,
    *,
    axis: int = -1,
    epsilon: float = 1e-5,
    stash_type: int = 1,
) -> Array:
    """Return x over its root mean square over the axes from `axis` on."""
    axes = tuple(range(axis % x.ndim, x.ndim))
    wide = np.astype(x, element(stash_type).dtype)
    y = nn.rms_norm(wide, epsilon=epsilon, axes=axes)
    return np.multiply(np.astype(y, x.dtype), scale)


def group_normalization(
    x: Array,
    scale: Array,
    bias: Array,
    *,
    num_groups: int,
    epsilon: float = 1e-5,
    stash_type: int = 1,
    opset: int,
) -> Array:
    """Return x normalised over groups of channels and the spatial axes."""
    wide = np.astype(x, element(stash_type).dtype)
    y = apply_channels_last(nn.group_norm, wide, num_groups, epsilon=epsilon)
    y = np.astype(y, x.dtype)
    if opset < 21 and scale.shape == (num_groups,):  # one number for each group
        repeats = x.shape[1] // num_groups
        scale, bias = (np.repeat(part, repeats) for part in (scale, bias))
    return np.add(np.multiply(y, over_channels(scale, x)), over_channels(bias, x))


def mean_variance_normalization(
    x: Array, *, axes: tuple[int, ...] = (0, 2, 3)
) -> Array:
    """Return x less its mean, over its deviation plus 1e-9.

    By squares of what is left after the mean: ONNX's body takes the difference of the
    mean of squares and the square of the mean, which has no digits left at a mean of
    1000.
    """
    wide = to_accumulator(x)
    centered = np.subtract(wide, np.mean(wide, axes, keepdims=True))
    variance = np.mean(np.square(centered), axes, keepdims=True)
    unit = np.divide(centered, np.add(np.sqrt(variance), 1e-9))
    return np.astype(unit, x.dtype)


def lrn(
    x: Array, *, size: int, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0
) -> Array:
    """Return x with each channel divided by a power of nearby channels' square sum.

    Of an even number of channels ONNX has more behind, PyTorch more before.
    """
    turned = x if size % 2 else np.flip(x, 1)
    y = apply_channels_last(nn.local_response_norm, turned, size, alpha, beta, bias)
    return y if size % 2 else np.flip(y, 1)


def lp_normalization(x: Array, *, axis: int = -1, p: int = 2) -> Array:
    """Return x over its p-norm along an axis; zeros stay zeros."""
    wide = to_accumulator(x)
    if p == 1:
        norm = np.sum(np.absolute(wide), axis, keepdims=True)
    else:
        norm = root_of_squares(np.sum(np.square(wide), axis, keepdims=True))
    none = np.equal(norm, 0)
    unit = np.where(none, 0.0, np.divide(wide, np.where(none, 1.0, norm)))
    return np.astype(unit, x.dtype)


def dropout(
    x: Array,
    share: Array | None = None,
    training_mode: Array | None = None,
    *,
    ratio: float = 0.5,
    seed: int = 0,
    wanted: int,
) -> Array | tuple[Array, Array]:
    """Return x (and an all-true mask if wanted): dropout at inference drops nothing."""
    training = None if training_mode is None else known_of(training_mode)
    if training_mode is not None and (training is None or bool(training.any())):
        dropped = None if share is None else known_of(share)
        if dropped is None or dropped.any():
            fail(
                "unsupported-ops",
                "a Dropout that drops draws random numbers that no export fixes",
                "export the model for inference",
            )
    return x if wanted == 1 else (x, np.ones(x.shape, "bool"))


TABLE: dict[str, Imports] = {
    "BatchNormalization": batch_normalization,
    "Dropout": dropout,
    "GroupNormalization": group_normalization,
    "InstanceNormalization": instance_normalization,
    "LRN": lrn,
    "LayerNormalization": layer_normalization,
    "LpNormalization": lp_normalization,
    "MeanVarianceNormalization": mean_variance_normalization,
    "RMSNormalization": rms_normalization,
}
