"""Gathers with any dimension numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from aotc import numpy as np
from aotc.dialects.types import Shape
from aotc.importers.stablehlo.operation import Op
from aotc.importers.stablehlo.ops.indexing import IndexedWindows, places_of, read_shape
from aotc.importers.stablehlo.ops.shapes import dynamic_part, reshape_to
from aotc.importers.stablehlo.values import (
    KnownTensor,
    Value,
    array,
    as_known,
    each_part,
    shape_of,
    sizes,
)
from aotc.mlir import stablehlo
from aotc.tracing.array import Array
from aotc.tracing.tracing import emit


def gather(op: Op, x: Value, indices: Value) -> Value:
    """Return the windows of x at start positions; starts are clamped so windows fit."""
    return _gather_windows(op, x, indices, op.ints("slice_sizes"))


def dynamic_gather(op: Op, x: Value, indices: Value, slice_sizes: Value) -> Value:
    """Return the windows of x at start positions, of a size known at import."""
    return _gather_windows(op, x, indices, sizes(slice_sizes))


def _gather_windows(op: Op, x: Value, indices: Value, window: Shape) -> Value:
    """Return the windows of x that a gather op reads, of the size `window`."""
    numbers = stablehlo().GatherDimensionNumbers(op.attribute("dimension_numbers"))
    at = IndexedWindows(
        shape=shape_of(x),
        sizes=window,
        window_axes=tuple(numbers.offset_dims),
        dropped=tuple(numbers.collapsed_slice_dims),
        batch=tuple(numbers.operand_batching_dims),
        index_batch=tuple(numbers.start_indices_batching_dims),
        indexed=tuple(numbers.start_index_map),
        vector_axis=int(numbers.index_vector_dim),
    )
    if len(shape_of(indices)) < 2 and at.vector_axis == 0:
        return _slice_window(x, at, indices)
    return each_part(lambda part: _emit_gather(part, at, array(indices)), x)


def _emit_gather(x: Array, at: IndexedWindows, indices: Array) -> Array:
    """Emit a gather of windows of an array; return them."""
    x, at = _cut_unindexed(x, at)
    if 0 in at.sizes:
        return _zeros_like_result(x, at, indices)
    places = places_of(at, indices, clamp=True)
    if not places.axes:
        return _broadcast_windows(x, at, indices)
    return emit("gather", x, *places.indices, **places.attributes("clip"))


def _slice_window(x: Value, at: IndexedWindows, vector: Value) -> Value:
    """Return a single window, as a slice."""
    starts: list[Value] = [as_known(0, "i32")] * len(at.shape)
    for number, axis in enumerate(at.indexed):
        starts[axis] = _element(vector, number)
    part = dynamic_part(x, at.sizes, starts)
    return reshape_to(part, tuple(at.sizes[axis] for axis in at.kept))


def _element(vector: Value, number: int) -> Value:
    """Return an element of a vector, or the scalar itself."""
    if isinstance(vector, KnownTensor):
        return as_known(vector.data.ravel()[number], vector.dtype)
    return np.ravel(array(vector))[number]


def _cut_unindexed(x: Array, at: IndexedWindows) -> tuple[Array, IndexedWindows]:
    """Crop x to what windows read, without axes they all drop; return it and them."""
    free = [axis for axis in range(x.ndim) if axis not in (*at.indexed, *at.batch)]
    limit = tuple(at.sizes[a] if a in free else n for a, n in enumerate(x.shape))
    if limit != tuple(x.shape):
        zeros, ones = (0,) * x.ndim, (1,) * x.ndim
        x = emit("slice", x, start=zeros, sizes=limit, strides=ones)
    gone = [axis for axis in free if axis in at.dropped]
    if not gone:
        return x, _renumber_axes(at, x.shape, at.sizes, {})
    left = [axis for axis in range(x.ndim) if axis not in gone]
    number = {axis: place for place, axis in enumerate(left)}
    shape = tuple(x.shape[axis] for axis in left)
    return np.reshape(x, shape), _renumber_axes(
        at, shape, tuple(at.sizes[axis] for axis in left), number
    )


def _renumber_axes(
    at: IndexedWindows, shape: Shape, window: Shape, number: dict[int, int]
) -> IndexedWindows:
    """Return windows with the axes of x renumbered by `number`, and others dropped.

    An empty `number` leaves them as they are.
    """

    def renumber(axes: Sequence[int]) -> tuple[int, ...]:
        if not number:
            return tuple(axes)
        return tuple(number[axis] for axis in axes if axis in number)

    return IndexedWindows(
        tuple(shape),
        window,
        at.window_axes,
        renumber(at.dropped),
        renumber(at.batch),
        at.index_batch,
        renumber(at.indexed),
        at.vector_axis,
    )


def _zeros_like_result(x: Array, at: IndexedWindows, indices: Array) -> Array:
    """Return zeros in the shape of the gathered windows."""
    return np.zeros(read_shape(at, indices), x.dtype)


def _broadcast_windows(x: Array, at: IndexedWindows, indices: Array) -> Array:
    """Return x repeated for each start position, as each window is all of x."""
    shape = read_shape(at, indices)
    return emit("broadcast", x, shape=shape, axes=at.window_axes)


OPS: dict[str, Callable[..., Any]] = {
    "stablehlo.dynamic_gather": dynamic_gather,
    "stablehlo.gather": gather,
}
