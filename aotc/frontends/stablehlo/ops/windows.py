"""Windows that slide: reductions over them, and the adjoint of pooling by a choice."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy

from aotc import numpy as np
from aotc.fft import Complex
from aotc.frontends.array import Array
from aotc.frontends.places import fail
from aotc.frontends.stablehlo.operation import Op
from aotc.frontends.stablehlo.ops.reductions import (
    NAMED,
    highest,
    lowest,
    reduced_by_name,
    reduced_by_region,
)
from aotc.frontends.stablehlo.ops.shapes import pad_with
from aotc.frontends.stablehlo.regions import single_op, window_choice
from aotc.frontends.stablehlo.values import (
    Value,
    array,
    each_part,
    known,
    number,
    shape_of,
)
from aotc.frontends.tracing import emit
from aotc.numpy.ordering import taken_along


def reduce_window(op: Op, *operands: Value) -> Value | tuple[Value, ...]:
    """The elements of each window combined with an initial one."""
    count = len(operands) // 2
    xs, firsts = operands[:count], operands[count:]
    name = single_op(op) if count == 1 else None
    if count == 1:
        summed = _cumulative(op, name, xs[0], firsts[0])
        if summed is not None:
            return summed
    views = [windows(op, x, first) for x, first in zip(xs, firsts, strict=True)]
    rank = len(op.kind.shape)
    if count == 1:
        found = reduced_by_name(name, views[0], firsts[0], (rank,))
        if found is not None:
            return found
    return reduced_by_region(op, views, firsts, (rank,))


def windows(op: Op, x: Value, filling: Value) -> Value:
    """Every window of x as a last axis, `filling` where it is padded."""
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


def _cumulative(op: Op, name: str | None, x: Value, first: Value) -> Value | None:
    """A window over all that came before along an axis is a running reduction."""
    shape = shape_of(x)
    size = op.ints("window_dimensions")
    wide = [axis for axis, n in enumerate(size) if n != 1]
    ones = (1,) * len(size)
    steps = ("window_strides", "base_dilations", "window_dilations")
    if len(wide) != 1 or isinstance(x, Complex) or name not in _CUMULATIVE:
        return None
    if any(op.ints(step, ones) != ones for step in steps):
        return None
    (axis,), source = wide, array(x)
    padding = op.ints("padding", (0,) * (2 * len(size)))
    sides = [n for i, n in enumerate(padding) if i // 2 != axis]
    before, after = padding[2 * axis : 2 * axis + 2]
    whole = size[axis] == shape[axis] and not any(sides)
    if (
        not whole
        or source.dtype == "bool"
        or sorted((before, after))
        != [
            0,
            size[axis] - 1,
        ]
    ):
        return None
    if number(first) != NAMED[name][1](source.dtype):
        return None
    return emit(_CUMULATIVE[name], source, axis=axis, reverse=after > 0)


# ---- choices in windows -------------------------------------------------------------


def select_and_scatter(op: Op, x: Value, source: Value, first: Value) -> Array:
    """Each element of `source` added where its window of x has the chosen element."""
    choice = window_choice(op)
    if choice is None or single_op(op, 1) != "stablehlo.add":
        fail(
            "unsupported-ops",
            "expected a select_and_scatter that keeps the larger or smaller element "
            "and adds up what is scattered",
        )
    operand, updates = array(x), array(source)
    places = np.reshape(
        emit("iota", shape=(_count(operand),), axis=0, dtype="i32"), operand.shape
    )
    filling = lowest if choice == "max" else highest
    outside = np.full((), filling(operand.dtype), operand.dtype)
    seen = array(windows(op, operand, outside))
    where = array(windows(op, places, known(-1, "i32")))
    find = np.argmax if choice == "max" else np.argmin
    chosen = _chosen(find, seen, where)
    flat = np.broadcast_to(array(first), (_count(operand),))
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


def _chosen(find: Callable[..., Array], seen: Array, where: Array) -> Array:
    """The positions in x of what each window keeps; -1 in windows of padding only."""
    place = np.expand_dims(find(seen, -1), -1)
    return np.squeeze(taken_along(where, place, where.ndim - 1), -1)


def _count(x: Array) -> Any:
    return numpy.prod(numpy.array(x.shape, object))


OPS: dict[str, Callable[..., Any]] = {
    "stablehlo.reduce_window": reduce_window,
    "stablehlo.select_and_scatter": select_and_scatter,
}
