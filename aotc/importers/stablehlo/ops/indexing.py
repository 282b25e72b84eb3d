"""The windows of gather and scatter, with any dimension numbers.

Both describe windows of an array x at start positions that an index tensor holds. Each
axis of x is one of

    indexed    its start comes from the index tensor
    batch      it goes along with an axis of the index tensor
    whole      the window spans it from 0

and the window keeps it as an axis, or drops it where the window has size 1 there. The
graph's ops (Note [index maps] in `dialects/ops/indexing.py`) read single elements along
indexed axes, so a window of more than one element there becomes that many positions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from aotc import numpy as np
from aotc.dialects.types import Shape
from aotc.tracing.array import Array
from aotc.tracing.tracing import emit

_OUTSIDE = -(2**30)  # stays below 0 when positions within a window are added


@dataclass(frozen=True)
class IndexedWindows:
    """The windows that a gather or scatter addresses in an array of `shape`."""

    shape: Shape
    sizes: Shape  # of a window, for each axis of x
    window_axes: tuple[int, ...]  # of what is read, in the order of kept axes of x
    dropped: tuple[int, ...]  # axes of x that windows do not keep
    batch: tuple[int, ...]  # axes of x that go along …
    index_batch: tuple[int, ...]  # … with these axes of the index tensor
    indexed: tuple[int, ...]  # axes of x, in the order of the index vectors
    vector_axis: int  # of the index tensor, where the index vectors lie

    @property
    def kept(self) -> list[int]:
        """Axes of x that the windows keep."""
        gone = (*self.dropped, *self.batch)
        return [axis for axis in range(len(self.shape)) if axis not in gone]

    def read_axis(self, axis: int) -> int:
        """Return the axis of the gathered array that a kept axis of x becomes."""
        return self.window_axes[self.kept.index(axis)]

    def batch_axes(self, rank: int) -> list[int]:
        """Return the axes of the gathered array that enumerate windows."""
        return [axis for axis in range(rank) if axis not in self.window_axes]


@dataclass(frozen=True)
class Places:
    """The index operands and attributes of the graph's gather or scatter op."""

    indices: list[Array]
    axes: tuple[int, ...]
    along: tuple[int, ...]
    kept: tuple[int, ...]

    def attributes(self, mode: str) -> dict[str, Any]:
        """Return the op's attributes by name, with an out-of-bounds mode."""
        return {"axes": self.axes, "along": self.along, "kept": self.kept, "mode": mode}


def places_of(at: IndexedWindows, indices: Array, *, clamp: bool) -> Places:
    """Return the operands of a graph op that addresses every element of the windows.

    Args:
        at: the windows.
        indices: the index tensor.
        clamp: windows are moved to fit; otherwise those that do not fit are out of
            bounds as a whole.
    """
    starts = _vectors_last(at, indices)
    batch = at.batch_axes(starts.ndim - 1 + len(at.window_axes))
    offsets = {axis: at.read_axis(axis) for axis in at.indexed if axis in at.kept}
    sizes = dict(zip(batch, starts.shape[:-1], strict=True))
    sizes |= {read: at.sizes[axis] for axis, read in offsets.items()}
    along = sorted(sizes)
    shape = tuple(sizes[axis] for axis in along)
    arrays: dict[int, Array] = {}
    for axis, column in _starts_by_axis(at, starts, clamp).items():
        arrays[axis] = _broadcast(column, shape, [along.index(a) for a in batch])
        if at.sizes[axis] != 1:
            step = {"shape": shape, "axis": along.index(offsets[axis])}
            arrays[axis] += emit("iota", **step, dtype=column.dtype)
    axes = tuple(sorted(arrays))
    kept = tuple(at.read_axis(axis) for axis in at.kept if axis not in arrays)
    return Places([arrays[axis] for axis in axes], axes, tuple(along), kept)


def _vectors_last(at: IndexedWindows, indices: Array) -> Array:
    """Return the index tensor with index vectors along the last axis, as i32 or i64."""
    if at.vector_axis == indices.ndim:
        indices = np.expand_dims(indices, -1)
    wide = indices.dtype in ("i64", "u32", "u64")
    indices = np.astype(indices, "i64" if wide else "i32")
    return np.moveaxis(indices, at.vector_axis, -1)


def _starts_by_axis(at: IndexedWindows, starts: Array, clamp: bool) -> dict[int, Array]:
    """Return the starts of windows by axis, for indexed and batch axes of x."""
    columns = {axis: starts[..., n] for n, axis in enumerate(at.indexed)}
    wide = [axis for axis in at.indexed if at.sizes[axis] != 1]
    if clamp:
        columns |= {axis: _clamp_starts(at, axis, columns[axis]) for axis in wide}
    elif wide:
        columns = _invalidate_unfitting(at, columns)
    for axis, place in zip(at.batch, at.index_batch, strict=True):
        position = place - (place > at.vector_axis)
        columns[axis] = emit(
            "iota", shape=starts.shape[:-1], axis=position, dtype=starts.dtype
        )
    return columns


def _clamp_starts(at: IndexedWindows, axis: int, starts: Array) -> Array:
    """Return starts clamped so that windows lie within the axis."""
    last = at.shape[axis] - at.sizes[axis]
    return np.clip(starts, 0, last)


def _invalidate_unfitting(
    at: IndexedWindows, columns: dict[int, Array]
) -> dict[int, Array]:
    """Return starts moved out of bounds for windows that do not fit as a whole."""
    fits: Any = None
    for axis, starts in columns.items():
        last = at.shape[axis] - at.sizes[axis]
        inside = np.logical_and(starts >= 0, starts <= last)
        fits = inside if fits is None else np.logical_and(fits, inside)
    return {
        axis: np.where(fits, starts, np.full_like(starts, _OUTSIDE))
        for axis, starts in columns.items()
    }


def _broadcast(column: Array, shape: Shape, axes: Sequence[int]) -> Array:
    """Return an array broadcast along the axes of windows."""
    if tuple(column.shape) == tuple(shape):
        return column
    return emit("broadcast", column, shape=tuple(shape), axes=tuple(axes))


def read_shape(at: IndexedWindows, indices: Array) -> Shape:
    """Return the shape of the gathered array."""
    batch = [n for axis, n in enumerate(indices.shape) if axis != at.vector_axis]
    kept = [at.sizes[axis] for axis in at.kept]
    rank = len(batch) + len(kept)
    return tuple(
        kept[at.window_axes.index(axis)] if axis in at.window_axes else batch.pop(0)
        for axis in range(rank)
    )
