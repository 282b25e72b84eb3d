"""Ops that cut and join: slice, concatenate."""

from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np

from aotc.core import dtypes as dt
from aotc.dialects.attributes import Int, Ints, Sizes
from aotc.dialects.builder import Builder
from aotc.dialects.graph import GraphOp, Operand, Pure, Result, Tangent
from aotc.dialects.lowering import Lowering
from aotc.dialects.movement.nests import COPY, Nest
from aotc.dialects.movement.views import View
from aotc.dialects.ops.padding import dilated_size
from aotc.dialects.patterns.rows import RewriteRow
from aotc.dialects.patterns.terms import X, Y, call, this
from aotc.dialects.rules.batching import before, leading, prepend_size, shift_axes
from aotc.dialects.rules.checks import require_dtype
from aotc.dialects.rules.movement import Movement
from aotc.dialects.rules.padding import BucketPadding
from aotc.dialects.rules.reordering import in_any_order, rename_axes, reorder_sizes
from aotc.dialects.rules.samples import OpSample, f32, i32
from aotc.dialects.rules.slices import slice_of_broadcast, slice_of_part, slice_of_slice
from aotc.dialects.types import (
    Shape,
    Size,
    SymbolicDim,
    Tensor,
    lowered_type,
)
from aotc.errors import InputError
from aotc.mlir import Value, arith, ir, tensor


def _first_two(b: Builder, x: Value) -> Value:
    """Emit the first two elements of a vector, for examples."""
    return b.slice(x, start=(0,), sizes=(2,), strides=(1,))


