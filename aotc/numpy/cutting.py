"""Positions and slices of one axis: the elements that are there, and where they are."""

from __future__ import annotations

import math
from typing import SupportsIndex

from aotc.dialects.types import Size, SymbolicDim, bounds
from aotc.tracing.array import Array
from aotc.tracing.call_sizes import compiler_size
from aotc.tracing.sizes import StridedRange, describe_contracts, position_of, slice_span
from aotc.tracing.source_locations import fail
from aotc.tracing.tracing import emit


def slice_axis(x: Array, axis: int, key: slice | SupportsIndex) -> Array:
    """Slice an axis of `x`, or select one of its elements."""
    size = x.type.shape[axis]
    if isinstance(key, slice):
        return take_span(x, axis, slice_span(key, size))
    start = position_of(key, size)
    _require_inside(x, axis, key, start)
    return cut(x, axis, start, 1)


def take_span(x: Array, axis: int, span: StridedRange) -> Array:
    """Return the elements of a strided range along an axis, backwards if it is."""
    size = x.type.shape[axis]
    if not span.backwards:
        return cut(x, axis, span.start, span.count, span.step)
    first = size - 1 - span.start - (span.count - 1) * span.step
    if isinstance(first, SymbolicDim) or first < 0 or span.count == 0:
        backwards = emit("reverse", x, axes=(axis,))
        return cut(backwards, axis, span.start, span.count, span.step)
    part = cut(x, axis, first, span.count, span.step)
    return emit("reverse", part, axes=(axis,))


def cut(x: Array, axis: int, start: Size, count: Size, step: int = 1) -> Array:
    """Slice `count` elements of an axis from `start` in steps; all must exist."""
    start, count = compiler_size(start), compiler_size(count)
    if start == 0 and step == 1 and count == x.type.shape[axis]:
        return x
    first: list[Size] = [0] * x.ndim
    sizes, strides = list(x.shape), [1] * x.ndim
    first[axis], sizes[axis], strides[axis] = start, count, step
    return emit(
        "slice", x, start=tuple(first), sizes=tuple(sizes), strides=tuple(strides)
    )


def _require_inside(
    x: Array, axis: int, key: slice | SupportsIndex, position: Size
) -> None:
    """Raise unless contracts prove that the index is within the axis."""
    size = x.type.shape[axis]
    missing = max(-bounds(position)[0], 1 - bounds(size - position)[0])
    if missing <= 0:
        return
    if isinstance(size, int) and isinstance(position, int):
        fail("bad-index", f"index {key} is out of bounds for axis {axis} of {x.type}")
    known = isinstance(size, SymbolicDim) and math.isfinite(missing)
    least = bounds(size)[0] + missing
    promise = f"aotc.Dim('{size}', min={least})" if known else "a max of each size"
    fail(
        "symbolic-size",
        f"the element {position} of axis {axis} of {x.type} is not provably there; "
        f"promised: {describe_contracts()}",
        f"promise more, such as {promise}, or use a mask",
    )
