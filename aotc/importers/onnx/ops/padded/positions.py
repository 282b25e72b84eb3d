"""Reading and writing at positions, of which some are padding."""

from __future__ import annotations

from aotc.importers.common.padded import axes, indexing, sources
from aotc.importers.common.padded.values import Value, refuse
from aotc.importers.onnx.calling import Imports


def nonzero(x: Value) -> Value:
    """The positions of the elements that are not 0: a row for each axis."""
    return axes.stack(sources.true_positions(x), 0)  # type: ignore[no-any-return]


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


TABLE: dict[str, Imports] = {
    "NonZero": nonzero,
    "Compress": compress,
    "Unique": unique,
    "Gather": gather,
}
