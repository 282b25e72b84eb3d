"""Slices from positions that are only known when the model runs.

A slice that would leave x is moved to fit, as in JAX and StableHLO.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from aotc.core import dtypes as dt
from aotc.dialects import iree_text
from aotc.dialects.attributes import Sizes
from aotc.dialects.builder import Builder
from aotc.dialects.graph import GraphOp, Operand, Pure, Result, Tangent
from aotc.dialects.iree_text.dispatches import window_in_place
from aotc.dialects.lowering import Lowering
from aotc.dialects.lowering.reads import element_reader
from aotc.dialects.ops.indexing import checked_index, in_range
from aotc.dialects.rules.batching import add_leading_axis
from aotc.dialects.rules.checks import require_dtype
from aotc.dialects.rules.samples import OpSample, f32
from aotc.dialects.types import Shape, Size, Tensor, element_count, format_shape
from aotc.errors import InputError
from aotc.mlir import Value, arith


def _require_fit(x: Tensor, starts: Tensor, sizes: Shape) -> None:
    """Raise InputError for starts or sizes that do not fit `x`."""
    require_dtype(starts, dt.INTEGERS)
    if starts.shape != (x.rank,) or len(sizes) != x.rank:
        raise InputError(
            "shape-mismatch",
            f"expected one start and one size per axis of {x}; got starts "
            f"{format_shape(starts.shape)}, sizes {format_shape(sizes)}",
        )
    rooms = [have - size for size, have in zip(sizes, x.shape, strict=True)]
    if any(isinstance(room, int) and room < 0 for room in rooms):
        raise InputError(
            "bad-slice", f"a slice of {format_shape(sizes)} does not fit into {x}"
        )


def _window(
    x: np.ndarray, starts: np.ndarray, sizes: Sequence[int]
) -> tuple[slice, ...]:
    """Return NumPy's slices for a window, with starts clipped to fit."""
    rooms = [max(n - size, 0) for n, size in zip(x.shape, sizes, strict=True)]
    first = np.clip(starts, 0, rooms).astype(int)
    return tuple(slice(a, a + size) for a, size in zip(first, sizes, strict=True))


def _first(
    low: Lowering, op: "DynamicSlice | DynamicUpdateSlice", starts: Value, sizes: Shape
) -> list[Value]:
    """Emit, inside a body, the slice's start on each axis of x, clamped."""
    dtype, found = Tensor.of(op.starts).dtype, []
    for axis, (have, size) in enumerate(zip(Tensor.of(op.x).shape, sizes, strict=True)):
        number = low.extract(starts, [low.index(axis)])
        found.append(checked_index(low, number, dtype, have - size + 1)[0])
    return found


