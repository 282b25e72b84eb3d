"""`Padded`: an array whose elements beyond sizes that depend on values mean nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy

from aotc import nn
from aotc import numpy as np
from aotc.core import dtypes
from aotc.dialects.types import Shape, Size
from aotc.importers.common.padded.sizes import (
    bounds_of,
    count_of,
    has_data_dependent,
    is_data_dependent,
    is_equal,
    shown_shape,
)
from aotc.tracing.array import Array
from aotc.tracing.source_locations import fail


@dataclass(frozen=True)
class Padded:
    """A value with data-dependent sizes: an array at upper bounds, and the real shape.

    Args:
        data: of the largest sizes; along each axis the value's own elements come first.
        shape: the sizes, of which at least one depends on values.
    """

    data: Array
    shape: Shape

    def __post_init__(self) -> None:
        """Assert that the array has the bounds of the sizes as its sizes."""
        assert self.data.shape == bounds_of(self.shape), (self.data.shape, self.shape)

    @property
    def dtype(self) -> str:
        """Dtype of the elements."""
        return self.data.dtype

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def axes(self) -> tuple[int, ...]:
        """Axes with padding."""
        return padded_axes(self.shape)

    def __str__(self) -> str:
        """Return the type as text, such as `f32[u0, 3]`."""
        return f"{self.dtype}{shown_shape(self.shape)}"


Value = Array | Padded


@dataclass(frozen=True)
class Equality:
    """The condition that two sizes are equal, not yet asserted at run time."""

    left: Size
    right: Size


def refuse(what: str, help: str) -> NoReturn:
    """Raise `data-dependent-shape` for an operation that padded values do not
    support.
    """
    fail("data-dependent-shape", what, help)


def is_involved(value: object) -> bool:
    """Return whether a tree of arguments holds padded values or data-dependent
    sizes.
    """
    if isinstance(value, (Padded, Equality)):
        return True
    if isinstance(value, (list, tuple)):
        return any(map(is_involved, value))
    if isinstance(value, dict):
        return any(map(is_involved, value.values()))
    if isinstance(value, slice):
        return any(map(is_involved, (value.start, value.stop, value.step)))
    if isinstance(value, numpy.ndarray) and value.dtype == object:
        return has_data_dependent(value.reshape(-1).tolist())
    return is_data_dependent(value)


def by_padding(
    plain: Callable[..., Array], padded: Callable[..., Value]
) -> Callable[..., Value]:
    """Return a function that calls `padded` on data-dependent sizes, else `plain`."""

    def call(*args: object) -> Value:
        return (padded if is_involved(args) else plain)(*args)

    return call


def as_padded(data: Array, shape: Sequence[Size]) -> Value:
    """Return an array as a `Padded` of a shape; unchanged if no size depends on
    data.
    """
    return Padded(data, tuple(shape)) if has_data_dependent(shape) else data


def in_dtype(x: Value, dtype: str | None) -> Value:
    """Return the value converted to a dtype; unchanged for None."""
    return x if dtype is None else as_padded(np.astype(data_of(x), dtype), x.shape)


def data_of(value: object) -> Any:
    """Return a value's array, padding included; data-dependent sizes as scalars."""
    if isinstance(value, Padded):
        return value.data
    if isinstance(value, (list, tuple)):
        return [data_of(each) for each in value]
    return count_of(value) if is_data_dependent(value) else value


def padded_axes(shape: Sequence[Size]) -> tuple[int, ...]:
    """Return the axes of data-dependent size."""
    return tuple(n for n, size in enumerate(shape) if is_data_dependent(size))


# ---- what is padding ----------------------------------------------------------------


def inside(shape: Shape, axes: Sequence[int] | None = None) -> Array:
    """Return a broadcastable mask that is false in padding along some axes."""
    found: Array | None = None
    for axis in padded_axes(shape) if axes is None else axes:
        (bound,) = bounds_of((shape[axis],))
        line = np.less(np.arange(bound, dtype="i32"), count_of(shape[axis], "i32"))
        sizes = [1] * len(shape)
        sizes[axis] = -1
        mask = np.reshape(line, (*sizes[:axis], bound, *sizes[axis + 1 :]))
        found = mask if found is None else np.logical_and(found, mask)
    assert found is not None, "a value has padding"
    return found


def fill_padding(x: Value, neutral: float, axes: Sequence[int] | None = None) -> Array:
    """Return the value's array with a number in the padding along some axes."""
    if isinstance(x, Array):
        return x
    along = x.axes if axes is None else [a for a in axes if a in x.axes]
    if not along:
        return x.data
    number = np.full((), neutral, x.dtype)
    return np.where(inside(x.shape, along), x.data, number)


def mask_padding_gradient(data: Array, shape: Sequence[Size]) -> Value:
    """Return an array as a `Padded` of a shape, with gradients zero in padding."""
    if not has_data_dependent(shape):
        return data
    if data._data is None and dtypes.is_float(data.dtype):
        mask = inside(tuple(shape))
        data = np.where(mask, data, nn.stop_gradient(data))
    return Padded(data, tuple(shape))


def from_first(data: Array, shape: Sequence[Size]) -> Value:
    """Return an array filled up with the first element, as a `Padded` of a shape, if
    values decide that.
    """
    return as_padded(repeating_first(data, shape), shape)


def repeating_first(data: Array, shape: Sequence[Size]) -> Array:
    """Return an array with padding filled by the first element along each
    padded axis.
    """
    axes = padded_axes(shape)
    if not axes or 0 in data.shape:
        return data
    first = nn.stop_gradient(data)
    for axis in axes:
        first = np.take(first, np.zeros((1,), "i32"), axis, mode="clip")
    return np.where(inside(tuple(shape)), data, first)


# ---- shapes that meet ---------------------------------------------------------------


def common_sizes(shapes: Sequence[Shape]) -> list[Size | None]:
    """Return the data-dependent size of each axis of a broadcast; None where there is
    none.

    Raises:
        InputError: such a size meets another one than itself and 1.
    """
    rank = max(map(len, shapes))
    found: list[Size | None] = []
    for axis in range(-rank, 0):
        sizes = [s[axis] for s in shapes if len(s) >= -axis]
        own = next(filter(is_data_dependent, sizes), None)
        found.append(own)
        if own is None:
            continue
        for size in sizes:
            if size != 1 and not is_equal(size, own):
                shown = " and ".join(dict.fromkeys(map(shown_shape, shapes)))
                refuse(
                    f"shapes whose sizes depend on values do not fit: {shown}",
                    "take both from the same positions: "
                    "idx, = torch.where(mask) and then x[idx], y[idx]",
                )
    return found
