"""Forms in which exporters write ops in parts: for the examples of the table."""

from __future__ import annotations

from math import pi, sqrt

from aotc.dialects.builder import Builder
from aotc.dialects.types import Tensor
from aotc.mlir import Value

EPSILON = 1e-5


def mean(b: Builder, x: Value, axis: int = 1) -> Value:
    """Emit the mean of x along an axis, broadcast to the shape of x."""
    return b.expand(b.mean(x, (axis,)), Tensor.of(x), (axis,))


def total(b: Builder, x: Value) -> Value:
    """Emit the sum of each row of x, broadcast to the shape of x."""
    return b.expand(b.reduce_sum(x, axes=(1,)), Tensor.of(x), (1,))


def inverse_root(b: Builder, variance: Value) -> Value:
    """Emit 1 / sqrt(variance + epsilon)."""
    return b.rsqrt(b.offset(variance, EPSILON))


def subtract_mean(b: Builder, x: Value) -> Value:
    """Emit x - mean of each row."""
    return b.subtract(x, mean(b, x))


def by_deviation(b: Builder, x: Value, axis: int = 1) -> Value:
    """Emit 1 / the standard deviation of x along an axis."""
    difference = subtract_mean(b, x)
    return inverse_root(b, mean(b, b.multiply(difference, difference), axis))


def layer_norm(b: Builder, x: Value, axis: int = 1) -> Value:
    """Emit (x - mean) / deviation."""
    return b.multiply(subtract_mean(b, x), by_deviation(b, x, axis))


def batch_norm(b: Builder, x: Value, y: Value, z: Value, middle: Value) -> Value:
    """Emit x * factor + (z - middle * factor), where factor = y / deviation."""
    factor = b.multiply(by_deviation(b, x), y)
    return b.add(b.multiply(x, factor), b.subtract(z, b.multiply(middle, factor)))


def rms_norm(b: Builder, x: Value) -> Value:
    """Emit x / sqrt(mean of x²)."""
    return b.multiply(x, inverse_root(b, mean(b, b.multiply(x, x))))


def by_root_sum(b: Builder, x: Value) -> Value:
    """Emit x / sqrt(sum of x²), a near miss of RMS norm."""
    return b.multiply(x, inverse_root(b, total(b, b.multiply(x, x))))


def gelu(b: Builder, x: Value, factor: float = sqrt(0.5)) -> Value:
    """Emit x (1 + erf(factor x)) / 2."""
    share = b.offset(b.erf(b.scale(x, factor)), 1.0)
    return b.scale(b.multiply(x, share), 0.5)


def tanh_gelu(b: Builder, x: Value, cubic: float = 0.044715) -> Value:
    """Emit x (1 + tanh(sqrt(2 / pi) (x + cubic x³))) / 2."""
    cube = b.multiply(b.multiply(x, x), x)
    inner = b.scale(b.add(x, b.scale(cube, cubic)), sqrt(2 / pi))
    return b.scale(b.multiply(x, b.offset(b.tanh(inner), 1.0)), 0.5)


def logistic(b: Builder, x: Value, one: float = 1.0) -> Value:
    """Emit 1 / (one + e^-x)."""
    return b.divide(b.full_like(x, 1.0), b.offset(b.exp(b.negate(x)), one))


def subtract_max(b: Builder, x: Value) -> Value:
    """Emit x - maximum of each row."""
    return b.subtract(x, b.expand(b.reduce_max(x, axes=(1,)), Tensor.of(x), (1,)))


def share(b: Builder, powers: Value) -> Value:
    """Emit powers / their row sum: the last step of a softmax."""
    return b.divide(powers, total(b, powers))


def log_share(b: Builder, x: Value, powers: Value) -> Value:
    """Emit x - log(row sum of powers): the last step of a log-softmax."""
    return b.subtract(x, b.log(total(b, powers)))
