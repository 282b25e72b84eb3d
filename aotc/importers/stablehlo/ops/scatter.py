"""Scatters with any dimension numbers, by known updates or any region."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from aotc import control
from aotc import numpy as np
from aotc.complexes import Complex
from aotc.dialects.types import Size
from aotc.importers.stablehlo.operation import Op
from aotc.importers.stablehlo.ops.indexing import IndexedWindows, places_of, read_shape
from aotc.importers.stablehlo.ops.reductions import require_elementwise
from aotc.importers.stablehlo.regions import returns_argument, single_op
from aotc.importers.stablehlo.values import (
    Value,
    array,
    each_part,
    materialize,
    shape_of,
)
from aotc.mlir import stablehlo
from aotc.tracing.array import Array
from aotc.tracing.source_locations import fail
from aotc.tracing.tracing import emit

_NAMED = {
    "stablehlo.add": "scatter_add",
    "stablehlo.multiply": "scatter_mul",
    "stablehlo.maximum": "scatter_max",
    "stablehlo.minimum": "scatter_min",
}
_BOOLS = {"stablehlo.or": "scatter_max", "stablehlo.and": "scatter_min"}


def scatter(op: Op, *operands: Value) -> Value | tuple[Value, ...]:
    """Return x with windows combined with updates; windows that do not fit are
    skipped.
    """
    count = len(operands) // 2
    xs, indices, updates = operands[:count], operands[count], operands[count + 1 :]
    at = [_scatter_windows(op, x, u) for x, u in zip(xs, updates, strict=True)]
    positions = array(indices)
    if 0 in shape_of(updates[0]) or 0 in shape_of(xs[0]):
        return tuple(xs)
    if count == 1:
        name = _scatter_name(op, xs[0])
        if name is not None:
            return each_part(
                lambda x, u: _emit_scatter(name, x, u, positions, at[0]),
                xs[0],
                updates[0],
            )
    require_elementwise(op)
    if op.flag("unique_indices"):
        return _combine_disjoint(op, xs, updates, positions, at)
    return _combine_in_order(op, xs, updates, positions, at)


def _scatter_windows(op: Op, x: Value, update: Value) -> IndexedWindows:
    """Return the windows that a scatter op addresses in x."""
    numbers = stablehlo().ScatterDimensionNumbers(
        op.attribute("scatter_dimension_numbers")
    )
    dropped = tuple(numbers.inserted_window_dims)
    batch = tuple(numbers.input_batching_dims)
    window_axes = tuple(numbers.update_window_dims)
    kept = [a for a in range(len(shape_of(x))) if a not in (*dropped, *batch)]
    window: list[Size] = [1] * len(shape_of(x))
    for axis, place in zip(kept, window_axes, strict=True):
        window[axis] = shape_of(update)[place]
    return IndexedWindows(
        shape=shape_of(x),
        sizes=tuple(window),
        window_axes=window_axes,
        dropped=dropped,
        batch=batch,
        index_batch=tuple(numbers.scatter_indices_batching_dims),
        indexed=tuple(numbers.scattered_dims_to_operand_dims),
        vector_axis=int(numbers.index_vector_dim),
    )


def _scatter_name(op: Op, x: Value) -> str | None:
    """Return the name of the graph op that combines as the region does, or None."""
    if returns_argument(op, 1):
        return "scatter"
    name = single_op(op)
    if isinstance(x, Complex):
        return "scatter_add" if name == "stablehlo.add" else None
    if array(x).dtype == "bool":
        return _BOOLS.get(name or "")
    return _NAMED.get(name or "")


def _with_all_indexed(
    at: IndexedWindows, indices: Array
) -> tuple[IndexedWindows, Array]:
    """Return windows and indices with partly spanned axes indexed explicitly, at 0."""
    partial = [
        axis
        for axis, (size, window) in enumerate(zip(at.shape, at.sizes, strict=True))
        if axis not in (*at.indexed, *at.batch)
        and (size != window or axis in at.dropped)
    ]
    if at.vector_axis == indices.ndim:
        indices = np.expand_dims(indices, -1)
    if not partial:
        return at, indices
    starts = np.moveaxis(indices, at.vector_axis, -1)
    zeros = np.zeros((*starts.shape[:-1], len(partial)), starts.dtype)
    vectors = np.moveaxis(np.concatenate([starts, zeros], -1), -1, at.vector_axis)
    fields = {**vars(at), "indexed": (*at.indexed, *partial)}
    return IndexedWindows(**fields), vectors


def _emit_scatter(
    name: str, x: Array, update: Array, indices: Array, at: IndexedWindows
) -> Array:
    """Emit a scatter by a graph op; return the updated array."""
    at, indices = _with_all_indexed(at, indices)
    if x.dtype == "bool" and name != "scatter":
        numbers, new = np.astype(x, "u8"), np.astype(update, "u8")
        return np.not_equal(_emit_scatter(name, numbers, new, indices, at), 0)
    places = places_of(at, indices, clamp=False)
    if not places.axes:
        return _combine_all(name, x, update, at)
    return emit(name, x, update, *places.indices, **places.attributes("drop"))


def _combine_all(name: str, x: Array, update: Array, at: IndexedWindows) -> Array:
    """Return x combined with each update, where windows span all of x."""
    counted = tuple(at.batch_axes(update.ndim))
    if name == "scatter":
        last = [
            slice(-1, None) if a in counted else slice(None) for a in range(update.ndim)
        ]
        return np.reshape(update[tuple(last)], x.shape)
    combine, reduction = _WHOLE[name]
    total = emit(reduction, update, axes=counted) if counted else update
    return combine(x, total)


_WHOLE: dict[str, tuple[Callable[..., Array], str]] = {
    "scatter_add": (np.add, "reduce_sum"),
    "scatter_mul": (np.multiply, "reduce_prod"),
    "scatter_max": (np.maximum, "reduce_max"),
    "scatter_min": (np.minimum, "reduce_min"),
}


def _combine_disjoint(
    op: Op,
    xs: Sequence[Value],
    updates: Sequence[Value],
    indices: Array,
    at: Sequence[IndexedWindows],
) -> tuple[Value, ...]:
    """Return arrays with disjoint windows combined by the region: gather, apply,
    scatter.
    """
    before = [
        each_part(lambda part, w=w: _read_for_update(part, w, indices), x)
        for x, w in zip(xs, at, strict=True)
    ]
    after = [materialize(value) for value in op.regions[0](*before, *updates)]
    return tuple(
        each_part(lambda p, u, w=w: _emit_scatter("scatter", p, u, indices, w), x, new)
        for x, new, w in zip(xs, after, at, strict=True)
    )


def _read_for_update(x: Array, at: IndexedWindows, indices: Array) -> Array:
    """Return the elements of x that updates address; arbitrary ones if out of
    bounds.
    """
    at, indices = _with_all_indexed(at, indices)
    places = places_of(at, indices, clamp=True)
    if not places.axes:
        return emit("broadcast", x, shape=read_shape(at, indices), axes=at.window_axes)
    return emit("gather", x, *places.indices, **places.attributes("clip"))


def _combine_in_order(
    op: Op,
    xs: Sequence[Value],
    updates: Sequence[Value],
    indices: Array,
    at: Sequence[IndexedWindows],
) -> tuple[Value, ...]:
    """Return arrays with possibly overlapping windows combined in a loop, in order."""
    if any(window.batch for window in at) or any(isinstance(x, Complex) for x in xs):
        fail(
            "unsupported-ops",
            "windows that may overlap, with batches or of complex numbers, are only "
            "combined by an op that the graph scatters with",
            "say unique_indices=True if they do not overlap",
        )
    vectors = _with_all_indexed(at[0], indices)
    windows = [_with_all_indexed(each, indices)[0] for each in at]
    starts = np.moveaxis(vectors[1], at[0].vector_axis, -1)
    rows = np.reshape(starts, (-1, starts.shape[-1]))
    counted = windows[0].batch_axes(len(shape_of(updates[0])))
    parts = [_windows_first(array(u), counted) for u in updates]
    single = [
        IndexedWindows(
            **{**vars(w), "window_axes": tuple(range(len(w.kept))), "vector_axis": 0}
        )
        for w in windows
    ]

    def step(carried: Any, row: Any) -> Any:
        where, *new = row
        return list(_combine_disjoint(op, carried, new, where, single)), None

    start = [materialize(x) for x in xs]
    return tuple(control.scan(step, start, [rows, *parts])[0])


def _windows_first(update: Array, counted: Sequence[int]) -> Array:
    """Return updates with the axes `counted`, which enumerate windows, as axis 0."""
    others = [axis for axis in range(update.ndim) if axis not in counted]
    moved = np.transpose(update, (*counted, *others))
    return np.reshape(moved, (-1, *(update.shape[axis] for axis in others)))


OPS: dict[str, Callable[..., Any]] = {
    "stablehlo.scatter": scatter,
}
