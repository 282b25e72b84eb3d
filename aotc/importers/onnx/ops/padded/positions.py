"""Reading and writing at positions, of which some are padding."""

from __future__ import annotations

from aotc.importers.common.padded import axes, cutting, indexing, sources
from aotc.importers.common.padded.values import (
    Value,
    refuse,
)
from aotc.importers.onnx.calling import Imports
from aotc.importers.onnx.ops import (
    indexing as plain,
)
from aotc.tracing.array import Array


def nonzero(x: Value) -> Value:
    """The positions of the elements that are not 0: a row for each axis."""
    return axes.stack(sources.true_positions(x), 0)


def compress(x: Value, condition: Value, *, axis: int | None = None) -> Value:
    """The elements, or slices, for which the condition holds."""
    (places,) = sources.true_positions(condition)
    if axis is None:
        x, axis = axes.reshape(x, (-1,)), 0
    return indexing.take(x, axis, places)


def unique(
    x: Value, *, axis: int | None = None, sorted: int = 1
) -> tuple[Value, Value, Value, Value]:
    """The distinct elements, the first of each, which each is, and how many."""
    if axis is not None or not sorted:
        refuse(
            "distinct slices of an axis, or distinct elements in the order in which "
            "they come",
            "take the distinct elements of all in rising order",
        )
    values, first, inverse, counts = sources.distinct(x)
    return values, first, axes.reshape(inverse, (-1,)), counts


def gather(x: Value, indices: Value, *, axis: int = 0) -> Value:
    """`x` at positions of one axis."""
    return indexing.take(x, axis, indices)


def gather_elements(x: Value, indices: Value, *, axis: int = 0) -> Value:
    """`x` at positions of one axis, each within its own place on the others."""

    def function(data: Array, places: Array) -> Array:
        return plain.gather_elements(data, places, axis=axis)

    return indexing.gather(function, x, axis, indices)


def gather_nd(x: Value, indices: Value, *, batch_dims: int = 0) -> Value:
    """`x` at positions of several axes; the last axis of the indices lists them."""
    if batch_dims:
        refuse("positions within each element of a batch", "number them through")
    return indexing.getitem(x, _columns(indices))


def _columns(indices: Value) -> list[Value]:
    depth = indices.shape[-1]
    if not isinstance(depth, int):
        refuse("positions of as many axes as values decide", "list the axes")
    return [cutting.select(indices, -1, number) for number in range(depth)]


def scatter_elements(
    x: Value, indices: Value, updates: Value, *, axis: int = 0, reduction: str = "none"
) -> Value:
    """`x` with updates at positions of one axis."""

    def function(data: Array, places: Array, values: Array) -> Array:
        return plain.scatter_elements(
            data, places, values, axis=axis, reduction=reduction
        )

    return indexing.scatter(function, x, axis, indices, updates)


def scatter_nd(
    x: Value, indices: Value, updates: Value, *, reduction: str = "none"
) -> Value:
    """`x` with updates at positions of several axes."""
    write = plain.write_of(reduction)
    return indexing.write_at(x, _columns(indices), updates, write)


TABLE: dict[str, Imports] = {
    "NonZero": nonzero,
    "Compress": compress,
    "Unique": unique,
    "Gather": gather,
    "GatherElements": gather_elements,
    "GatherND": gather_nd,
    "ScatterElements": scatter_elements,
    "ScatterND": scatter_nd,
}
