"""Windows that slide: reductions over them, and the adjoint of pooling by a choice."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy

from aotc import numpy as np
from aotc.complexes import Complex
from aotc.dialects.types import Shape, Size
from aotc.importers.stablehlo.operation import Op
from aotc.importers.stablehlo.ops.reductions import (
    NAMED,
    highest,
    lowest,
    reduce_by_name,
    reduce_by_region,
)
from aotc.importers.stablehlo.ops.shapes import pad_with
from aotc.importers.stablehlo.regions import called_op, single_op, window_choice
from aotc.importers.stablehlo.values import (
    Value,
    array,
    as_known,
    each_part,
    number,
    shape_of,
    sizes,
)
from aotc.numpy.ordering import taken_along
from aotc.tracing.array import Array
from aotc.tracing.source_locations import fail
from aotc.tracing.tracing import emit


def reduce_window(op: Op, *operands: Value) -> Value | tuple[Value, ...]:
    """Return the reduction of each window by a region, with an initial element."""
    count = len(operands) // 2
    xs, firsts = operands[:count], operands[count:]
    name = single_op(op) if count == 1 else None
    if count == 1:
        summed = _cumulative(_window(op), name, xs[0], firsts[0])
        if summed is not None:
            return summed
    views = [windows(op, x, first) for x, first in zip(xs, firsts, strict=True)]
    rank = len(op.kind.shape)
    if count == 1:
        found = reduce_by_name(name, views[0], firsts[0], (rank,))
        if found is not None:
            return found
    return reduce_by_region(op, views, firsts, (rank,))


def windows(op: Op, x: Value, filling: Value) -> Value:
    """Return x with each window's elements along a new last axis, padded with
    `filling`.
    """
    size = op.ints("window_dimensions")
    ones = (1,) * len(size)
    padding = op.ints("padding", (0,) * (2 * len(size)))
    gaps = tuple(n - 1 for n in op.ints("base_dilations", ones))
    strides, dilation = (
        op.ints(name, ones) for name in ("window_strides", "window_dilations")
    )
    total = math.prod(size)

    def view(part: Array, value: Array) -> Array:
        padded = pad_with(part, value, padding[::2], padding[1::2], gaps)
        if not size:
            return np.expand_dims(padded, -1)
        image = np.expand_dims(padded, (0, padded.ndim + 1))
        attributes = {"strides": strides, "dilation": dilation}
        seen = emit("windows", image, window=size, **attributes)
        counts = seen.shape[1 : 1 + len(size)]
        return np.reshape(seen, (*counts, total))

    return each_part(view, x, filling)


_CUMULATIVE = {
    "stablehlo.add": "cumsum",
    "stablehlo.multiply": "cumprod",
    "stablehlo.maximum": "cummax",
    "stablehlo.minimum": "cummin",
}


@dataclass(frozen=True)
class _SlidingWindow:
    """The size, padding, strides and dilations of a sliding window."""

    size: Shape
    padding: Shape  # before and after each axis in turn
    steps: tuple[Shape, ...]  # strides and dilations

    def cumulative_axis(self, shape: Shape) -> tuple[int, bool] | None:
        """Return (axis, is reverse) if windows hold all elements so far, as a cumsum's;
        else None.
        """
        wide = [axis for axis, n in enumerate(self.size) if n != 1]
        wide = wide or [axis for axis, n in enumerate(shape) if n == 1][:1]
        plain = all(n == 1 for step in self.steps for n in step)
        if len(wide) != 1 or not plain:
            return None
        (axis,) = wide
        rest = self.size[axis] - 1
        for is_reverse in (False, True):
            padding: list[Size] = [0] * (2 * len(shape))
            padding[2 * axis + is_reverse] = rest
            if self.size[axis] == shape[axis] and list(self.padding) == padding:
                return axis, is_reverse
        return None


def _window(op: Op) -> _SlidingWindow:
    """Return the window that an op's attributes describe."""
    size = op.ints("window_dimensions")
    ones = (1,) * len(size)
    steps = ("window_strides", "base_dilations", "window_dilations")
    padding = op.ints("padding", (0,) * (2 * len(size)))
    return _SlidingWindow(size, padding, tuple(op.ints(step, ones) for step in steps))


def _cumulative(
    window: _SlidingWindow, name: str | None, x: Value, initial: Value
) -> Array | None:
    """Return a window over all elements so far as a cumulative reduction; else None."""
    found = window.cumulative_axis(shape_of(x))
    if found is None or isinstance(x, Complex) or name not in _CUMULATIVE:
        return None
    source = array(x)
    if source.dtype == "bool" or number(initial) != NAMED[name][1](source.dtype):
        return None
    axis, is_reverse = found
    return emit(_CUMULATIVE[name], source, axis=axis, reverse=is_reverse)


def dynamic_reduce_window(op: Op, x: Value, first: Value, *facts: Value) -> Array:
    """Return JAX's window of symbolic size as a cumulative reduction; refuse
    any other.
    """
    size, *steps, padding = map(sizes, facts)
    window = _SlidingWindow(size, padding, tuple(steps))
    found = _cumulative(window, called_op(op), x, first)
    if found is None:
        fail(
            "unsupported-ops",
            f"expected a window of symbolic size {size} to hold all that came before "
            "along one axis, as in jnp.cumsum, cumprod, lax.cummax and cummin",
            "give the axis a fixed size, or use jax.lax.scan",
        )
    return found


# ---- choices in windows -------------------------------------------------------------


def select_and_scatter(op: Op, x: Value, source: Value, first: Value) -> Array:
    """Return zeros plus each source element at its window's largest (smallest)
    position.
    """
    choice = window_choice(op)
    if choice is None or single_op(op, 1) != "stablehlo.add":
        fail(
            "unsupported-ops",
            "expected a select_and_scatter that keeps the larger or smaller element "
            "and adds up what is scattered",
        )
    operand, updates = array(x), array(source)
    places = np.reshape(
        emit("iota", shape=(_element_count(operand),), axis=0, dtype="i32"),
        operand.shape,
    )
    filling = lowest if choice == "max" else highest
    outside = np.full((), filling(operand.dtype), operand.dtype)
    seen = array(windows(op, operand, outside))
    where = array(windows(op, places, as_known(-1, "i32")))
    find = np.argmax if choice == "max" else np.argmin
    chosen = _chosen_positions(find, seen, where)
    flat = np.broadcast_to(array(first), (_element_count(operand),))
    summed = emit(
        "scatter_add",
        flat,
        np.ravel(updates),
        np.ravel(chosen),
        axes=(0,),
        along=(0,),
        kept=(),
        mode="drop",
    )
    return np.reshape(summed, operand.shape)


def _chosen_positions(find: Callable[..., Array], seen: Array, where: Array) -> Array:
    """Return the entry of `where` at which `find` picks an element of each window.

    It is the flat index in x; -1 in windows of padding only.
    """
    place = np.expand_dims(find(seen, -1), -1)
    return np.squeeze(taken_along(where, place, where.ndim - 1), -1)


def _element_count(x: Array) -> Any:
    """Return the number of elements of x, as a size."""
    return numpy.prod(numpy.array(x.shape, object))


OPS: dict[str, Callable[..., Any]] = {
    "stablehlo.reduce_window": reduce_window,
    "stablehlo.select_and_scatter": select_and_scatter,
}
