"""Shapes: reshaping, moving and repeating, cutting and joining, padding."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from aotc import numpy as np
from aotc.dialects.types import Size, bounds, element_count, minimum
from aotc.importers.common.padded import cutting
from aotc.importers.common.padded.values import Value, by_padding
from aotc.importers.onnx.calling import Imports
from aotc.importers.onnx.values import (
    Known,
    integers,
    known_of,
    only_number,
    row_of_numbers,
)
from aotc.tracing.array import Array
from aotc.tracing.conversion import ArrayLike
from aotc.tracing.source_locations import fail

# ---- reshaping ----------------------------------------------------------------------


def reshape(
    x: Array,
    sizes: Known | None = None,
    *,
    shape: tuple[int, ...] | None = None,
    allowzero: int = 0,
) -> Array:
    """Return x reshaped; size 0 copies that of x, -1 is inferred."""
    wanted = tuple(shape or ()) if sizes is None else integers(sizes)
    if not allowzero:
        wanted = tuple(
            x.shape[i] if isinstance(n, int) and n == 0 else n
            for i, n in enumerate(wanted)
        )
    return np.reshape(x, wanted)


def flatten(x: Array, *, axis: int = 1) -> Array:
    """Return x as a matrix, with the axes before `axis` as rows."""
    cut = axis + len(x.shape) if axis < 0 else axis
    rows, columns = element_count(x.shape[:cut]), element_count(x.shape[cut:])
    return np.reshape(x, (rows, columns))


def squeeze(
    x: Array, listed: Known | None = None, *, axes: tuple[int, ...] | None = None
) -> Array:
    """Return x without axes of size 1: those listed, or all."""
    given = axes if listed is None else row_of_numbers(listed)
    return np.squeeze(x, None if given is None else tuple(given))


def unsqueeze(
    x: Array, listed: Known | None = None, *, axes: tuple[int, ...] = ()
) -> Array:
    """Return x with new axes of size 1 at these positions of the result."""
    return np.expand_dims(x, tuple(axes if listed is None else row_of_numbers(listed)))


def transpose(x: Array, *, perm: tuple[int, ...] | None = None) -> Array:
    """Return x with its axes permuted."""
    return np.transpose(x, perm)


# ---- repeating ----------------------------------------------------------------------


def expand(x: Array, shape: Known) -> Array:
    """Return x broadcast with a shape, in both directions."""
    wanted = np.broadcast_shapes(x.shape, integers(shape))
    return np.broadcast_to(x, wanted)


def tile(x: Array, repeats: Known, axis: Known | None = None) -> Array:
    """Return x repeated along each axis."""
    return np.tile(x, integers(repeats))


def range_(start: Known, limit: Known, delta: Known) -> Array:
    """Return the vector `start`, `start + delta`, … before the limit."""
    first, last, step = (only_number(x) for x in (start, limit, delta))
    dtype = _dtype_of(start, limit, delta)
    if all(isinstance(x, float) for x in (first, last, step)):
        count = max(math.ceil((last - first) / step), 0)
        line = np.multiply(np.astype(np.arange(count), dtype), step)
        return np.add(line, first)
    return np.arange(first, last, step, dtype)


def _dtype_of(*known: Known) -> Any:
    """Return the dtype of known tensors, i64 if all hold sizes."""
    kinds = [x.dtype for x in known if x.dtype != object]
    return str(kinds[0]) if kinds else "i64"


def eye_like(x: Array, *, dtype: int | None = None, k: int = 0) -> Array:
    """Return ones on a diagonal, in the shape of x."""
    from aotc.importers.onnx.elements import element

    name = x.dtype if dtype is None else element(dtype).dtype
    return np.eye(x.shape[0], x.shape[1], k, name)


def trilu(x: Array, k: Known | None = None, *, upper: int = 1) -> Array:
    """Return the upper or lower triangle of matrices, zeros elsewhere."""
    offset = 0 if k is None else int(only_number(k))
    return np.triu(x, offset) if upper else np.tril(x, offset)


# ---- cutting and joining ------------------------------------------------------------

_cut_out = by_padding(np.getitem, cutting.slice_axes)


def concat(*xs: Array, axis: int = 1) -> Array:
    """Return the inputs concatenated along an axis."""
    return np.concatenate(xs, axis)


def split(
    x: Array,
    sizes: Known | None = None,
    *,
    axis: int = 0,
    split: tuple[int, ...] | None = None,
    num_outputs: int | None = None,
    wanted: int,
) -> list[Array]:
    """Return x split along an axis into given sizes, or as evenly as possible."""
    parts: Sequence[Size]
    given = split if sizes is None else integers(sizes)
    if given is None:
        count = wanted if num_outputs is None else num_outputs
        part = -(-x.shape[axis] // count)
        parts = [part] * (count - 1)
    else:
        parts = given[:-1]
    ends: list[Size] = []
    at: Size = 0
    for part in parts:
        at = at + part
        ends.append(at)
    starts = [0, *ends]
    return [
        _slice_axis(x, axis, first, last)
        for first, last in zip(starts, [*ends, None], strict=True)
    ]


def _slice_axis(x: Array, axis: int, first: object, last: object) -> Array:
    """Return `x[first:last]` along an axis."""
    key: list[Any] = [slice(None)] * x.ndim
    key[axis] = slice(first, last)
    return x[tuple(key)]


_FAR = 2**31 - 2  # what exporters write for the end of an axis, and more


def slice_(
    x: Value,
    first: Known | None = None,
    last: Known | None = None,
    along: Known | None = None,
    by: Known | None = None,
    *,
    starts: tuple[int, ...] = (),
    ends: tuple[int, ...] = (),
    axes: tuple[int, ...] | None = None,
) -> Value:
    """Return x sliced along some axes with steps."""
    begin = starts if first is None else integers(first)
    stop = ends if last is None else integers(last)
    which = axes if along is None else row_of_numbers(along)
    where = range(len(begin)) if which is None else which
    steps = [1] * len(begin) if by is None else row_of_numbers(by)
    key = [slice(None)] * len(x.shape)
    for axis, start, end, step in zip(where, begin, stop, steps, strict=True):
        key[axis] = _slice_within(start, end, step, x.shape[axis])
    return _cut_out(x, tuple(key))


def _slice_within(start: object, end: object, step: int, size: Size) -> slice:
    """Return a slice object, with None for bounds that are out of range."""
    if isinstance(end, int) and (end >= _FAR if step > 0 else end <= -_FAR):
        end = None
    if isinstance(start, int) and (start <= -_FAR if step > 0 else start >= _FAR):
        start = None
    if isinstance(size, int) and isinstance(start, int) and isinstance(end, int):
        found = slice(start, end, step).indices(size)
        low_end = None if step < 0 and found[1] < 0 else found[1]
        return slice(found[0], low_end, step)
    return slice(start, end, step)


def center_crop_pad(
    x: Array, shape: Known, *, axes: tuple[int, ...] | None = None
) -> Array:
    """Return x cropped or zero-padded around its centre to a shape."""
    wanted = integers(shape)
    for axis, size in zip(axes or range(x.ndim), wanted, strict=True):
        have = x.shape[axis]
        more = size - have
        if bounds(more)[0] >= 0:
            sides: list[tuple[Size, Size]] = [(0, 0)] * x.ndim
            sides[axis] = (more // 2, more - more // 2)
            x = np.pad(x, sides)
        else:
            first = (have - minimum(size, have)) // 2
            x = _slice_axis(x, axis, first, first + size)
    return x


# ---- padding ------------------------------------------------------------------------

_MODES = {"constant": "constant", "reflect": "reflect", "edge": "edge", "wrap": "wrap"}


def pad(
    x: Array,
    sides: Known | None = None,
    constant: Array | None = None,
    listed: Known | None = None,
    *,
    mode: str = "constant",
    pads: tuple[int, ...] = (),
    value: float = 0.0,
) -> Array:
    """Return x padded by a mode; negative widths crop."""
    numbers_of = pads if sides is None else integers(sides)
    axes = (
        range(x.ndim)
        if listed is None
        else [a % x.ndim for a in row_of_numbers(listed)]
    )
    count = len(numbers_of) // 2
    pairs: list[tuple[Any, Any]] = [(0, 0)] * x.ndim
    for place, axis in enumerate(axes):
        pairs[axis] = (numbers_of[place], numbers_of[count + place])
    for axis, (low, high) in enumerate(pairs):
        x, pairs[axis] = _crop_negative(x, axis, low, high)
    if mode == "constant":
        if constant is None or constant.shape == (0,):
            return _pad_with(x, pairs, value)
        return _pad_with(x, pairs, constant)
    if mode not in _MODES:
        fail("bad-node", f"expected a mode of {', '.join(_MODES)}; got {mode!r}")
    return np.pad(x, pairs, mode)


def _crop_negative(
    x: Array, axis: int, low: ArrayLike, high: ArrayLike
) -> tuple[Array, Any]:
    """Crop x by negative padding; return it with the remaining padding."""
    first = -low if isinstance(low, int) and low < 0 else None
    last = high if isinstance(high, int) and high < 0 else None
    if first is not None or last is not None:
        x = _slice_axis(x, axis, first, last)
    return x, (0 if first is not None else low, 0 if last is not None else high)


def _pad_with(
    x: Array, pairs: Sequence[tuple[object, object]], fill: Array | float
) -> Array:
    """Return x padded with a number, which the model may compute."""
    if not isinstance(fill, float):
        known = known_of(fill)
        fill = np.reshape(fill, ()) if known is None else known.reshape(()).item()
    return np.pad(x, pairs, constant_values=fill)


# ---- space and depth ----------------------------------------------------------------


def depth_to_space(x: Array, *, blocksize: int, mode: str = "DCR") -> Array:
    """Return an image with groups of channels moved into blocks of pixels."""
    n, c, h, w = x.shape
    b, rest = blocksize, c // (blocksize * blocksize)
    if mode == "DCR":
        split = np.reshape(x, (n, b, b, rest, h, w))
        moved = np.transpose(split, (0, 3, 4, 1, 5, 2))
    else:
        split = np.reshape(x, (n, rest, b, b, h, w))
        moved = np.transpose(split, (0, 1, 4, 2, 5, 3))
    return np.reshape(moved, (n, rest, h * b, w * b))


def space_to_depth(x: Array, *, blocksize: int, mode: str = "DCR") -> Array:
    """Return an image with blocks of pixels moved into channels."""
    n, c, h, w = x.shape
    b = blocksize
    split = np.reshape(x, (n, c, h // b, b, w // b, b))
    order = (0, 3, 5, 1, 2, 4) if mode == "DCR" else (0, 1, 3, 5, 2, 4)
    return np.reshape(np.transpose(split, order), (n, c * b * b, h // b, w // b))


TABLE: dict[str, Imports] = {
    "CenterCropPad": center_crop_pad,
    "Concat": concat,
    "DepthToSpace": depth_to_space,
    "Expand": expand,
    "EyeLike": eye_like,
    "Flatten": flatten,
    "Pad": pad,
    "Range": range_,
    "Reshape": reshape,
    "Slice": slice_,
    "SpaceToDepth": space_to_depth,
    "Split": split,
    "Squeeze": squeeze,
    "Tile": tile,
    "Transpose": transpose,
    "Trilu": trilu,
    "Unsqueeze": unsqueeze,
}
