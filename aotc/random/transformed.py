"""Distributions of `aotc.random` that are functions of standard ones.

They have derivatives by their parameters.
"""

from __future__ import annotations

from aotc import numpy as np
from aotc.core.dtypes import DTypeLike
from aotc.dialects.types import Shape
from aotc.numpy.broadcasting import ShapeLike, as_shape
from aotc.random import exact
from aotc.random.distributions import (
    exponential,
    float_dtypes,
    normal,
    parameters,
    uniform,
)
from aotc.tracing.array import Array
from aotc.tracing.conversion import ArrayLike, as_float

__all__ = ["lognormal", "maxwell", "pareto", "rayleigh", "triangular", "weibull_min"]

Given = tuple[list[Array], Shape, str]


def _wide_parameters(
    *values: ArrayLike, shape: ShapeLike | None, dtype: DTypeLike | None
) -> Given:
    """Return broadcast parameters in the compute dtype, their shape, and the result
    dtype.
    """
    name, wide = float_dtypes(as_float(values[0]).dtype if dtype is None else dtype)
    arrays, wanted = parameters(*values, shape=shape, dtype=wide)
    return arrays, wanted, name


def lognormal(
    key: ArrayLike,
    sigma: ArrayLike = 1.0,
    shape: ShapeLike | None = None,
    dtype: DTypeLike | None = None,
) -> Array:
    """Draw log-normal numbers: `e**(sigma z)` of standard normal z."""
    (sigma,), wanted, name = _wide_parameters(sigma, shape=shape, dtype=dtype)
    z = normal(key, wanted, sigma.dtype)
    return np.astype(exact.exp(exact.product(sigma, z)), name)


def pareto(
    key: ArrayLike,
    b: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: DTypeLike | None = None,
) -> Array:
    """Draw Pareto numbers of shape parameter `b` > 0 and scale 1: at least 1, at most
    2**100.

    Such a number exceeds x >= 1 with probability x**-b.
    """
    (b,), wanted, name = _wide_parameters(b, shape=shape, dtype=dtype)
    waited = exponential(key, wanted, b.dtype)
    return np.astype(exact.exp(exact.quotient(waited, b)), name)


def rayleigh(
    key: ArrayLike,
    scale: ArrayLike = 1.0,
    shape: ShapeLike | None = None,
    dtype: DTypeLike | None = None,
) -> Array:
    """Draw Rayleigh numbers: lengths of two normal numbers of deviation `scale`."""
    (scale,), wanted, name = _wide_parameters(scale, shape=shape, dtype=dtype)
    size = exact.sqrt(2.0 * exponential(key, wanted, scale.dtype))
    return np.astype(exact.product(scale, size), name)


def maxwell(key: ArrayLike, shape: ShapeLike = (), dtype: DTypeLike = "f32") -> Array:
    """Draw Maxwell numbers: the length of a vector of three standard normal numbers."""
    name, wide = float_dtypes(dtype)
    z = np.moveaxis(normal(key, (*as_shape(shape), 3), wide), -1, 0)
    return np.astype(exact.sqrt(exact.total(exact.product(z, z), 0)), name)


def weibull_min(
    key: ArrayLike,
    scale: ArrayLike,
    concentration: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: DTypeLike | None = None,
) -> Array:
    """Draw Weibull numbers: over x with probability `e**-(x /
    scale)**concentration`.
    """
    (scale, power), wanted, name = _wide_parameters(
        scale, concentration, shape=shape, dtype=dtype
    )
    logarithm = exact.log(exponential(key, wanted, scale.dtype))
    size = exact.exp(exact.quotient(logarithm, power))
    return np.astype(exact.product(scale, size), name)


def triangular(
    key: ArrayLike,
    left: ArrayLike,
    mode: ArrayLike,
    right: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: DTypeLike | None = None,
) -> Array:
    """Draw triangular numbers between `left` and `right`, most often near `mode`."""
    (left, mode, right), wanted, name = _wide_parameters(
        left, mode, right, shape=shape, dtype=dtype
    )
    u, width = uniform(key, wanted, left.dtype), right - left
    rising = exact.product(u, width) < mode - left
    first = exact.product(exact.product(u, width), mode - left)
    last = exact.product(exact.product(1.0 - u, width), right - mode)
    reach = exact.sqrt(np.maximum(np.where(rising, first, last), _LEAST))
    return np.astype(np.where(rising, left + reach, right - reach), name)


_LEAST = 2.0**-100  # so that a root of zero has a derivative
