"""Batch normalization and its derivative."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aotc import numpy as np
from aotc.importers.stablehlo.operation import Op
from aotc.importers.stablehlo.values import Value, array
from aotc.mlir import ir
from aotc.tracing.array import Array


def _broadcast_features(op: Op, x: Array, *parts: Value) -> list[Array]:
    """Return feature vectors reshaped to broadcast with x."""
    axis = op.integer("feature_index")
    shape = tuple(n if a == axis else 1 for a, n in enumerate(x.shape))
    return [np.reshape(array(part), shape) for part in parts]


def _epsilon(op: Op) -> float:
    """Return the op's `epsilon` attribute."""
    return float(ir.FloatAttr(op.attribute("epsilon")).value)


def batch_norm_inference(
    op: Op, x: Value, scale: Value, offset: Value, mean: Value, variance: Value
) -> Array:
    """Return (x - mean) / sqrt(variance + epsilon) * scale + offset."""
    source = array(x)
    s, o, m, v = _broadcast_features(op, source, scale, offset, mean, variance)
    return (source - m) / np.sqrt(v + _epsilon(op)) * s + o


def batch_norm_training(
    op: Op, x: Value, scale: Value, offset: Value
) -> tuple[Array, Array, Array]:
    """Return x normalised by its own mean and variance, and both."""
    source = array(x)
    axes = tuple(a for a in range(source.ndim) if a != op.integer("feature_index"))
    mean, variance = np.mean(source, axes), np.var(source, axes)
    return batch_norm_inference(op, x, scale, offset, mean, variance), mean, variance


def batch_norm_grad(
    op: Op, x: Value, scale: Value, mean: Value, variance: Value, dy: Value
) -> tuple[Array, Array, Array]:
    """Return the cotangents of x, scale and offset of `batch_norm_training`."""
    source, gradient = array(x), array(dy)
    axes = tuple(a for a in range(source.ndim) if a != op.integer("feature_index"))
    s, m, v = _broadcast_features(op, source, scale, mean, variance)
    inverse = 1.0 / np.sqrt(v + _epsilon(op))
    normal = (source - m) * inverse
    d_scale, d_offset = np.sum(gradient * normal, axes), np.sum(gradient, axes)
    mean_dy = np.mean(gradient, axes, keepdims=True)
    mean_product = np.mean(gradient * normal, axes, keepdims=True)
    d_x = s * inverse * (gradient - mean_dy - normal * mean_product)
    return d_x, d_scale, d_offset


OPS: dict[str, Callable[..., Any]] = {
    "stablehlo.batch_norm_grad": batch_norm_grad,
    "stablehlo.batch_norm_inference": batch_norm_inference,
    "stablehlo.batch_norm_training": batch_norm_training,
}
