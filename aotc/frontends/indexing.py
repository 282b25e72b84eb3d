"""`x[key]`, and reading and writing at positions that the model computes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from aotc import dtypes
from aotc.dialects.types import Dim, Size
from aotc.frontends.array import Array
from aotc.frontends.axes import one_axis
from aotc.frontends.conversion import ArrayLike, astype, lift, one_dtype
from aotc.frontends.cutting import narrowed
from aotc.frontends.elementwise import add, less, where
from aotc.frontends.places import fail
from aotc.frontends.tracing import emit


def getitem(x: ArrayLike, key: Any) -> Array:
    """`x[key]` for ints, slices, `...`, None, and one array of integers."""
    x = lift(x)
    keys = _expanded(x, key if isinstance(key, tuple) else (key,))
    arrays = [number for number, part in enumerate(keys) if _is_array(part)]
    if not arrays:
        return _basic(x, keys)
    others = [part for part in keys if not isinstance(part, slice)]
    if len(others) > 1:
        fail(
            "bad-index",
            "an array index can be combined with slices only",
            "index in two steps",
        )
    axis, indices = arrays[0], keys[arrays[0]]
    return take(
        _basic(x, [*keys[:axis], slice(None), *keys[axis + 1 :]]), indices, axis
    )


def _expanded(x: Array, keys: tuple[Any, ...]) -> list[Any]:
    """One key per axis and new axis; `...` filled in."""
    dots = [number for number, part in enumerate(keys) if part is Ellipsis]
    used = len([part for part in keys if part is not None and part is not Ellipsis])
    if used > x.ndim or len(dots) > 1:
        fail("bad-index", f"{len(keys)} indices for the {x.ndim} axes of {x.type}")
    missing = [slice(None)] * (x.ndim - used)
    place = dots[0] if dots else len(keys)
    return [*keys[:place], *missing, *keys[place + 1 :]]


def _is_array(part: Any) -> bool:
    """Whether a key is an array of positions; refuses what is no key at all."""
    if isinstance(part, (bool, np.bool_)):
        _fail_mask()
    return part is not None and not isinstance(part, (slice, int, np.integer, Dim))


def _fail_mask() -> NoReturn:
    fail(
        "bad-index",
        "a mask selects a number of elements that only values decide",
        "use aotc.numpy.where",
    )


def _basic(x: Array, keys: Sequence[Any]) -> Array:
    """Slices and integers per axis, then the axes that go and come."""
    axis = 0
    sizes: list[Size] = []
    for key in keys:
        if key is None:
            sizes.append(1)
            continue
        x = narrowed(x, axis, key)
        if isinstance(key, slice):
            sizes.append(x.shape[axis])
        axis += 1
    same = tuple(sizes) == x.shape
    return x if same else emit("reshape", x, shape=tuple(sizes))


# ---- positions that the model computes ----------------------------------------------


def take(
    a: ArrayLike, indices: ArrayLike, axis: int | None = None, *, mode: str = "raise"
) -> Array:
    """`a` at `indices` along `axis`; negative ones count from the end.

    Indices out of bounds are an error where they are known, and clipped to the nearest
    element where the model computes them. With mode "clip", negative ones are too.
    """
    x, number = (lift(a), axis) if axis is not None else (_flat(a), 0)
    number = one_axis(x, number)
    positions = lift(indices)
    if positions.dtype == "bool":
        _fail_mask()
    if positions.dtype not in dtypes.INTEGERS:
        fail("bad-index", f"expected integer indices; got {positions.type}")
    if mode not in ("raise", "clip"):
        fail("bad-index", f"expected mode 'raise' or 'clip'; got {mode!r}")
    if mode == "raise" and positions.dtype in dtypes.SIGNED:
        positions = _counted_from_front(x, number, positions)
    along = tuple(range(number, number + positions.ndim))
    kept = [
        *range(number),
        *range(number + positions.ndim, x.ndim - 1 + positions.ndim),
    ]
    maps = {"axes": (number,), "along": along, "kept": tuple(kept), "mode": "clip"}
    return emit("gather", x, positions, **maps)


def _flat(a: ArrayLike) -> Array:
    x = lift(a)
    return emit("reshape", x, shape=(x.size,))


def _counted_from_front(x: Array, axis: int, positions: Array) -> Array:
    size = x.shape[axis]
    if positions._data is not None and isinstance(size, int):
        known = positions._data
        outside = known[(known < -size) | (known >= size)]
        if outside.size:
            wrong = outside.flat[0]
            fail(
                "bad-index",
                f"index {wrong} is out of bounds for axis {axis} of {x.type}",
            )
        return lift(np.where(known < 0, known.astype("i4") + size, known).astype("i4"))
    wide = astype(positions, "i32") if dtypes.bits(positions.dtype) < 32 else positions
    return where(less(wide, 0), add(wide, size), wide)


def dynamic_slice(
    operand: ArrayLike, start_indices: ArrayLike, slice_sizes: Sequence[int]
) -> Array:
    """`slice_sizes` elements from `start_indices`, moved to fit (JAX's)."""
    starts = _starts(start_indices)
    return emit("dynamic_slice", lift(operand), starts, sizes=tuple(slice_sizes))


def dynamic_update_slice(
    operand: ArrayLike, update: ArrayLike, start_indices: ArrayLike
) -> Array:
    """`operand` with `update` written from `start_indices`, moved to fit (JAX's)."""
    whole, part = one_dtype(operand, update)
    return emit("dynamic_update_slice", whole, part, _starts(start_indices))


def _starts(start_indices: ArrayLike) -> Array:
    """The starts as one vector; a list may mix numbers and arrays."""
    if not isinstance(start_indices, (tuple, list)):
        return lift(start_indices)
    parts = [emit("reshape", part, shape=(1,)) for part in one_dtype(*start_indices)]
    whole = parts[0]
    for part in parts[1:]:
        whole = emit("concatenate", whole, part, axis=0)
    return whole
