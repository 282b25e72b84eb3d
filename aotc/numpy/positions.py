"""Arrays of positions: validation, broadcasting and reads.

A mode says what becomes of positions out of bounds: "raise" refuses those that are
known and takes the nearest element for those that the model computes, "clip" always
takes the nearest, "wrap" starts again at the other end, "fill" gives a fixed value.
Negative positions count from the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

import numpy as np

from aotc.core import dtypes
from aotc.dialects.types import Shape, format_shape
from aotc.numpy.broadcasting import broadcast_arrays, broadcast_to
from aotc.numpy.elementwise import (
    add,
    bitwise_and,
    greater_equal,
    less,
    remainder,
    where,
)
from aotc.tracing.array import Array
from aotc.tracing.conversion import ArrayLike, astype, lift
from aotc.tracing.source_locations import fail
from aotc.tracing.tracing import emit

Maps = dict[str, tuple[int, ...]]  # of axes, those that a gather relates

# ---- what may be a position ---------------------------------------------------------


def integers(positions: ArrayLike) -> Array:
    """Return an array of indices; raise for masks and floats."""
    array = integers_or_mask(positions)
    if array.dtype == "bool":
        fail_mask()
    return array


def known_integers(values: ArrayLike) -> np.ndarray:
    """Return integers that are known when the model is built, as a NumPy array."""
    array = integers(values)
    if array._data is None:
        fail(
            "traced-value",
            f"expected integers that are known when the model is built; got "
            f"{array.type}",
        )
    known: np.ndarray = array._data
    return known


def integers_or_mask(positions: ArrayLike) -> Array:
    """Return an array of integers or bools; raise for others. An empty list is i32."""
    array = lift(positions)
    if isinstance(positions, (list, tuple)) and array.size == 0:
        return Array(data=np.zeros(array.shape, "i4"))
    if array.dtype not in (*dtypes.INTEGERS, "bool"):
        fail("bad-index", f"expected integer indices; got {array.type}")
    return array


def fail_mask() -> NoReturn:
    """Raise `InputError` for a mask where indices are expected."""
    fail(
        "bad-index",
        "a mask selects a number of elements that only values decide",
        "keep the shape with aotc.numpy.where(mask, x, 0), or say how many there are "
        "at most: aotc.numpy.extract(mask, x, size=…), compress(mask, x, axis, "
        "size=…), or x[aotc.numpy.nonzero(mask, size=…)]",
    )


def true_positions(x: Array, axis: int, mask: Array) -> list[Array]:
    """Return the indices of a known mask's true elements, an array per axis of it.

    The mask covers axes of `x` from `axis` on.
    """
    if mask._data is None or not mask.ndim:
        fail_mask()
    covered = x.type.shape[axis : axis + mask.ndim]
    if covered != mask.type.shape:
        fail(
            "bad-index",
            f"expected a mask of the shape {format_shape(covered)}, from which it "
            f"selects in {x.type}; got {format_shape(mask.shape)}",
        )
    return [Array(data=found.astype("i4")) for found in np.nonzero(mask._data)]


def broadcast_positions(arrays: Sequence[Array]) -> tuple[Array, ...]:
    """Broadcast index arrays to one dtype and shape."""
    names = {array.dtype for array in arrays}
    if len(names) > 1:
        wide = any(dtypes.bits(name) == 64 or name == "u32" for name in names)
        arrays = [astype(array, "i64" if wide else "i32") for array in arrays]
    return tuple(broadcast_arrays(*arrays))


# ---- out of bounds ------------------------------------------------------------------


def nonnegative_positions(x: Array, axis: int, positions: Array, mode: str) -> Array:
    """Return indices counted from the start of an axis; mode "wrap" wraps them.

    By "raise" known ones out of bounds raise; by others they stay out of bounds.
    """
    if mode == "wrap":
        wide = _wide_positions(positions)
        return remainder(wide, lift(x.shape[axis], wide.dtype))
    if mode == "raise":
        _require_inside(x, axis, positions)
    if positions.dtype not in dtypes.SIGNED:
        return positions
    size, known = x.shape[axis], positions._data
    if known is not None and isinstance(size, int):
        return _narrow_positions(np.where(known < 0, known.astype("i8") + size, known))
    wide = _wide_positions(positions)
    return where(less(wide, 0), add(wide, x.shape[axis]), wide)


def _wide_positions(positions: Array) -> Array:
    """Widen indices to a dtype that can hold the size of an axis."""
    narrow = dtypes.bits(positions.dtype) < 32
    return astype(positions, "i32") if narrow else positions


def _narrow_positions(known: np.ndarray) -> Array:
    """Return known indices in i32 where they fit."""
    fits = (np.abs(known) < 1 << 31).all()
    return Array(data=known.astype("i4" if fits else "i8"))


def _require_inside(x: Array, axis: int, positions: Array) -> None:
    """Raise if a known index is out of bounds of a fixed size."""
    size, known = x.shape[axis], positions._data
    if known is None or not isinstance(size, int):
        return
    outside = known[(known < -size) | (known >= size)]
    if outside.size:
        wrong = outside.flat[0]
        fail("bad-index", f"index {wrong} is out of bounds for axis {axis} of {x.type}")


# ---- reading ------------------------------------------------------------------------


def index_maps(rank: int, axes: Sequence[int], count: int, place: int) -> Maps:
    """Return a gather's axis maps, with its `count` index axes placed at `place`."""
    kept = [*range(place), *range(place + count, rank - len(axes) + count)]
    along = tuple(range(place, place + count))
    return {"axes": tuple(axes), "along": along, "kept": tuple(kept)}


def gather_at(
    x: Array,
    arrays: Sequence[Array],
    axes: Sequence[int],
    place: int,
    mode: str,
    fill: ArrayLike | None = None,
) -> Array:
    """Gather elements at index arrays along `axes`; their axes go to `place`."""
    pairs = list(zip(axes, arrays, strict=True))
    found = broadcast_positions(
        [nonnegative_positions(x, axis, positions, mode) for axis, positions in pairs]
    )
    maps = index_maps(x.ndim, axes, found[0].ndim, place)
    return read(x, found, maps, mode, fill)


def read(
    x: Array, indices: Sequence[Array], maps: Maps, mode: str, fill: ArrayLike | None
) -> Array:
    """Emit a gather; out of bounds it clips, or with mode "fill" gives `fill`.

    Without a `fill` that is NaN, or 0 for integers.
    """
    if mode != "fill":
        return emit("gather", x, *indices, **maps, mode="clip")
    value = (np.nan if dtypes.is_float(x.dtype) else 0) if fill is None else fill
    found = emit("gather", x, *indices, **maps, mode="drop")
    if isinstance(value, (int, float)) and value == 0:
        return found
    inside = _inside(x, indices, maps, found.shape)
    return where(inside, found, lift(value, x.dtype))


def _inside(x: Array, indices: Sequence[Array], maps: Maps, shape: Shape) -> Array:
    """Return whether each gathered element is within bounds."""
    inside = lift(True)
    for axis, positions in zip(maps["axes"], indices, strict=True):
        size = lift(x.shape[axis], positions.dtype)
        within = bitwise_and(greater_equal(positions, 0), less(positions, size))
        inside = bitwise_and(inside, within)
    spread = broadcast_to(inside, indices[0].shape)
    return emit("broadcast", spread, shape=shape, axes=maps["along"])
