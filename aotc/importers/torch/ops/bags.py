"""ATen ops on tables of embeddings: bags of rows, and rows of limited length."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aotc import numpy as np
from aotc.tracing.array import Array

_SUM, _MEAN, _MAX = range(3)


def embedding_bag(
    table: Array,
    indices: Array,
    offsets: Array,
    scale_grad_by_freq: bool = False,
    mode: int = _SUM,
    sparse: bool = False,
    per_sample_weights: Array | None = None,
    include_last_offset: bool = False,
    padding_idx: int = -1,
) -> list[object]:
    """Return the sum, mean or maximum of each bag of rows; bags begin at `offsets`.

    The other results, which only the derivative of the op reads, are None.
    """
    starts = offsets[:-1] if include_last_offset else offsets
    places = np.arange(indices.shape[0], dtype=starts.dtype)
    bags = np.subtract(np.searchsorted(starts, places, "right"), 1)
    counted = np.not_equal(indices, padding_idx % table.shape[0])
    if padding_idx < 0:
        counted = np.ones(indices.shape, "bool")
    counts = np.zeros(starts.shape, table.dtype)
    counts = np.expand_dims(counts.at[bags].add(np.astype(counted, table.dtype)), 1)
    rows = np.take(table, indices, 0)
    if per_sample_weights is not None:
        rows = np.multiply(rows, np.expand_dims(per_sample_weights, 1))
    neutral = -float("inf") if mode == _MAX else 0.0
    rows = np.where(np.expand_dims(counted, 1), rows, neutral)
    start = np.full((*starts.shape, table.shape[1]), neutral, table.dtype)
    if mode == _MAX:
        y = np.where(np.greater(counts, 0), start.at[bags].max(rows), 0.0)
        return [y, None, None, None]
    y = start.at[bags].add(rows)
    if mode == _MEAN:
        y = np.divide(y, np.maximum(counts, 1.0))
    return [y, None, None, None]


def renormalize(table: Array, indices: Array, limit: float, order: float) -> Array:
    """Return the table with rows at indices scaled down to a norm of `limit` at
    most.
    """
    size = np.absolute(table)
    norm = np.power(np.sum(np.power(size, order), 1, keepdims=True), 1 / order)
    if order == float("inf"):
        norm = np.max(size, 1, keepdims=True)
    used = np.zeros((table.shape[0],), "bool").at[np.ravel(indices)].set(True)
    chosen = np.logical_and(np.expand_dims(used, 1), np.greater(norm, limit))
    scaled = np.multiply(table, np.divide(limit, np.add(norm, 1e-7)))
    return np.where(chosen, scaled, table)


OPS: dict[str, Callable[..., Any]] = {
    "aten._embedding_bag": embedding_bag,
    "aten._embedding_bag_forward_only": embedding_bag,
    "aten.embedding_renorm": renormalize,
}
