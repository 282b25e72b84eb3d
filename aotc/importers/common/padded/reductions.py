"""Rules of reductions: padding becomes the neutral element, means count elements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from aotc import debug
from aotc import numpy as np
from aotc.core import dtypes
from aotc.dialects.types import Shape
from aotc.importers.common.padded.elementwise import elementwise
from aotc.importers.common.padded.sizes import count_of
from aotc.importers.common.padded.values import (
    Padded,
    Value,
    as_padded,
    fill_padding,
    from_first,
    in_dtype,
    mask_padding_gradient,
    refuse,
)
from aotc.numpy.elementwise import root_of_squares
from aotc.tracing.array import Array
from aotc.tracing.conversion import to_accumulator

Reduction = Callable[..., Any]
Axes = Sequence[int] | int | None


def listed_axes(x: Value, axes: Axes) -> tuple[int, ...]:
    """List the axes of a reduction as positive numbers; all axes if none is given."""
    rank = len(x.shape)
    if axes is None or (not isinstance(axes, int) and not len(axes)):
        return tuple(range(rank))
    return tuple(a % rank for a in ([axes] if isinstance(axes, int) else axes))


def reduced_shape(x: Value, axes: Sequence[int], keepdims: bool) -> Shape:
    """Return the shape that a reduction leaves."""
    if keepdims:
        return tuple(1 if n in axes else size for n, size in enumerate(x.shape))
    return tuple(size for n, size in enumerate(x.shape) if n not in axes)


def reduce(
    function: Reduction, x: Padded, axes: Axes, keepdims: bool, neutral: Any
) -> Any:
    """`function(array, axes, keepdims=…)` over the elements that are no padding."""
    along = listed_axes(x, axes)
    found = function(fill_padding(x, neutral, along), along, keepdims=keepdims)
    shape = reduced_shape(x, along, keepdims)
    if isinstance(found, (list, tuple)):
        return [as_padded(y, shape) for y in found]
    return as_padded(found, shape)


def lowest(dtype: str) -> Any:
    """Return the least value of a dtype."""
    return _limit(dtype, -1)


def highest(dtype: str) -> Any:
    """Return the greatest value of a dtype."""
    return _limit(dtype, 1)


def _limit(dtype: str, sign: int) -> Any:
    if dtype == "bool":
        return sign > 0
    if dtypes.is_float(dtype):
        return sign * float("inf")
    info = np.iinfo(dtype)
    return int(info.max if sign > 0 else info.min)


def require_elements(x: Padded, axes: Axes) -> None:
    """Fail a call in which nothing is left to take the extreme of."""
    for axis in set(listed_axes(x, axes)) & set(x.axes):
        some = np.greater(count_of(x.shape[axis], "i32"), 0)
        debug.check(some, "at least one element, of which the extreme is taken")


def element_counts(x: Padded, axes: Axes, dtype: str) -> Array:
    """Count the elements that a reduction over these axes reads."""
    found = np.ones((), "i64")
    for axis in listed_axes(x, axes):
        found = np.multiply(found, count_of(x.shape[axis]))
    return np.astype(found, dtype)


def mean(x: Padded, axes: Axes, keepdims: bool) -> Value:
    """The mean; NaN of no element."""
    wide = Padded(to_accumulator(x.data), x.shape)
    total = reduce(np.sum, wide, axes, keepdims, 0)
    count = element_counts(x, axes, wide.dtype)
    found = elementwise(np.divide)(total, count)
    return in_dtype(found, x.dtype)


def variance(x: Padded, axes: Axes, keepdims: bool, ddof: float = 0) -> Value:
    """The mean square of the distances from the mean; of `ddof` elements less."""
    wide = Padded(to_accumulator(x.data), x.shape)
    along = listed_axes(x, axes)
    center = mean(wide, along, True)
    apart = elementwise(np.subtract)(wide, center)
    square = elementwise(np.square)(apart)
    total = reduce(np.sum, square, along, keepdims, 0)
    count = element_counts(x, along, wide.dtype)
    freedom = np.maximum(np.subtract(count, float(ddof)), 0.0)
    return in_dtype(elementwise(np.divide)(total, freedom), x.dtype)


def deviation(x: Padded, axes: Axes, keepdims: bool, ddof: float = 0) -> Value:
    """The root of the variance."""
    return elementwise(root_of_squares)(variance(x, axes, keepdims, ddof))  # type: ignore[no-any-return]


# ---- along an axis ------------------------------------------------------------------


def running_reduction(
    function: Callable[..., Any], x: Padded, axis: int, neutral: Any
) -> Value:
    """Run a cumulative function, a sum say, with the neutral element in padding."""
    data = function(fill_padding(x, neutral, (axis % x.ndim,)), axis)
    return mask_padding_gradient(data, x.shape)


def softmax(function: Callable[..., Array], x: Padded, axis: int) -> Value:
    """A softmax along an axis, in which padding has no part."""
    axis %= x.ndim
    if axis not in x.axes:
        return as_padded(function(x.data, axis), x.shape)
    if not dtypes.is_float(x.dtype):
        refuse(f"a softmax of {x}, integers along padding", "convert it to floats")
    return from_first(
        function(fill_padding(x, lowest(x.dtype), (axis,)), axis), x.shape
    )


def in_order(
    function: Callable[[Array], Sequence[Array]], x: Padded, axis: int, descending: bool
) -> list[Value]:
    """Order elements along an axis; return them, and where they were; padding comes
    last.

    Args:
        function: a stable sort along the axis, in which NaN is the largest.
        x: the value.
        axis: of it.
        descending: whether the largest elements come first.
    """
    last = lowest(x.dtype) if descending else _beyond(x.dtype)
    values, places = function(fill_padding(x, last, (axis % x.ndim,)))
    return [mask_padding_gradient(values, x.shape), as_padded(places, x.shape)]


def _beyond(dtype: str) -> Any:
    """Return a value that sorts after every other number, but for equal ones."""
    return float("nan") if dtypes.is_float(dtype) else highest(dtype)


def most_extreme(
    function: Callable[[Array], Sequence[Array]],
    x: Padded,
    count: int,
    axis: int,
    largest: bool,
) -> list[Value]:
    """The most extreme elements along an axis; a call fails if there are fewer."""
    axis %= x.ndim
    if axis in x.axes:
        enough = np.greater_equal(count_of(x.shape[axis], "i32"), count)
        debug.check(enough, f"at least {count} elements, of which as many are taken")
    last = lowest(x.dtype) if largest else _beyond(x.dtype)
    found = function(fill_padding(x, last, (axis,)))
    shape = [count if n == axis else size for n, size in enumerate(x.shape)]
    return [as_padded(part, shape) for part in found]
