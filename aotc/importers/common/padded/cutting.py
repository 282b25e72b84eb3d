"""Rules of slices and single positions, which sizes that values decide may end."""

from __future__ import annotations

from collections.abc import Sequence

from aotc import debug
from aotc import numpy as np
from aotc.dialects.types import Size, bounds
from aotc.importers.common.padded.sizes import (
    bound_of,
    count_of,
    has_data_dependent,
    is_at_most,
    is_data_dependent,
    remaining_size,
    shown_size,
    smaller,
)
from aotc.importers.common.padded.values import (
    Value,
    as_padded,
    data_of,
    from_first,
    refuse,
)
from aotc.tracing.array import Array


def _key_on_axis(x: Value, axis: int, key: object) -> tuple[object, ...]:
    """Return an indexing key that applies `key` to one axis and takes the
    others whole.
    """
    return (*[slice(None)] * (axis % len(x.shape)), key)


def slice_axis(
    x: Value,
    axis: int = 0,
    start: Size | None = None,
    end: Size | None = None,
    step: int = 1,
) -> Value:
    """Return `x[start:end:step]` along an axis; sizes may be data-dependent."""
    axis %= len(x.shape)
    size = x.shape[axis]
    shape = list(x.shape)
    if not has_data_dependent([e for e in (size, start, end) if e is not None]):
        data = np.getitem(data_of(x), _key_on_axis(x, axis, slice(start, end, step)))
        shape[axis] = data.shape[axis]
        return as_padded(data, shape)
    if step != 1:
        refuse(
            f"a slice with step {step} of an axis whose size depends on values",
            "take the positions by an index",
        )
    first = 0 if start is None else _clamp_to_axis(start, size)
    last = size if end is None else _clamp_to_axis(end, size)
    shape[axis] = length_between(first, last)
    return _take_range(x, axis, first, shape)


def slice_axes(x: Value, key: Sequence[slice]) -> Value:
    """Return `x` sliced along each axis; sizes may be data-dependent."""
    for axis, part in enumerate(key):
        if part != slice(None):
            x = slice_axis(x, axis, part.start, part.stop, part.step)
    return x


def _clamp_to_axis(end: Size, size: Size) -> Size:
    """Return a slice's bound clamped to an axis; negative ones count from its end."""
    if isinstance(end, int) and end < 0:
        return remaining_size(size, -end)
    if isinstance(end, int) or not is_data_dependent(end):
        return smaller(end, size)
    if not is_at_most(end, size):
        text = f"the end of a slice, at most the {shown_size(size)} of the axis"
        debug.check(np.less_equal(count_of(end), count_of(size)), text)
    return end


def length_between(first: Size, last: Size) -> Size:
    """Return the number of positions from `first` up to `last`; 0 if there are none."""
    difference = last - first
    if not is_data_dependent(difference) and bounds(difference)[0] >= 0:
        return difference
    return remaining_size(last, first)


def _take_range(x: Value, axis: int, first: Size, shape: list[Size]) -> Value:
    """Return the part of `x` that starts at `first` along an axis, in a given shape."""
    data, length = data_of(x), bound_of(shape[axis])
    if first == 0 and data.shape[axis] == length:
        return from_first(data, shape)
    if length == 0:
        return as_padded(np.getitem(data, _key_on_axis(x, axis, slice(0, 0))), shape)
    places = np.add(np.arange(length, dtype="i32"), count_of(first, "i32"))
    return from_first(np.take(data, places, axis, mode="clip"), shape)


def select(x: Value, axis: int, index: Size | Array) -> Value:
    """Return `x` at one index of an axis, without that axis; check the index at run
    time.
    """
    axis %= len(x.shape)
    size = x.shape[axis]
    shape = [each for n, each in enumerate(x.shape) if n != axis]
    data = data_of(x)
    if not has_data_dependent((size, index)) and not isinstance(index, Array):
        return as_padded(np.getitem(data, _key_on_axis(x, axis, index)), shape)
    place = (
        index if isinstance(index, Array) else count_of(_at_least_zero(index), "i32")
    )
    if isinstance(index, int) and index < 0:
        place = np.add(count_of(size, "i32"), index)
    place = np.astype(place, "i32")
    there = np.logical_and(
        np.greater_equal(place, 0), np.less(place, count_of(size, "i32"))
    )
    debug.check(there, f"position {_index_text(index)} of {shown_size(size)} elements")
    return as_padded(np.take(data, place, axis, mode="clip"), shape)


def _at_least_zero(index: Size) -> Size:
    """Return an index with negative numbers replaced by 0."""
    return max(index, 0) if isinstance(index, int) else index


def _index_text(index: Size | Array) -> str:
    """Return a size as text for messages, or "an index" for an array."""
    return "an index" if isinstance(index, Array) else shown_size(index)
