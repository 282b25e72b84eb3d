"""Activations, and softmax."""

from __future__ import annotations

from collections.abc import Callable

from aotc import nn
from aotc import numpy as np
from aotc.importers.onnx.calling import Imports
from aotc.importers.onnx.ops.shapes import flatten
from aotc.tracing.array import Array

SELU_ALPHA, SELU_GAMMA = 1.67326319217681884765625, 1.05070102214813232421875


def leaky_relu(x: Array, *, alpha: float = 0.01) -> Array:
    """Return x, multiplied by alpha below 0."""
    return nn.leaky_relu(x, alpha)


def prelu(x: Array, slope: Array) -> Array:
    """Return x, multiplied by the slope below 0."""
    return np.where(np.less(x, 0), np.multiply(x, slope), x)


def elu(x: Array, *, alpha: float = 1.0) -> Array:
    """Return x where positive, alpha (e**x - 1) elsewhere."""
    return nn.elu(x, alpha)


def celu(x: Array, *, alpha: float = 1.0) -> Array:
    """Return x where positive, alpha (e**(x / alpha) - 1) elsewhere."""
    return nn.celu(x, alpha)


def selu(x: Array, *, alpha: float = SELU_ALPHA, gamma: float = SELU_GAMMA) -> Array:
    """Return `elu` of x times gamma."""
    return np.multiply(nn.elu(x, alpha), gamma)


def thresholded_relu(x: Array, *, alpha: float = 1.0) -> Array:
    """Return x where above alpha, else 0."""
    return np.where(np.greater(x, alpha), x, 0.0)


def hard_sigmoid(x: Array, *, alpha: float = 0.2, beta: float = 0.5) -> Array:
    """Return alpha x + beta, clipped to 0 … 1."""
    return np.clip(np.add(np.multiply(x, alpha), beta), 0.0, 1.0)


def swish(x: Array, *, alpha: float = 1.0) -> Array:
    """Return x sigmoid(alpha x)."""
    if alpha == 1:
        return nn.silu(x)
    return np.multiply(x, nn.sigmoid(np.multiply(x, alpha)))


def gelu(x: Array, *, approximate: str = "none") -> Array:
    """Return x times the normal distribution function, exact or approximated by
    tanh.
    """
    return nn.gelu(x, approximate == "tanh")


def shrink(x: Array, *, bias: float = 0.0, lambd: float = 0.5) -> Array:
    """Return x moved towards 0 by the bias; 0 from -lambd to lambd."""
    below = np.where(np.less(x, -lambd), np.add(x, bias), 0.0)
    found = np.where(np.greater(x, lambd), np.subtract(x, bias), below)
    return np.astype(found, x.dtype)


def softmax(x: Array, *, axis: int | None = None, opset: int) -> Array:
    """Return exp(x) over its sum along an axis; before opset 13 over all axes from
    `axis`.
    """
    return _apply_by_opset(nn.softmax, x, axis, opset)


def log_softmax(x: Array, *, axis: int | None = None, opset: int) -> Array:
    """Return the logarithm of `softmax`."""
    return _apply_by_opset(nn.log_softmax, x, axis, opset)


def hardmax(x: Array, *, axis: int | None = None, opset: int) -> Array:
    """Return 1 at the first of the largest elements along an axis, 0 elsewhere."""
    return _apply_by_opset(_hardmax, x, axis, opset)


def _hardmax(x: Array, axis: int) -> Array:
    """Return 1 at the first of the largest elements along an axis, 0 elsewhere."""
    chosen = np.argmax(x, axis, keepdims=True)
    places = [-1 if i == axis % x.ndim else 1 for i in range(x.ndim)]
    along = np.reshape(np.arange(x.shape[axis]), places)
    return np.astype(np.equal(along, chosen), x.dtype)


def _apply_by_opset(
    function: Callable[..., Array], x: Array, axis: int | None, opset: int
) -> Array:
    """Apply a softmax-like function along an axis; before opset 13, over a flattened
    tail.
    """
    if opset >= 13:
        return function(x, -1 if axis is None else axis)
    flat = flatten(x, axis=1 if axis is None else axis)
    return np.reshape(function(flat, 1), x.shape)


TABLE: dict[str, Imports] = {
    "Celu": celu,
    "Elu": elu,
    "Gelu": gelu,
    "HardSigmoid": hard_sigmoid,
    "HardSwish": nn.hard_silu,
    "Hardmax": hardmax,
    "LeakyRelu": leaky_relu,
    "LogSoftmax": log_softmax,
    "Mish": nn.mish,
    "PRelu": prelu,
    "Relu": nn.relu,
    "Selu": selu,
    "Shrink": shrink,
    "Sigmoid": nn.sigmoid,
    "Softmax": softmax,
    "Softplus": nn.softplus,
    "Softsign": nn.soft_sign,
    "Swish": swish,
    "ThresholdedRelu": thresholded_relu,
}
