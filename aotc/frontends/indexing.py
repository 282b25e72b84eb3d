"""`x[key]`, and reading and writing at positions that the model computes."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from aotc import dtypes
from aotc.dialects.types import Dim, Size
from aotc.frontends.array import Array
from aotc.frontends.axes import one_axis
from aotc.frontends.conversion import ArrayLike, astype, lift, one_dtype
from aotc.frontends.elementwise import add, less, multiply, where
from aotc.frontends.places import fail
from aotc.frontends.sizes import bounds, describe_contracts
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
        x = _narrowed(x, axis, key)
        if isinstance(key, slice):
            sizes.append(x.shape[axis])
        axis += 1
    same = tuple(sizes) == x.shape
    return x if same else emit("reshape", x, shape=tuple(sizes))


# ---- one axis -----------------------------------------------------------------------


def _narrowed(x: Array, axis: int, key: Any) -> Array:
    size = x.shape[axis]
    if isinstance(key, slice):
        ends = [end for end in (key.start, key.stop, key.step) if end is not None]
        if not ends:
            return x
        if isinstance(size, Dim) or any(isinstance(end, Dim) for end in ends):
            return _slice_symbolic(x, axis, key)
        return _slice_fixed(x, axis, key.indices(size))
    if isinstance(size, int) and not isinstance(key, Dim) and not -size <= key < size:
        fail("bad-index", f"index {key} is out of bounds for axis {axis} of {x.type}")
    start = _from_front(key, size)
    _require_inside(x, axis, start, start + 1)
    return _cut(x, axis, start, 1, 1)


def _slice_fixed(x: Array, axis: int, ends: tuple[int, int, int]) -> Array:
    positions = range(*ends)
    if positions.step > 0:
        return _cut(x, axis, positions.start, len(positions), positions.step)
    forward = positions[::-1]
    x = _cut(x, axis, max(forward.start, 0), len(forward), forward.step)
    return emit("reverse", x, axes=(axis,))


def _slice_symbolic(x: Array, axis: int, key: slice) -> Array:
    """Slices whose number of elements depends on a symbolic size."""
    size = x.shape[axis]
    step = 1 if key.step is None else key.step
    if step == -1 and key.start is None and key.stop is None:
        return emit("reverse", x, axes=(axis,))
    if not isinstance(step, int) or step < 1:
        fail(
            "symbolic-size",
            f"axis {axis} of {x.type} has a size known only when the model runs; it "
            f"can be sliced in rising steps only, not by {step}",
        )
    start = 0 if key.start is None else _from_front(key.start, size)
    stop = size if key.stop is None else _from_front(key.stop, size)
    _require_inside(x, axis, start, stop)
    distance = stop - start
    count = distance if step == 1 else (distance + (step - 1)) // step
    return _cut(x, axis, start, count, step)


def _from_front(end: Any, size: Size) -> Size:
    """A position counted from the front; negative ones count from the end."""
    if isinstance(end, Dim):
        return end
    number = operator.index(end)
    return size + number if number < 0 else number


def _require_inside(x: Array, axis: int, start: Size, stop: Size) -> None:
    """Refuse elements that the contracts do not prove to be there."""
    size = x.shape[axis]
    rising = ((0, start), (start, stop), (stop, size))
    missing = max(-bounds(high - low)[0] for low, high in rising)
    if missing <= 0:
        return
    known = isinstance(size, Dim) and math.isfinite(missing)
    least = bounds(size)[0] + missing
    promise = f"aotc.Dim('{size}', min={least})" if known else "a max of each size"
    fail(
        "symbolic-size",
        f"the elements {start} to {stop} of axis {axis} of {x.type} are not provably "
        f"there; promised: {describe_contracts()}",
        f"promise more, such as {promise}, or use a mask",
    )


def _cut(x: Array, axis: int, start: Size, count: Size, step: int) -> Array:
    """`count` elements from `start` in steps of `step`, which are there."""
    if isinstance(start, Dim):  # a slice takes fixed starts, indices may be anywhere
        line = emit("iota", shape=(count,), axis=0, dtype="i32")
        return emit("gather", x, add(multiply(line, step), start), axis=axis)
    if start == 0 and step == 1 and count == x.shape[axis]:
        return x
    first, sizes, strides = [0] * x.ndim, list(x.shape), [1] * x.ndim
    first[axis], sizes[axis], strides[axis] = start, count, step
    return emit(
        "slice", x, start=tuple(first), sizes=tuple(sizes), strides=tuple(strides)
    )


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
    return emit("gather", x, positions, axis=number)


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
