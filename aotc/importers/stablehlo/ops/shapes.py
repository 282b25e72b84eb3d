"""Ops that make, move, cut and join elements, with fixed and dynamic sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy

from aotc import numpy as np
from aotc.complexes import Complex
from aotc.core import dtypes
from aotc.dialects.types import Shape, Size, SymbolicDim, ceil_divide, maximum, minimum
from aotc.importers.stablehlo.operation import Op
from aotc.importers.stablehlo.values import (
    KnownTensor,
    Value,
    array,
    as_known,
    constant,
    each_part,
    number,
    shape_of,
    sizes,
    stack_scalars,
)
from aotc.numpy import padding
from aotc.tracing.array import Array
from aotc.tracing.conversion import lift
from aotc.tracing.tracing import emit

Rule = Callable[..., object]


def static_shape(op: Op) -> Shape:
    """Return the shape of the op's result, with -1 for dynamic sizes."""
    return tuple(-1 if n is None else n for n in op.kind.shape)


# ---- constants ----------------------------------------------------------------------


def make_constant(op: Op) -> Value:
    """Return the value of a constant op."""
    kind = op.kind
    data = literal(op)
    if kind.is_complex:
        return Complex(lift(data.real.copy()), lift(data.imag.copy()))
    return constant(data)


def literal(op: Op) -> Any:
    """Return the NumPy array of a constant op, a view of the module's memory if
    possible.
    """
    kind = op.kind
    if kind.is_complex or kind.dtype == "bf16":
        return _literal_from_text(op)
    data = numpy.asarray(op.attribute("value"))
    return data.view(dtypes.to_numpy(kind.dtype)).reshape(kind.shape)


def _literal_from_text(op: Op) -> Any:
    """Return a constant's array, parsed from MLIR's text."""
    kind = op.kind
    part = numpy.dtype(dtypes.to_numpy(kind.dtype))
    whole = numpy.dtype(f"c{2 * part.itemsize}") if kind.is_complex else part
    text = str(op.op).split("dense<", 1)[1].rsplit("> :", 1)[0]
    if text.startswith('"0x'):
        data = numpy.frombuffer(bytes.fromhex(text[3:-1]), whole)
    else:
        words = text.translate(str.maketrans("[](),", "     ")).split()
        data = numpy.array([_element(word, part) for word in words], part).view(whole)
    if data.size == 1:
        return numpy.full(kind.shape, data[0], whole)
    return data.reshape(kind.shape)


def _element(word: str, dtype: Any) -> Any:
    """Return a number parsed from MLIR's text; hexadecimal words are bit patterns."""
    if not word.startswith("0x"):
        return float(word)
    return numpy.array(int(word, 16), f"u{dtype.itemsize}").view(dtype)


def iota(op: Op) -> Value:
    """Return the index along an axis, in the shape of the result."""
    return _iota(op, static_shape(op))


def dynamic_iota(op: Op, shape: Value) -> Value:
    """Return an iota in the shape of an operand, which must be known at import."""
    return _iota(op, sizes(shape))


def _iota(op: Op, shape: Shape) -> Value:
    """Return the index along an axis, in a shape."""
    kind, axis = op.kind, op.integer("iota_dimension")
    numbers = emit("iota", shape=shape, axis=axis, dtype=kind.dtype)
    return Complex(numbers, np.zeros_like(numbers)) if kind.is_complex else numbers


# ---- shapes -------------------------------------------------------------------------


def reshape_to(x: Value, shape: Shape) -> Value:
    """Return x, real or complex, reshaped."""
    return each_part(lambda part: np.reshape(part, shape), x)


def reshape(op: Op, x: Value) -> Value:
    """Return x reshaped to the result's shape."""
    return reshape_to(x, _resolved_shape(static_shape(op), x))


def _resolved_shape(shape: Shape, x: Value) -> Shape:
    """Return the shape of x if several sizes are dynamic, as only one can be
    inferred.
    """
    return shape_of(x) if shape.count(-1) > 1 else shape


