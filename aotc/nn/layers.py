"""Layers without a family of their own: dense, embedding, dropout."""

from __future__ import annotations

from aotc import numpy as np
from aotc.core import dtypes
from aotc.core.dtypes import DTypeLike
from aotc.tracing.array import Array
from aotc.tracing.conversion import ArrayLike, lift
from aotc.tracing.source_locations import fail
from aotc.tracing.tracing import emit

__all__ = ["dense", "dropout", "embedding", "one_hot", "stop_gradient"]


def dense(x: ArrayLike, kernel: ArrayLike, bias: ArrayLike | None = None) -> Array:
    """`x @ kernel + bias`, over the last axis of x.

    Args:
        x: …, inputs.
        kernel: inputs, outputs; PyTorch's `Linear.weight` is its transpose.
        bias: outputs, or None.

    Returns:
        …, outputs, in the dtype that all three have.

    Raises:
        InputError: sizes or dtypes do not fit together.
    """
    y = np.matmul(x, kernel)
    return y if bias is None else np.add(y, bias)


def embedding(table: ArrayLike, indices: ArrayLike) -> Array:
    """Look up rows of `table` at `indices`.

    Args:
        table: [rows, features…].
        indices: integers of any shape; those out of bounds are clipped to the nearest
            row, and rows that are not looked up have a gradient of 0.

    Returns:
        [shape of the indices…, features…], in the dtype of the table.

    Raises:
        InputError: `bad-index` for indices that are no integers.
    """
    return np.take(table, indices, 0, mode="clip")


def one_hot(indices: ArrayLike, count: int, dtype: DTypeLike = "f32") -> Array:
    """Return an array with 1 where a new last axis has the index, and 0 elsewhere."""
    return np.astype(is_class(indices, count), dtype)


def is_class(indices: ArrayLike, count: int) -> Array:
    """Return a mask that is true where a new last axis has the index."""
    positions = lift(indices)
    if positions.dtype not in dtypes.INTEGERS:
        fail("dtype-mismatch", f"expected integer classes; got {positions.type}")
    if not isinstance(count, int) or count < 0:
        fail("bad-count", f"expected a number of classes of at least 0; got {count}")
    if dtypes.bits(positions.dtype) < 32:  # whose counter could wrap
        positions = np.astype(positions, "i32")
    shape = (*positions.shape, count)
    line = emit("iota", shape=shape, axis=positions.ndim, dtype=positions.dtype)
    return np.equal(line, np.expand_dims(positions, -1))


def stop_gradient(x: ArrayLike) -> Array:
    """Return the same values, as a constant to differentiation."""
    return emit("stop_gradient", lift(x))


def dropout(key: ArrayLike, x: ArrayLike, rate: float) -> Array:
    """Zero with probability `rate`, scaled by 1 / (1 - rate) otherwise (training).

    Args:
        key: a random key, u32[2]; a new one at each call gives other zeros.
        x: floats of any shape.
        rate: at least 0 and below 1.

    Returns:
        Of the shape and dtype of x.
    """
    from aotc import random

    if not 0 <= rate < 1:
        fail("bad-rate", f"expected a rate of at least 0 and below 1; got {rate}")
    array = lift(x)
    if rate == 0:
        return array
    keep = random.bernoulli(key, 1 - rate, array.shape)
    return np.where(keep, np.multiply(array, 1 / (1 - rate)), 0.0)
