"""ATen ops that are activation functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aotc import nn
from aotc import numpy as np
from aotc.importers.torch.ops.refused import RANDOM
from aotc.tracing.array import Array
from aotc.tracing.source_locations import fail


def elu(x: Array, alpha: float = 1.0, scale: float = 1.0, inner: float = 1.0) -> Array:
    """Return `scale * x` for positive x, `scale * alpha * (exp(inner * x) - 1)`
    else.
    """
    if inner == 1:
        y = nn.elu(x, float(alpha))
    else:
        below = np.multiply(np.expm1(np.multiply(np.minimum(x, 0), inner)), alpha)
        y = np.where(np.greater(x, 0), x, below)
    return y if scale == 1 else np.multiply(y, scale)


def gelu(x: Array, approximate: str = "none") -> Array:
    """Return gelu of x, exact or by tanh."""
    return nn.gelu(x, approximate == "tanh")


def softplus(x: Array, beta: float = 1.0, threshold: float = 20.0) -> Array:
    """Return `log(1 + exp(beta * x)) / beta`; x itself where `beta * x` is large."""
    scaled = x if beta == 1 else np.multiply(x, beta)
    y = nn.softplus(scaled)
    y = y if beta == 1 else np.divide(y, beta)
    return np.where(np.greater(scaled, threshold), x, y)


def hardtanh(x: Array, low: float = -1.0, high: float = 1.0) -> Array:
    """Return x clipped to two bounds."""
    return np.clip(x, low, high)


def rrelu(
    x: Array, noise: Array, low: float = 1 / 8, high: float = 1 / 3, train: bool = False
) -> tuple[Array, Array]:
    """Return leaky ReLU with the mean slope, as in inference, and the noise."""
    if train:
        fail("unsupported", f"a random ReLU in training: {RANDOM[0]}", RANDOM[1])
    return nn.leaky_relu(x, (low + high) / 2), noise


OPS: dict[str, Callable[..., Any]] = {
    "aten.relu": nn.relu,
    "aten.relu6": nn.relu6,
    "aten.rrelu_with_noise_functional": rrelu,
    "aten.leaky_relu": nn.leaky_relu,
    "aten.elu": elu,
    "aten.selu": nn.selu,
    "aten.celu": nn.celu,
    "aten.gelu": gelu,
    "aten.silu": nn.silu,
    "aten.mish": nn.mish,
    "aten.sigmoid": nn.sigmoid,
    "aten.log_sigmoid": nn.log_sigmoid,
    "aten.hardsigmoid": nn.hard_sigmoid,
    "aten.hardswish": nn.hard_silu,
    "aten.hardtanh": hardtanh,
    "aten.softplus": softplus,
    "aten.glu": nn.glu,
}
