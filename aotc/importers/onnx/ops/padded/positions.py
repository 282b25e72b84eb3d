"""Reading and writing at positions, of which some are padding."""

from __future__ import annotations

from aotc.importers.common.padded import axes, indexing, sources
from aotc.importers.common.padded.values import Value, refuse
from aotc.importers.onnx.calling import Imports


def nonzero(x: Value) -> Value:
    """Return the indices of nonzero elements, a row for each axis;
    data-dependent size.
    """
    return axes.stack(sources.true_positions(x), 0)  # type: ignore[no-any-return]


def compress(x: Value, condition: Value, *, axis: int | None = None) -> Value:
    """Return the elements, or slices along an axis, where the condition holds."""
    (places,) = sources.true_positions(condition)
    if axis is None:
        x, axis = axes.reshape(x, (-1,)), 0
    return indexing.take(x, axis, places)


def unique(
    x: Value, *, axis: int | None = None, sorted: int = 1
) -> tuple[Value, Value, Value, Value]:
    """Return distinct elements, index of each one's first, inverse indices, and
    counts.
    """
    if axis is not None or not sorted:
        refuse(
            "distinct slices of an axis, or distinct elements in the order in which "
            "they come",
            "take the distinct elements of all in rising order",
        )
    values, first, inverse, counts = sources.distinct(x)
    return values, first, axes.reshape(inverse, (-1,)), counts


def gather(x: Value, indices: Value, *, axis: int = 0) -> Value:
    """Return slices of x at indices along one axis."""
    return indexing.take(x, axis, indices)


TABLE: dict[str, Imports] = {
    "NonZero": nonzero,
    "Compress": compress,
    "Unique": unique,
    "Gather": gather,
}
