"""Reading and writing at positions that the model computes."""

from __future__ import annotations

from collections.abc import Callable

import numpy

from aotc import numpy as np
from aotc.dialects.types import Size
from aotc.importers.onnx.calling import Imports
from aotc.importers.onnx.values import Known, integers
from aotc.tracing.array import Array
from aotc.tracing.source_locations import fail


def gather(x: Array, indices: Array, *, axis: int = 0) -> Array:
    """Return slices of x at indices along one axis."""
    return np.take(x, _clip_to_axis(indices, x.shape[axis]), axis)


def _clip_to_axis(indices: Array, size: Size) -> Array:
    """Return constant indices clipped to an axis; others as they are."""
    if indices._data is None or not isinstance(size, int):
        return indices
    return Array(data=numpy.clip(indices._data, -size, max(size - 1, 0)))


def gather_elements(x: Array, indices: Array, *, axis: int = 0) -> Array:
    """Return elements of x at indices along one axis, elementwise on the other axes."""
    key = tuple(
        slice(None) if i == axis % x.ndim else slice(0, n)
        for i, n in enumerate(indices.shape)
    )
    inside = _clip_to_axis(indices, x.shape[axis])
    return np.take_along_axis(x[key], inside, axis)


def gather_nd(x: Array, indices: Array, *, batch_dims: int = 0) -> Array:
    """Return elements of x at index vectors, which lie along the last axis."""
    depth = _depth(indices)
    columns = [indices[..., i] for i in range(depth)]
    batches = [
        np.reshape(
            np.astype(np.arange(indices.shape[i]), indices.dtype),
            [-1 if j == i else 1 for j in range(indices.ndim - 1)],
        )
        for i in range(batch_dims)
    ]
    return x[tuple(batches + columns)]


def _depth(indices: Array) -> int:
    """Return the static length of the index vectors."""
    return indices.shape[-1].__index__()


# ---- writing ------------------------------------------------------------------------

_WRITES = {
    "none": "set",
    "add": "add",
    "mul": "multiply",
    "min": "min",
    "max": "max",
}


def write_of(reduction: str) -> str:
    """Return the name of the `x.at[key]` method for an ONNX reduction."""
    if reduction not in _WRITES:
        fail("bad-node", f"expected a reduction of {list(_WRITES)}; got {reduction!r}")
    return _WRITES[reduction]


def _write(x: Array, key: tuple[object, ...], values: Array, reduction: str) -> Array:
    """Return x with values at a key replaced, or combined by an ONNX reduction."""
    write: Callable[[Array], Array] = getattr(x.at[key], write_of(reduction))
    return write(values)


def scatter_elements(
    x: Array, indices: Array, updates: Array, *, axis: int = 0, reduction: str = "none"
) -> Array:
    """Return x with updates written at indices along one axis."""
    key = []
    for i, n in enumerate(indices.shape):
        places = [-1 if j == i else 1 for j in range(x.ndim)]
        along = np.reshape(np.astype(np.arange(n), indices.dtype), places)
        key.append(indices if i == axis % x.ndim else along)
    return _write(x, tuple(key), updates, reduction)


def scatter_nd(
    x: Array, indices: Array, updates: Array, *, reduction: str = "none"
) -> Array:
    """Return x with updates written at index vectors."""
    key = tuple(indices[..., i] for i in range(_depth(indices)))
    return _write(x, key, updates, reduction)


def tensor_scatter(
    past: Array,
    update: Array,
    starts: Array | None = None,
    *,
    axis: int = -2,
    mode: str = "linear",
) -> Array:
    """Return a cache with new entries written from a start position of each
    sequence.
    """
    along = axis % past.ndim
    x, new = np.moveaxis(past, along, 1), np.moveaxis(update, along, 1)
    batch, length = new.shape[:2]
    steps = np.reshape(np.arange(length), (1, length))
    first = 0 if starts is None else np.reshape(np.astype(starts, "i32"), (batch, 1))
    places = np.add(np.broadcast_to(steps, (batch, length)), first)
    if mode == "circular":
        places = np.remainder(places, x.shape[1])
    rows = np.reshape(np.arange(batch), (batch, 1))
    return np.moveaxis(x.at[rows, places].set(new), 1, along)


# ---- classes ------------------------------------------------------------------------


def one_hot(indices: Array, depth: Known, values: Array, *, axis: int = -1) -> Array:
    """Return one-hot vectors of two values, off and on, for class indices."""
    (count,) = integers(depth)
    wanted = np.astype(indices, "i64")
    wanted = np.where(np.less(wanted, 0), np.add(wanted, count), wanted)
    place = axis % (indices.ndim + 1)
    sizes = [-1 if i == place else 1 for i in range(indices.ndim + 1)]
    classes = np.reshape(np.arange(count, dtype="i64"), sizes)
    hit = np.equal(np.expand_dims(wanted, place), classes)
    return np.where(hit, values[1], values[0])


# ---- results whose size the values decide -------------------------------------------

# These are for values that are known; `ops/padded.py` has those of the running model.


def nonzero(x: Array) -> Array:
    """Return the indices of nonzero elements of a constant, a row for each axis."""
    return Array(data=numpy.array(numpy.nonzero(numpy.asarray(x)), numpy.int64))


def compress(x: Array, condition: Array, *, axis: int | None = None) -> Array:
    """Return the elements, or slices along an axis, where the condition holds."""
    return Array(data=numpy.compress(numpy.asarray(condition), numpy.asarray(x), axis))


def unique(
    x: Array, *, axis: int | None = None, sorted: int = 1
) -> tuple[Array, Array, Array, Array]:
    """Return distinct elements, index of each one's first, inverse indices, and
    counts.
    """
    distinct, first, inverse, counts = numpy.unique(
        numpy.asarray(x),
        return_index=True,
        return_inverse=True,
        return_counts=True,
        axis=axis,
    )
    inverse = inverse.reshape(-1)
    if not sorted:
        order = numpy.argsort(first)
        distinct = numpy.take(distinct, order, 0 if axis is None else axis)
        first, counts = first[order], counts[order]
        inverse = numpy.argsort(order)[inverse]
    found = (distinct, *(a.astype(numpy.int64) for a in (first, inverse, counts)))
    one, two, three, four = (Array(data=a) for a in found)
    return one, two, three, four


def reverse_sequence(
    x: Array, lengths: Array, *, batch_axis: int = 1, time_axis: int = 0
) -> Array:
    """Return a batch with the first `lengths` elements of each sequence reversed."""
    moved = np.moveaxis(x, (batch_axis, time_axis), (0, 1))
    batch, time = moved.shape[:2]
    steps = np.reshape(np.arange(time, dtype="i64"), (1, time))
    ends = np.reshape(np.astype(lengths, "i64"), (batch, 1))
    back = np.subtract(np.subtract(ends, 1), steps)
    places = np.where(np.less(steps, ends), back, steps)
    places = np.reshape(places, (batch, time, *[1] * (x.ndim - 2)))
    found = np.take_along_axis(moved, places, 1)
    return np.moveaxis(found, (0, 1), (batch_axis, time_axis))


TABLE: dict[str, Imports] = {
    "Compress": compress,
    "Gather": gather,
    "GatherElements": gather_elements,
    "GatherND": gather_nd,
    "NonZero": nonzero,
    "OneHot": one_hot,
    "ReverseSequence": reverse_sequence,
    "Scatter": scatter_elements,
    "ScatterElements": scatter_elements,
    "ScatterND": scatter_nd,
    "TensorScatter": tensor_scatter,
    "Unique": unique,
}