def dynamic_reshape(op: Op, x: Value, shape: Value) -> Value:
    """Return x reshaped to a shape operand, which must be known at import."""
    return reshape_to(x, sizes(shape))


def broadcast_to(x: Value, axes: Sequence[int], shape: Shape) -> Value:
    """Return x broadcast to `shape`, with axis i as axis `axes[i]`; size 1
    stretches.
    """

    def repeat(part: Array) -> Array:
        return emit("broadcast", part, shape=tuple(shape), axes=tuple(axes))

    return each_part(repeat, x) if tuple(shape) != shape_of(x) else x


def broadcast_in_dim(op: Op, x: Value) -> Value:
    """Return x broadcast to the result's shape."""
    return broadcast_to(x, op.ints("broadcast_dimensions"), static_shape(op))


def dynamic_broadcast_in_dim(op: Op, x: Value, shape: Value) -> Value:
    """Return x broadcast to a shape operand, which must be known at import."""
    return broadcast_to(x, op.ints("broadcast_dimensions"), sizes(shape))


def transpose(op: Op, x: Value) -> Value:
    """Return x with its axes permuted."""
    order = op.ints("permutation")
    return each_part(lambda part: np.transpose(part, order), x)


def reverse(op: Op, x: Value) -> Value:
    """Return x reversed along axes."""
    axes = op.ints("dimensions")
    return each_part(lambda part: np.flip(part, axes), x) if axes else x


def concatenate(op: Op, *xs: Value) -> Value:
    """Return the operands concatenated along an axis."""
    axis = op.integer("dimension")
    return each_part(lambda *parts: np.concatenate(list(parts), axis), *xs)


def get_dimension_size(op: Op, x: Value) -> KnownTensor:
    """Return a size of the operand, as an integer scalar."""
    return as_known(shape_of(x)[op.integer("dimension")], op.kind.dtype)


# ---- cutting ------------------------------------------------------------------------


def strided_slice(x: Value, start: Shape, limit: Shape, steps: Sequence[int]) -> Value:
    """Return `x[start:limit:steps]` along every axis."""
    counts = tuple(
        ceil_divide(last - first, step)
        for first, last, step in zip(start, limit, steps, strict=True)
    )
    return each_part(
        lambda part: emit("slice", part, start=start, sizes=counts, strides=steps), x
    )


def slice_(op: Op, x: Value) -> Value:
    """Return x sliced by the op's attributes."""
    limit = op.ints("limit_indices")
    return strided_slice(x, op.ints("start_indices"), limit, op.ints("strides"))


def real_dynamic_slice(
    op: Op, x: Value, start: Value, limit: Value, steps: Value
) -> Value:
    """Return x sliced between computed positions.

    Positions that depend on data are those of a part of a known size: JAX writes a
    dynamic slice of symbolic sizes as one from `start` to `start + sizes`.
    """
    counts = _offset_from_start(op)
    if counts is not None and not isinstance(start, KnownTensor):
        at = np.astype(array(start), "i64")
        return each_part(lambda p: emit("dynamic_slice", p, at, sizes=counts), x)
    return strided_slice(
        x, sizes(start), sizes(limit), tuple(int(n) for n in sizes(steps))
    )


def _offset_from_start(op: Op) -> Shape | None:
    """Return the length that is added to a slice's start for its limit; None if
    unknown.
    """
    _, start, limit, _ = op.op.operands
    maker = getattr(limit.owner, "operation", None)
    if maker is None or maker.name != "stablehlo.add" or start not in maker.operands:
        return None
    (first, second) = maker.operands
    added = op.outer.get(second if first == start else first)
    return sizes(added) if isinstance(added, KnownTensor) else None


def dynamic_slice(op: Op, x: Value, *starts: Value) -> Value:
    """Return a slice of fixed sizes; starts are clamped so that it fits."""
    return dynamic_part(x, op.ints("slice_sizes"), starts)