class DynamicSlice(GraphOp, name="dynamic_slice", traits=[Pure]):
    """y = `sizes` elements of x from `starts` (an integer vector), moved to fit."""

    selects = True
    why = "a window at a place that the model computes"

    x: Operand[Any]
    starts: Operand[Any]
    sizes: Sizes
    y: Result[Any]
    dtypes = dt.NAMES

    @staticmethod
    def infer(x: Tensor, starts: Tensor, *, sizes: Shape) -> Tensor:
        """Return the result type: x with the given sizes."""
        _require_fit(x, starts, tuple(sizes))
        return x.with_shape(sizes)

    @staticmethod
    def ref(x: np.ndarray, starts: np.ndarray, *, sizes: tuple[int, ...]) -> np.ndarray:
        """Return the slice in NumPy, with clipped starts."""
        return x[_window(x, starts, sizes)]

    @staticmethod
    def jvp(b: Builder, op: "DynamicSlice", dx: Tangent, _: Tangent) -> Tangent:
        """Return the slice of the tangent, as the op is linear in x."""
        return None if dx is None else b.dynamic_slice(dx, op.starts, sizes=op.sizes)

    @staticmethod
    def vjp(b: Builder, op: "DynamicSlice", dy: Value) -> list[Tangent]:
        """Return dy written into zeros at the same starts."""
        zeros = b.full_like(op.x, 0.0)
        return [b.dynamic_update_slice(zeros, dy, op.starts), None]

    @staticmethod
    def batch(
        b: Builder,
        op: "DynamicSlice",
        operands: Sequence[Value],
        batched: Sequence[bool],
        size: Size,
    ) -> Value:
        """Emit a slice with the whole new axis; a gather if starts are batched."""
        x, starts = operands
        if not batched[1]:
            starts = _from_zero(b, starts)
            return b.dynamic_slice(x, starts, sizes=(size, *op.sizes))
        indices, maps = _as_indices(b, op, starts, op.sizes, x=batched[0])
        if not indices:
            return x if batched[0] else add_leading_axis(b, x, size)
        return b.gather(x, *indices, **maps)

    @staticmethod
    def lower(low: Lowering, op: "DynamicSlice", x: Value, starts: Value) -> Value:
        """Emit a linalg.generic over the result that reads x at offsets."""
        x = low.materialize(x)

        def element(loops: list[Value]) -> Value:
            pairs = zip(_first(low, op, starts, op.sizes), loops, strict=True)
            return low.extract(x, [arith.addi(a, i) for a, i in pairs])

        return low.generate(Tensor.of(op.y), element)

    samples = [
        OpSample((f32(4, 5), np.array([1, 9], "i4")), {"sizes": (2, 3)}),
        OpSample((f32("n", 3), np.array([0, 1], "i8")), {"sizes": ("n", 2)}),
        OpSample((f32(4, 3), np.array([-7, 1], "i1")), {"sizes": (2, 3)}),
        OpSample((f32(300), np.array([200], "u1")), {"sizes": (2,)}),
        OpSample((f32(4, 5), np.array([5, 0], "i4")), {"sizes": (0, 2)}),
        OpSample((f32(), np.zeros(0, "i4")), {"sizes": ()}),
    ]


class DynamicUpdateSlice(GraphOp, name="dynamic_update_slice", traits=[Pure]):
    """y = x with `update` written from `starts` (an integer vector), moved to fit."""

    selects = True
    why = "the adjoint of dynamic_slice, written in place"

    x: Operand[Any]
    update: Operand[Any]
    starts: Operand[Any]
    y: Result[Any]
    dtypes = dt.NAMES

    @staticmethod
    def infer(x: Tensor, update: Tensor, starts: Tensor) -> Tensor:
        """Return the result type, that of x."""
        require_dtype(update, (x.dtype,))
        _require_fit(x, starts, update.shape)
        return x

    @staticmethod
    def ref(x: np.ndarray, update: np.ndarray, starts: np.ndarray) -> np.ndarray:
        """Return a NumPy copy with the update assigned at clipped starts."""
        y = x.copy()
        y[_window(x, starts, update.shape)] = update
        return y

    @staticmethod
    def jvp(
        b: Builder, op: "DynamicUpdateSlice", dx: Tangent, du: Tangent, _: Tangent
    ) -> Value:
        """Return the tangent of x with that of the update written in."""
        dx = b.full_like(op.x, 0.0) if dx is None else dx
        du = b.full_like(op.update, 0.0) if du is None else du
        return b.dynamic_update_slice(dx, du, op.starts)

    @staticmethod
    def vjp(b: Builder, op: "DynamicUpdateSlice", dy: Value) -> list[Tangent]:
        """Return dy outside of the window for x, inside of it for the update."""
        zeros = b.full_like(op.update, 0.0)
        sizes = Tensor.of(op.update).shape
        return [
            b.dynamic_update_slice(dy, zeros, op.starts),
            b.dynamic_slice(dy, op.starts, sizes=sizes),
            None,
        ]

    @staticmethod
    def batch(
        b: Builder,
        op: "DynamicUpdateSlice",
        operands: Sequence[Value],
        batched: Sequence[bool],
        size: Size,
    ) -> Value:
        """Emit an update along the whole new axis; a scatter if starts are batched."""
        sizes = Tensor.of(op.update).shape
        x, update = (
            value if has else add_leading_axis(b, value, size)
            for value, has in zip(operands[:2], batched, strict=False)
        )
        if not batched[2]:
            return b.dynamic_update_slice(x, update, _from_zero(b, operands[2]))
        indices, maps = _as_indices(b, op, operands[2], sizes, x=True)
        return b.scatter(x, update, *indices, **maps) if indices else update

    @staticmethod
    def lower(
        low: Lowering, op: "DynamicUpdateSlice", x: Value, update: Value, starts: Value
    ) -> Value:
        """Emit a linalg.generic that selects between elements of x and the update.

        Or, where x may be written over, a dispatch that writes the window alone.
        """
        whole, part = Tensor.of(op.x), Tensor.of(op.update)
        if element_count(part.shape) == 0:
            return x
        if op.y in low.in_place:
            is_signed = Tensor.of(op.starts).dtype in dt.SIGNED
            given = [x, update, starts]
            text = window_in_place([each.type for each in given], is_signed)
            return iree_text.call("write_window", given, [x.type], text)[0]
        read = element_reader(low, update, part)

        def body(old: Value) -> Value:
            inside, places = low.scalar("bool", True), []
            for axis, first in enumerate(_first(low, op, starts, part.shape)):
                offset = arith.subi(low.loop_index(axis), first)
                place, hit = in_range(low, offset, part.shape[axis])
                inside = arith.andi(inside, hit)
                places.append(place)
            return arith.select(inside, read(places), old)

        return low.pointwise([x], whole, body)

    samples = [
        OpSample((f32(4, 5), f32(2, 3), np.array([1, 9], "i4"))),
        OpSample((f32("n", 3), f32("n", 2), np.array([0, 1], "i8"))),
        OpSample((f32(4, 3), f32(2, 3), np.array([-7, 1], "i1"))),
        OpSample((f32(300), f32(2), np.array([200], "u1"))),
        OpSample((f32(4, 5), f32(0, 5), np.array([1, 0], "i4"))),
        OpSample((f32(), f32(), np.zeros(0, "i4"))),
    ]


