"""First values of parameters: the functions of `jax.nn.initializers`.

Each returns `init(key, shape, dtype="f32")`. The last two axes of a shape are the
inputs and the outputs of a layer; those before, as of a convolution's kernel, are its
receptive field. Outside of an entry they compute at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from aotc import numpy as np
from aotc import random
from aotc.core.dtypes import DTypeLike
from aotc.numpy.broadcasting import ShapeLike
from aotc.tracing.array import Array
from aotc.tracing.conversion import ArrayLike
from aotc.tracing.source_locations import fail

Initializer = Callable[..., Array]

# of the standard normal distribution between -2 and 2
_TRUNCATED_DEVIATION = 0.87962566103423978


def zeros(key: ArrayLike, shape: ShapeLike, dtype: DTypeLike = "f32") -> Array:
    """Return zeros; the key is not used."""
    return np.zeros(shape, dtype)


def ones(key: ArrayLike, shape: ShapeLike, dtype: DTypeLike = "f32") -> Array:
    """Return ones; the key is not used."""
    return np.ones(shape, dtype)


def constant(value: float) -> Initializer:
    """Return an initializer that fills arrays with `value`."""
    return lambda key, shape, dtype="f32": np.full(shape, value, dtype)


def normal(stddev: float = 0.01) -> Initializer:
    """Return an initializer that draws normal numbers of mean 0."""

    def init(key: ArrayLike, shape: ShapeLike, dtype: DTypeLike = "f32") -> Array:
        return random.normal(key, shape, dtype) * stddev

    return init


def uniform(scale: float = 0.01) -> Initializer:
    """Return an initializer that draws uniform numbers in [0, scale)."""

    def init(key: ArrayLike, shape: ShapeLike, dtype: DTypeLike = "f32") -> Array:
        return random.uniform(key, shape, dtype, 0.0, scale)

    return init


def truncated_normal(stddev: float = 0.01) -> Initializer:
    """Return an initializer that draws normal numbers, cut off at two deviations."""

    def init(key: ArrayLike, shape: ShapeLike, dtype: DTypeLike = "f32") -> Array:
        return random.truncated_normal(key, -2.0, 2.0, shape, dtype) * stddev

    return init


def variance_scaling(
    scale: float, mode: str, distribution: str, in_axis: int = -2, out_axis: int = -1
) -> Initializer:
    """Return an initializer that draws numbers of mean 0 and variance scale / n.

    Args:
        scale: of the variance.
        mode: what n counts: `fan_in`, `fan_out` or `fan_avg`, their mean.
        distribution: `normal`, `truncated_normal` (at two deviations) or `uniform`.
        in_axis: of the inputs.
        out_axis: of the outputs.
    """
    if mode not in ("fan_in", "fan_out", "fan_avg"):
        fail("bad-mode", f"expected mode fan_in, fan_out or fan_avg; got {mode!r}")
    if distribution not in ("normal", "truncated_normal", "uniform"):
        fail(
            "bad-distribution",
            "expected distribution normal, truncated_normal or uniform; got "
            f"{distribution!r}",
        )

    def init(key: ArrayLike, shape: Sequence[int], dtype: DTypeLike = "f32") -> Array:
        fans = _fans(shape, in_axis, out_axis)
        count = {"fan_in": fans[0], "fan_out": fans[1], "fan_avg": sum(fans) / 2}[mode]
        deviation = math.sqrt(scale / max(1.0, count))
        if distribution == "uniform":
            reach = math.sqrt(3) * deviation
            return random.uniform(key, shape, dtype, -reach, reach)
        if distribution == "normal":
            return normal(deviation)(key, shape, dtype)
        return truncated_normal(deviation / _TRUNCATED_DEVIATION)(key, shape, dtype)

    return init


def _fans(shape: Sequence[int], in_axis: int, out_axis: int) -> tuple[int, int]:
    """Return fan-in and fan-out: the number of inputs of an output, and the reverse."""
    if len(shape) < 2:
        fail("bad-shape", f"expected a shape of two axes or more; got {tuple(shape)}")
    inputs, outputs = shape[in_axis], shape[out_axis]
    field = math.prod(shape) // max(1, inputs * outputs)
    return inputs * field, outputs * field


def orthogonal(scale: float = 1.0) -> Initializer:
    """Return an initializer by `scale` times orthonormal columns, or rows if fewer.

    All axes but the last one are rows. Saxe, McClelland and Ganguli, ICLR 2014.
    """

    def init(key: ArrayLike, shape: Sequence[int], dtype: DTypeLike = "f32") -> Array:
        if len(shape) < 2:
            fail("bad-shape", f"expected a shape of two axes or more; got {shape}")
        rows, columns = math.prod(shape[:-1]), shape[-1]
        matrix = random.orthogonal(key, rows, (), dtype, columns)
        return np.reshape(matrix, shape) * scale

    return init


def glorot_uniform() -> Initializer:
    """Return the uniform initializer of Glorot and Bengio, AISTATS 2010."""
    return variance_scaling(1.0, "fan_avg", "uniform")


def glorot_normal() -> Initializer:
    """Return an initializer as `glorot_uniform`, with a truncated normal
    distribution.
    """
    return variance_scaling(1.0, "fan_avg", "truncated_normal")


def he_uniform() -> Initializer:
    """Return the uniform initializer for relu of He, Zhang, Ren and Sun, ICCV 2015."""
    return variance_scaling(2.0, "fan_in", "uniform")


def he_normal() -> Initializer:
    """Return an initializer as `he_uniform`, with a truncated normal distribution."""
    return variance_scaling(2.0, "fan_in", "truncated_normal")


def lecun_uniform() -> Initializer:
    """Return the uniform initializer of LeCun, Bottou, Orr and Müller, Efficient
    BackProp, 1998.
    """
    return variance_scaling(1.0, "fan_in", "uniform")


def lecun_normal() -> Initializer:
    """Return an initializer as `lecun_uniform`, with a truncated normal
    distribution.
    """
    return variance_scaling(1.0, "fan_in", "truncated_normal")


# PyTorch's names, of the same authors
xavier_uniform, xavier_normal = glorot_uniform, glorot_normal
kaiming_uniform, kaiming_normal = he_uniform, he_normal