class Slice(Movement, name="slice"):
    """y[i] = x[start + i * stride], `sizes` elements along each axis."""

    selects = True
    why = "a view; its adjoint is pad"

    start: Sizes
    sizes: Sizes
    strides: Ints

    @staticmethod
    def infer(
        x: Tensor, *, start: Shape, sizes: Shape, strides: tuple[int, ...]
    ) -> Tensor:
        """Return the type with the given sizes, which must lie inside x."""
        if not len(start) == len(sizes) == len(strides) == x.rank:
            raise InputError("bad-slice", f"expected one slice per axis of {x}")
        for axis, (first, size, stride) in enumerate(
            zip(start, sizes, strides, strict=True)
        ):
            if any(isinstance(n, SymbolicDim) for n in (x.shape[axis], first, size)):
                continue  # who builds it must know
            last = first + (size - 1) * stride
            if first < 0 or stride < 1 or (size > 0 and last >= x.shape[axis]):
                raise InputError(
                    "bad-slice",
                    f"{size} elements from {first} in steps of {stride} do not fit "
                    f"into axis {axis} of {x}",
                )
        return x.with_shape(sizes)

    @staticmethod
    def ref(
        x: np.ndarray,
        *,
        start: tuple[int, ...],
        sizes: tuple[int, ...],
        strides: tuple[int, ...],
    ) -> np.ndarray:
        """Return NumPy's strided slice."""
        return x[
            tuple(
                slice(first, first + size * stride, stride)
                for first, size, stride in zip(start, sizes, strides, strict=True)
            )
        ]

    @staticmethod
    def vjp(b: Builder, op: "Slice", dy: Value) -> list[Value]:
        """Return the cotangent padded by zeros, also between strided elements."""
        have = Tensor.of(op.x).shape
        covered = [
            dilated_size(n, s - 1) for n, s in zip(op.sizes, op.strides, strict=True)
        ]
        high = [n - c - f for n, c, f in zip(have, covered, op.start, strict=True)]
        interior = [stride - 1 for stride in op.strides]
        return [b.pad(dy, low=op.start, high=high, interior=interior, value=0.0)]

    batch = leading(start=before(0), sizes=prepend_size, strides=before(1))
    reorder = in_any_order(
        start=reorder_sizes, sizes=reorder_sizes, strides=reorder_sizes
    )

    @staticmethod
    def pad(p: BucketPadding, op: "Slice", operands: Sequence[Value]) -> Any:
        """Emit the slice at the same indices; None if the call decides them."""
        if any(map(p.is_padded, op.start)):
            return None
        return p.build(op, operands, start=op.start)

    @staticmethod
    def lower(low: Lowering, op: "Slice", x: Value) -> Value:
        """Emit a tensor.extract_slice; copied where elements are not contiguous."""
        if _is_dense(op):
            x = x if set(op.strides) <= {1} else low.materialize(x)
            return low.slice(x, Tensor.of(op.y), op.start, op.strides)
        return _copy_slice(low, op, x)

    simplify = (
        RewriteRow(
            "x, if it is whole",
            this(X),
            lambda b, m: m.x,
            given=(f32(4),),
            example=lambda b, x: b.slice(x, start=(0,), sizes=(4,), strides=(1,)),
            near_miss=lambda b, x: b.slice(x, start=(0,), sizes=(3,), strides=(1,)),
            where=lambda m: Tensor.of(m.x).shape == m.op.sizes,
        ),
        RewriteRow(
            "of two, one",
            this(call("slice", X).named("inner")),
            lambda b, m: slice_of_slice(b, m.op, m.inner),
            given=(f32(9),),
            example=lambda b, x: _first_two(
                b, b.slice(x, start=(1,), sizes=(4,), strides=(2,))
            ),
            near_miss=lambda b, x: _first_two(b, b.negate(x)),
        ),
        RewriteRow(
            "of copies, copies of a slice",
            this(call("broadcast", X).named("inner")),
            lambda b, m: slice_of_broadcast(b, m.op, m.inner),
            given=(f32(1),),
            example=lambda b, x: _first_two(b, b.broadcast(x, shape=(5,), axes=(0,))),
            near_miss=lambda b, x: _first_two(b, b.concatenate(x, x, axis=0)),
        ),
        RewriteRow(
            "of what is joined, a slice of the part that has all its elements",
            this(call("concatenate", X, Y).named("joined")),
            lambda b, m: slice_of_part(b, m.op, m.joined),
            given=(f32(3), f32(1)),
            example=lambda b, x, y: _first_two(b, b.concatenate(x, y, axis=0)),
            near_miss=lambda b, x, y: _first_two(b, b.concatenate(y, x, axis=0)),
        ),
    )

    @staticmethod
    def counted_axis(op: "Slice", axis: int) -> int | None:
        """Return the axis if its first elements are taken, so that it still counts."""
        is_first = op.start[axis] == 0 and op.strides[axis] == 1
        return axis if is_first else None

    @staticmethod
    def view(op: "Slice", x: View) -> View | None:
        """Return the operand's view `x`, sliced; None if that cuts a merged axis."""
        return x.slice(op.start, op.sizes, op.strides)

    samples = [
        OpSample((f32(4, 6),), {"start": (1, 0), "sizes": (2, 3), "strides": (1, 2)}),
        OpSample(
            (f32("n", 6),), {"start": (0, 2), "sizes": ("n", 4), "strides": (1, 1)}
        ),
        OpSample((f32(4),), {"start": (4,), "sizes": (0,), "strides": (1,)}),
        OpSample((f32(9, 3),), {"start": ("n", 1), "sizes": (1, 2), "strides": (2, 1)}),
        OpSample((f32(9, 9),), {"start": (2, "m"), "sizes": (2, 1), "strides": (1, 3)}),
    ]


def _is_dense(op: Slice) -> bool:
    """Return whether the slice is contiguous along its last axis."""
    source, sizes = Tensor.of(op.x).shape, op.sizes
    last = max((axis for axis, n in enumerate(sizes) if n != 1), default=-1)
    return last < 0 or (op.strides[last] == 1 and set(source[last + 1 :]) <= {1})


def _copy_slice(low: Lowering, op: Slice, x: Value) -> Value:
    """Emit a slice that is not contiguous in x, copied to a tensor of its own.

    IREE 3.13 fuses a tensor.extract_slice into what reads it, and cannot compile a
    vector gather from a buffer whose last axis has a stride.
    """
    source, result = Tensor.of(op.x), Tensor.of(op.y)
    steps = zip(op.sizes, op.strides, strict=True)
    if any(n != 1 and stride != 1 for n, stride in steps):
        return _read_by_position(low, op, x)
    part = low.slice(x, result, op.start, (1,) * source.rank)
    return low.pointwise([part], result, lambda element: element)