# ---- batches ------------------------------------------------------------------------


def _from_zero(b: Builder, starts: Value) -> Value:
    """Emit the starts with a 0 for the new leading axis."""
    zero = b.full(Tensor((1,), Tensor.of(starts).dtype), 0)
    return b.concatenate(zero, starts, axis=0)


def _as_indices(
    b: Builder,
    op: "DynamicSlice | DynamicUpdateSlice",
    starts: Value,
    sizes: Shape,
    *,
    x: bool,
) -> tuple[list[Value], dict[str, Any]]:
    """Emit the gather or scatter indices for slices at `starts`, one per batch.

    An axis that a slice takes whole is not indexed. Returns also the attributes.
    """
    shape = Tensor.of(op.x).shape
    axes = [axis for axis, have in enumerate(shape) if have != sizes[axis]]
    rows = Tensor.of(starts).shape[0]
    spans = (rows, *(sizes[axis] for axis in axes))
    indices = [
        b.add(
            b.broadcast(_start(b, op, starts, axis, sizes), shape=spans, axes=(0,)),
            b.iota(shape=spans, axis=number + 1, dtype="i32"),
        )
        for number, axis in enumerate(axes)
    ]
    kept = tuple(axis + 1 for axis in range(len(shape)) if axis not in axes)
    maps = {
        "axes": tuple(axis + x for axis in axes),
        "along": (0, *(axis + 1 for axis in axes)),
        "kept": (0, *kept) if x else kept,
        "mode": "clip",
    }
    return indices, maps


def _start(
    b: Builder,
    op: "DynamicSlice | DynamicUpdateSlice",
    starts: Value,
    axis: int,
    sizes: Shape,
) -> Value:
    """Emit the column of `starts` for `axis`, clamped to fit, as i32."""
    rows, _ = Tensor.of(starts).shape
    column = b.slice(starts, start=(0, axis), sizes=(rows, 1), strides=(1, 1))
    column = b.reshape(column, shape=(rows,))
    if dt.bits(Tensor.of(column).dtype) < 32:
        column = b.cast(column, dtype="i32")
    like = Tensor.of(column)
    room = b.dimension(
        size=(Tensor.of(op.x).shape[axis] - sizes[axis],), dtype=like.dtype
    )
    last = b.broadcast(b.reshape(room, shape=()), shape=like.shape, axes=())
    return b.cast(b.clamp(column, b.full(like, 0), last), dtype="i32")
