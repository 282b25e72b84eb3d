"""Random numbers, from the seed that a node gives: every call draws the same ones."""

from __future__ import annotations

from aotc import numpy as np
from aotc import random
from aotc.dialects.types import Shape
from aotc.importers.onnx.calling import Imports
from aotc.importers.onnx.elements import element
from aotc.tracing.array import Array
from aotc.tracing.survey import note_approximation


def _key(seed: float | None, number: int) -> Array:
    """Return a node's random key, by its number without a seed; note it for
    `explain`.
    """
    note_approximation(
        "each call draws the same numbers, which are none of another runtime's",
        "make the random numbers an input",
    )
    if seed is None:
        return random.fold_in(random.key(0), number)
    return random.key(int(seed))


def _normal(key: Array, shape: Shape, dtype: str, mean: float, scale: float) -> Array:
    """Return normally distributed numbers of a dtype."""
    drawn = random.normal(key, shape, "f32")
    return np.astype(np.add(np.multiply(drawn, scale), mean), dtype)


def _uniform(key: Array, shape: Shape, dtype: str, low: float, high: float) -> Array:
    """Return uniformly distributed numbers of a dtype."""
    drawn = random.uniform(key, shape, "f32", low, high)
    return np.astype(drawn, dtype)


def random_normal(
    *,
    shape: tuple[int, ...],
    dtype: int = 1,
    mean: float = 0.0,
    scale: float = 1.0,
    seed: float | None = None,
    number: int,
) -> Array:
    """Return an array of normally distributed numbers."""
    return _normal(_key(seed, number), shape, element(dtype).dtype, mean, scale)


def random_normal_like(
    x: Array,
    *,
    dtype: int | None = None,
    mean: float = 0.0,
    scale: float = 1.0,
    seed: float | None = None,
    number: int,
) -> Array:
    """Return normally distributed numbers in the shape of x."""
    kind = x.dtype if dtype is None else element(dtype).dtype
    return _normal(_key(seed, number), x.shape, kind, mean, scale)


def random_uniform(
    *,
    shape: tuple[int, ...],
    dtype: int = 1,
    high: float = 1.0,
    low: float = 0.0,
    seed: float | None = None,
    number: int,
) -> Array:
    """Return an array of uniformly distributed numbers."""
    return _uniform(_key(seed, number), shape, element(dtype).dtype, low, high)


def random_uniform_like(
    x: Array,
    *,
    dtype: int | None = None,
    high: float = 1.0,
    low: float = 0.0,
    seed: float | None = None,
    number: int,
) -> Array:
    """Return uniformly distributed numbers in the shape of x."""
    kind = x.dtype if dtype is None else element(dtype).dtype
    return _uniform(_key(seed, number), x.shape, kind, low, high)


def multinomial(
    x: Array,
    *,
    dtype: int = 6,
    sample_size: int = 1,
    seed: float | None = None,
    number: int,
) -> Array:
    """Return class indices drawn by log-probabilities, `sample_size` for each row."""
    batch = x.shape[0]
    drawn = random.categorical(
        _key(seed, number), np.expand_dims(x, 0), -1, (sample_size, batch)
    )
    return np.astype(np.transpose(drawn), element(dtype).dtype)


TABLE: dict[str, Imports] = {
    "Multinomial": multinomial,
    "RandomNormal": random_normal,
    "RandomNormalLike": random_normal_like,
    "RandomUniform": random_uniform,
    "RandomUniformLike": random_uniform_like,
}