def _read_by_position(low: Lowering, op: Slice, x: Value) -> Value:
    """Emit reads of every element at its own position in x.

    Note [strided reads]: not a generic with the map `i -> i * stride`. Where the last
    step ends at the end of x, IREE 3.13 merges such a generic with the one that
    computes x (FuseMultiUseElementwiseProducer), and then computes x at the positions
    of the slice alone, also for other readers of it. It reads 5 times as fast, too:
    a generic of such a map is not vectorised. (sin(x[:, ::2]) of 1023×1023 numbers:
    5.1 ms, and 0.9 ms this way, AVX2.)
    """
    x = low.materialize(x)

    def element(indices: list[Value]) -> Value:
        at = [
            arith.addi(arith.muli(index, low.index(stride)), low.size(first))
            for index, stride, first in zip(indices, op.strides, op.start, strict=True)
        ]
        return low.extract(x, at)

    return low.generate(Tensor.of(op.y), element)


class Concatenate(GraphOp, name="concatenate", traits=[Pure]):
    """y = lhs, then rhs along `axis`. More parts are a chain, lowered as one.

    (Two operands because of Note [variadic ops] in transform.py.)
    """

    selects = True
    why = "one copy; its adjoints are slices"

    lhs: Operand[Any]
    rhs: Operand[Any]
    axis: Int
    y: Result[Any]
    dtypes = dt.NAMES

    @staticmethod
    def infer(lhs: Tensor, rhs: Tensor, *, axis: int) -> Tensor:
        """Return the type with sizes along `axis` added; refuse other differences."""
        if not 0 <= axis < lhs.rank:
            raise InputError("bad-axis", f"expected an axis of {lhs}; got {axis}")
        require_dtype(rhs, (lhs.dtype,))
        rest = [x.shape[:axis] + x.shape[axis + 1 :] for x in (lhs, rhs)]
        if lhs.rank != rhs.rank or rest[0] != rest[1]:
            raise InputError(
                "shape-mismatch",
                f"cannot concatenate {lhs} and {rhs} along axis {axis}",
            )
        total = lhs.shape[axis] + rhs.shape[axis]
        return lhs.with_shape([*lhs.shape[:axis], total, *lhs.shape[axis + 1 :]])

    @staticmethod
    def ref(lhs: np.ndarray, rhs: np.ndarray, *, axis: int) -> np.ndarray:
        """Return np.concatenate."""
        return np.concatenate([lhs, rhs], axis)

    @staticmethod
    def jvp(b: Builder, op: "Concatenate", dl: Tangent, dr: Tangent) -> Value:
        """Return the concatenated tangents."""
        dl = b.full_like(op.lhs, 0.0) if dl is None else dl
        dr = b.full_like(op.rhs, 0.0) if dr is None else dr
        return b.concatenate(dl, dr, axis=op.axis)

    @staticmethod
    def vjp(b: Builder, op: "Concatenate", dy: Value) -> list[Value]:
        """Return each operand's slice of dy."""
        left, right = Tensor.of(op.lhs).shape[op.axis], Tensor.of(op.rhs).shape[op.axis]
        none: list[Size] = [0] * Tensor.of(dy).rank
        after, before = list(none), list(none)
        after[op.axis], before[op.axis] = 0 - right, 0 - left
        return [
            b.pad(dy, low=none, high=after, interior=none, value=0.0),
            b.pad(dy, low=before, high=none, interior=none, value=0.0),
        ]

    batch = leading(axis=shift_axes)
    reorder = in_any_order(axis=rename_axes)

    @staticmethod
    def pad(p: BucketPadding, op: "Concatenate", operands: Sequence[Value]) -> Any:
        """Emit padded operands concatenated: rhs is written over the padding of lhs."""
        (lhs, rhs), exact, b = operands, Tensor.of(op.lhs), p.b
        if not p.axes(exact, (op.axis,)):
            return p.build(op, operands)
        room = b.concatenate(lhs, b.full_like(rhs, 0), axis=op.axis)
        end = b.number(Tensor((1,), "i64"), exact.shape[op.axis])
        around = {"low": (op.axis,), "high": (exact.rank - op.axis - 1,)}
        starts = b.pad(end, **around, interior=(0,), value=0.0)
        return b.dynamic_update_slice(room, rhs, starts)

    simplify = (
        RewriteRow(
            "y, if x has no elements",
            this(X, Y),
            lambda b, m: m.y,
            given=(f32(0), f32(3)),
            example=lambda b, x, y: b.concatenate(x, y, axis=0),
            near_miss=lambda b, x, y: b.concatenate(y, y, axis=0),
            where=lambda m: Tensor.of(m.x).shape[m.op.axis] == 0,
        ),
        RewriteRow(
            "x, if y has no elements",
            this(X, Y),
            lambda b, m: m.x,
            given=(f32(0), f32(3)),
            example=lambda b, x, y: b.concatenate(y, x, axis=0),
            near_miss=lambda b, x, y: b.concatenate(y, y, axis=0),
            where=lambda m: Tensor.of(m.y).shape[m.op.axis] == 0,
        ),
    )

    @staticmethod
    def nests(op: "Concatenate") -> tuple[Nest, ...]:
        """Return loops over the elements of each operand, with places in the result."""

        def part(number: int, start: Size) -> Nest:
            sizes = Tensor.of(op.operands[number]).shape
            first: list[Size] = [0] * len(sizes)
            first[op.axis] = start
            return Nest(
                sizes,
                0,
                (lambda x: x,),
                COPY,
                first=number,
                place=lambda y: y.slice(tuple(first), sizes, [1] * len(sizes)),
            )

        return part(0, 0), part(1, Tensor.of(op.lhs).shape[op.axis])

    @staticmethod
    def lower(low: Lowering, op: "Concatenate", lhs: Value, rhs: Value) -> Value:
        """Emit a tensor.concat, of all operands of a chain at once.

        Parts without elements are left out: IREE 3.13 takes one beside a part of one
        element for a part of one element, too, and refuses the result's type. It also
        refuses a known size of parts whose sizes are not known, but not a cast to it.
        """
        kinds = Tensor.of(op.lhs), Tensor.of(op.rhs)
        if kinds[0].shape[op.axis] == 0:
            return rhs
        if kinds[1].shape[op.axis] == 0:
            return lhs
        lhs, rhs = map(low.element_copy, (lhs, rhs), kinds)
        parts = [*_concatenated_parts(lhs, op.axis), rhs]
        whole = lowered_type(Tensor.of(op.y))
        if not any(part.type.is_dynamic_dim(op.axis) for part in parts):
            return tensor.concat(whole, op.axis, parts)
        open_type = _with_open_axis(whole, op.axis)
        joined = tensor.concat(open_type, op.axis, parts)
        return joined if whole == open_type else tensor.cast(whole, joined)

    @classmethod
    def flops(cls, op: Self) -> Size:
        """Return 0 operations, as elements only move."""
        return 0

    @classmethod
    def is_nonnegative(cls, op: Self, is_known: Callable[[Value], bool]) -> bool:
        """Return whether the result is provably nonnegative: both operands are."""
        return is_known(op.lhs) and is_known(op.rhs)

    samples = [
        OpSample((f32(2, 3), f32(2, 1)), {"axis": 1}),
        OpSample((f32("n", 3), f32("n", 3)), {"axis": 0}),
        OpSample((i32(0), i32(3)), {"axis": 0}),
        OpSample((f32(1, 1), f32(0, 1)), {"axis": 0}),
        OpSample((f32("n", 3), f32("m", 3)), {"axis": 0}),
    ]


def _with_open_axis(kind: ir.RankedTensorType, axis: int) -> ir.RankedTensorType:
    """Return the MLIR type with a dynamic size along `axis`."""
    shape = list(kind.shape)
    shape[axis] = ir.ShapedType.get_dynamic_size()
    return ir.RankedTensorType.get(shape, kind.element_type)


def _concatenated_parts(value: Value, axis: int) -> list[Value]:
    """Return the operands of `value` if it is a concat along `axis`; else [value]."""
    owner = value.owner
    if getattr(owner, "name", "") != "tensor.concat":
        return [value]
    same = ir.IntegerAttr(owner.attributes["dim"]).value == axis
    return list(owner.operands) if same else [value]