def dynamic_part(x: Value, counts: Shape, starts: Sequence[Value]) -> Value:
    """Return a slice of `counts` elements; starts are clamped so that it fits."""
    if not counts:
        return x
    fixed = _clamped_starts(shape_of(x), counts, starts)
    if fixed is not None:
        ends = tuple(first + n for first, n in zip(fixed, counts, strict=True))
        return strided_slice(x, fixed, ends, (1,) * len(counts))
    at = _start_vector(starts)
    return each_part(lambda p: emit("dynamic_slice", p, at, sizes=counts), x)


def _clamped_starts(
    shape: Shape, counts: Shape, starts: Sequence[Value]
) -> tuple[Size, ...] | None:
    """Return start positions clamped so that the slice fits; None if some are
    unknown.
    """
    numbers = [number(start) for start in starts]
    if not all(isinstance(n, int | SymbolicDim) for n in numbers):
        return None
    bounds: Any = zip(shape, counts, numbers, strict=True)
    return tuple(
        0 if first == 0 else minimum(maximum(first, 0), size - count)
        for size, count, first in bounds
    )


def _start_vector(starts: Sequence[Value]) -> Array:
    """Return start positions as one vector, i64 if any is wider than i32."""
    wide = any(array(start).dtype in ("i64", "u32", "u64") for start in starts)
    return stack_scalars(starts, "i64" if wide else "i32")


def dynamic_update_slice(op: Op, x: Value, update: Value, *starts: Value) -> Value:
    """Return x with a slice replaced; starts are clamped so that it fits."""
    if not starts:
        return update
    at = _start_vector(starts)
    return each_part(lambda p, u: emit("dynamic_update_slice", p, u, at), x, update)


# ---- padding ------------------------------------------------------------------------


def pad_with(
    x: Array, value: Value, low: Shape, high: Shape, interior: Sequence[int]
) -> Array:
    """Return x padded around and between its elements; negative widths crop."""
    if not any(n != 0 for widths in (low, high, interior) for n in widths):
        return x
    known = number(value)
    return padding.pad_with(
        x, array(value) if known is None else known, low, high, interior
    )


def _pad(x: Value, value: Value, low: Shape, high: Shape, gaps: Sequence[int]) -> Value:
    """Return a real or complex x padded around and between its elements."""
    return each_part(lambda part, v: pad_with(part, v, low, high, gaps), x, value)


def pad(op: Op, x: Value, value: Value) -> Value:
    """Return x padded by the op's attributes; negative widths crop."""
    low, high = op.ints("edge_padding_low"), op.ints("edge_padding_high")
    return _pad(x, value, low, high, op.ints("interior_padding"))


def dynamic_pad(
    op: Op, x: Value, value: Value, low: Value, high: Value, interior: Value
) -> Value:
    """Return x padded by width operands, whose values must be known at import.

    Interior widths must be plain integers.
    """
    gaps = tuple(int(n) for n in sizes(interior))
    return _pad(x, value, sizes(low), sizes(high), gaps)


OPS: dict[str, Rule] = {
    "stablehlo.broadcast_in_dim": broadcast_in_dim,
    "stablehlo.concatenate": concatenate,
    "stablehlo.constant": make_constant,
    "stablehlo.dynamic_broadcast_in_dim": dynamic_broadcast_in_dim,
    "stablehlo.dynamic_iota": dynamic_iota,
    "stablehlo.dynamic_pad": dynamic_pad,
    "stablehlo.dynamic_reshape": dynamic_reshape,
    "stablehlo.dynamic_slice": dynamic_slice,
    "stablehlo.dynamic_update_slice": dynamic_update_slice,
    "stablehlo.get_dimension_size": get_dimension_size,
    "stablehlo.iota": iota,
    "stablehlo.pad": pad,
    "stablehlo.real_dynamic_slice": real_dynamic_slice,
    "stablehlo.reshape": reshape,
    "stablehlo.reverse": reverse,
    "stablehlo.slice": slice_,
    "stablehlo.transpose": transpose,
    "chlo.constant": make_constant,
}
