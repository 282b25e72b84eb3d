"""Ops that move elements without computing on them."""

from collections.abc import Sequence
from typing import Self

import numpy as np

from aotc.dialects.attributes import Ints, Sizes
from aotc.dialects.builder import Builder
from aotc.dialects.lowering import Lowering
from aotc.dialects.movement.permutations import inverse, permute
from aotc.dialects.movement.reshaping import long_axes, reshape_groups, squeeze_shape
from aotc.dialects.movement.views import View
from aotc.dialects.ops.creation import Constant
from aotc.dialects.patterns.rows import RewriteRow
from aotc.dialects.patterns.terms import X, call, this
from aotc.dialects.patterns.values import made_by
from aotc.dialects.rules.batching import (
    after_leading,
    leading,
    prepend_size,
    shift_axes,
)
from aotc.dialects.rules.checks import require_distinct
from aotc.dialects.rules.movement import Movement
from aotc.dialects.rules.padding import (
    HARMLESS,
    BucketPadding,
    along_axes,
    harmless_but_along,
)
from aotc.dialects.rules.reordering import in_any_order, rename_axes
from aotc.dialects.rules.samples import OpSample, f32, i32
from aotc.dialects.types import (
    Shape,
    Size,
    Tensor,
    element_count,
    format_shape,
    same_count,
)
from aotc.errors import InputError
from aotc.mlir import Value, arith, ir, linalg


def _repeated(b: Builder, x: Value, *shape: int) -> Value:
    """Emit copies of a vector, for examples."""
    return b.broadcast(x, shape=shape, axes=(len(shape) - 1,))


class Reshape(Movement, name="reshape"):
    """y = the same elements, in row-major order, in another shape."""

    selects = True
    why = "a view; it moves nothing"

    shape: Sizes
    on_scalars = True
    keeps_order = True

    @staticmethod
    def infer(x: Tensor, *, shape: Shape) -> Tensor:
        """Return the type with the given shape, which must hold as many elements."""
        if not same_count(x.shape, shape):
            raise InputError(
                "shape-mismatch",
                f"cannot reshape {format_shape(x.shape)} "
                f"({element_count(x.shape)} elements) to {format_shape(shape)} "
                f"({element_count(shape)} elements)",
            )
        return x.with_shape(shape)

    @staticmethod
    def ref(x: np.ndarray, *, shape: tuple[int, ...]) -> np.ndarray:
        """Return np.reshape."""
        return np.reshape(x, shape)

    @staticmethod
    def vjp(b: Builder, op: "Reshape", dy: Value) -> list[Value]:
        """Return the cotangent reshaped to the operand's shape."""
        return [b.reshape(dy, shape=Tensor.of(op.x).shape)]

    batch = leading(shape=prepend_size)

    @staticmethod
    def pad(p: BucketPadding, op: "Reshape", operands: Sequence[Value]) -> Value | None:
        """Emit the padded op, if padding comes first in each group of merged axes."""
        (x,) = operands
        source = Tensor.of(op.x).shape
        whole = all(
            _is_padded_in_front(p, permute(source, own), permute(op.shape, made))
            for own, made in reshape_groups(source, op.shape)
        )
        return p.b.reshape(x, shape=p.shape(op.shape)) if whole else None

    @staticmethod
    def lower(low: Lowering, op: "Reshape", x: Value) -> Value:
        """Emit a tensor.collapse_shape and a tensor.expand_shape."""
        return low.reshape(x, Tensor.of(op.x), Tensor.of(op.y))

    simplify = (
        RewriteRow(
            "x, if it has the shape",
            this(X),
            lambda b, m: m.x,
            given=(f32(2, 3),),
            example=lambda b, x: b.reshape(x, shape=(2, 3)),
            near_miss=lambda b, x: b.reshape(x, shape=(3, 2)),
            where=lambda m: Tensor.of(m.x).shape == m.op.shape,
        ),
        RewriteRow(
            "of copies of one element, copies",
            this(call("broadcast", X)),
            lambda b, m: b.broadcast(
                b.reshape(m.x, shape=()), shape=m.op.shape, axes=()
            ),
            given=(f32(1), f32(2)),
            example=lambda b, x, y: b.reshape(_repeated(b, x, 2, 3), shape=(6,)),
            near_miss=lambda b, x, y: b.reshape(_repeated(b, y, 3, 2), shape=(6,)),
            where=lambda m: Tensor.of(m.x).elements == 1,
        ),
        RewriteRow(
            "of two, the last",
            this(call("reshape", X)),
            lambda b, m: b.reshape(m.x, shape=m.op.shape),
            given=(f32(2, 6),),
            example=lambda b, x: b.reshape(b.reshape(x, shape=(12,)), shape=(4, 3)),
            near_miss=lambda b, x: b.reshape(b.negate(x), shape=(4, 3)),
        ),
    )

    @classmethod
    def is_merged(cls, op: Self) -> bool:
        """Return whether only axes of one element are added or removed."""
        return squeeze_shape(Tensor.of(op.x).shape) == squeeze_shape(op.shape)

    @classmethod
    def kept_axes(cls, op: Self, operand: int) -> dict[int, int]:
        """Return a mapping from axes of x that are not of size 1 to result axes."""
        long = map(long_axes, (Tensor.of(op.x).shape, op.shape))
        return dict(zip(*long, strict=False))

    @staticmethod
    def counted_axis(op: "Reshape", axis: int) -> int | None:
        """Return the counted axis in the result, if only axes of one element change."""
        if not Reshape.is_merged(op):
            return None
        return Reshape.kept_axes(op, 0).get(axis)

    @staticmethod
    def view(op: "Reshape", x: View) -> View | None:
        """Return the operand's view `x`, reshaped; None if that is no view."""
        return x.reshape(op.shape)

    samples = [
        OpSample((f32(2, 6),), {"shape": (3, 4)}),
        OpSample((f32("n", 2, 3),), {"shape": ("n", 6)}),
        OpSample((f32("n", 6),), {"shape": ("n", 2, 3, 1)}),
        OpSample((f32(1, 1),), {"shape": ()}),
        OpSample((i32(0, 3),), {"shape": (0,)}),
        OpSample((f32("n", "m", 4),), {"shape": ("n", "m", 2, 2)}),
    ]


def _is_padded_in_front(p: BucketPadding, source: Shape, result: Shape) -> bool:
    """Return whether none is padded but the first axis whose size is not 1."""
    for shape in (source, result):
        long = [size for size in shape if size != 1]
        if any(map(p.is_padded, long[1:])):
            return False
    return True


class Transpose(Movement, name="transpose"):
    """y = x with its axes in the order of `permutation`."""

    selects = True
    why = "a view that consumers absorb"

    permutation: Ints
    on_scalars = True

    @staticmethod
    def infer(x: Tensor, *, permutation: tuple[int, ...]) -> Tensor:
        """Return the type with the permuted shape."""
        if sorted(permutation) != list(range(x.rank)):
            raise InputError(
                "bad-axis",
                f"expected an order of the {x.rank} axes; got {tuple(permutation)}",
            )
        return x.with_shape(permute(x.shape, permutation))

    @staticmethod
    def ref(x: np.ndarray, *, permutation: tuple[int, ...]) -> np.ndarray:
        """Return np.transpose."""
        return np.transpose(x, permutation)

    @staticmethod
    def vjp(b: Builder, op: "Transpose", dy: Value) -> list[Value]:
        """Return the cotangent transposed by the inverse permutation."""
        return [b.transpose(dy, permutation=inverse(op.permutation))]

    batch = leading(permutation=after_leading)

    pad = HARMLESS

    @staticmethod
    def lower(low: Lowering, op: "Transpose", x: Value) -> Value:
        """Emit a linalg.transpose."""
        result = Tensor.of(op.y)
        if not result.rank:
            return x
        init = low.empty(result)
        return linalg.transpose(x, outs=[init], permutation=op.permutation).results[0]

    simplify = (
        RewriteRow(
            "x, if no axis moves",
            this(X),
            lambda b, m: m.x,
            given=(f32(2, 3),),
            example=lambda b, x: b.transpose(x, permutation=(0, 1)),
            near_miss=lambda b, x: b.transpose(x, permutation=(1, 0)),
            where=lambda m: m.op.permutation == tuple(range(len(m.op.permutation))),
        ),
        RewriteRow(
            "a reshape, if axes of one element move alone",
            this(X),
            lambda b, m: b.reshape(m.x, shape=Tensor.of(m.op.y).shape),
            given=(f32(2, 1, 3),),
            example=lambda b, x: b.transpose(x, permutation=(1, 0, 2)),
            near_miss=lambda b, x: b.transpose(x, permutation=(2, 1, 0)),
            where=lambda m: moves_nothing(Tensor.of(m.x).shape, m.op.permutation),
        ),
        RewriteRow(
            "of two, one",
            this(call("transpose", X, permutation="order")),
            lambda b, m: b.transpose(
                m.x, permutation=permute(m.order, m.op.permutation)
            ),
            given=(f32(2, 3, 4),),
            example=lambda b, x: b.transpose(
                b.transpose(x, permutation=(2, 0, 1)), permutation=(0, 2, 1)
            ),
            near_miss=lambda b, x: b.transpose(b.negate(x), permutation=(0, 2, 1)),
        ),
        RewriteRow(
            "of copies, copies",
            this(call("broadcast", X).named("inner")),
            lambda b, m: _reordered_broadcast(b, m.op, m.inner),
            given=(f32(2, 3),),
            example=lambda b, x: b.transpose(
                b.broadcast(x, shape=(2, 4, 3), axes=(0, 2)), permutation=(2, 1, 0)
            ),
            near_miss=lambda b, x: b.transpose(b.negate(x), permutation=(1, 0)),
        ),
    )

    @classmethod
    def flops(cls, op: Self) -> Size:
        """Return 0 operations, as elements only move."""
        return 0

    @classmethod
    def is_merged(cls, op: Self) -> bool:
        """Return True: IREE fuses a transpose into readers of its result."""
        return True

    @classmethod
    def kept_axes(cls, op: Self, operand: int) -> dict[int, int]:
        """Return a mapping from all axes of x to the result axes that they become."""
        return {axis: at for at, axis in enumerate(op.permutation)}

    @staticmethod
    def view(op: "Transpose", x: View) -> View | None:
        """Return the operand's view `x`, transposed."""
        return x.transpose(op.permutation)

    samples = [
        OpSample((f32(2, 3, 4),), {"permutation": (2, 0, 1)}),
        OpSample((f32("n", 3),), {"permutation": (1, 0)}),
        OpSample((f32(),), {"permutation": ()}),
    ]


def moves_nothing(shape: Shape, permutation: Sequence[int]) -> bool:
    """Return whether a transpose leaves all elements in place in memory."""
    moved = [axis for axis in permutation if shape[axis] != 1]
    return moved == sorted(moved)


def _reordered_broadcast(b: Builder, op: Transpose, inner: "Broadcast") -> Value:
    """Emit the transpose of a broadcast as a broadcast of a transpose."""
    axes = permute(inverse(op.permutation), inner.axes)
    return b.spread(inner.x, Tensor.of(op.y).shape, axes)


class Broadcast(Movement, name="broadcast"):
    """y = x repeated: axis i becomes axis `axes[i]` of `shape`; size 1 stretches."""

    selects = True
    why = "the adjoint of reduce_sum; makes broadcasting explicit"

    shape: Sizes
    axes: Ints
    is_free = True
    on_scalars = True

    @staticmethod
    def infer(x: Tensor, *, shape: Shape, axes: tuple[int, ...]) -> Tensor:
        """Return the type with the given shape."""
        rising = sorted(set(axes)) == list(axes) and all(
            0 <= a < len(shape) for a in axes
        )
        if len(axes) != x.rank or not rising:
            raise InputError(
                "bad-axis",
                f"expected {x.rank} rising axes of {format_shape(shape)}; "
                f"got {tuple(axes)}",
            )
        for size, axis in zip(x.shape, axes, strict=True):
            if size not in (1, shape[axis]):
                raise InputError(
                    "shape-mismatch",
                    f"cannot broadcast {format_shape(x.shape)} to "
                    f"{format_shape(shape)}: size {size} is neither 1 nor provably "
                    f"{shape[axis]}",
                )
        return x.with_shape(shape)

    @staticmethod
    def ref(
        x: np.ndarray, *, shape: tuple[int, ...], axes: tuple[int, ...]
    ) -> np.ndarray:
        """Return np.broadcast_to of a reshape with unit axes."""
        aligned = [1] * len(shape)
        for size, axis in zip(np.shape(x), axes, strict=True):
            aligned[axis] = size
        return np.broadcast_to(np.reshape(x, aligned), shape)

    @staticmethod
    def vjp(b: Builder, op: "Broadcast", dy: Value) -> list[Value]:
        """Return the sum over all repetitions."""
        return [b.sum_to(dy, Tensor.of(op.x).shape, op.axes)]

    batch = leading(shape=prepend_size, axes=after_leading)

    pad = HARMLESS

    @staticmethod
    def lower(low: Lowering, op: "Broadcast", x: Value) -> Value:
        """Emit a linalg.generic with a projected map; a fill for a constant."""
        source, result = Tensor.of(op.x), Tensor.of(op.y)
        value = _scalar_constant(op.x)
        if value is not None:
            return low.full(result, value)
        kept = [
            (size, axis)
            for size, axis in zip(source.shape, op.axes, strict=True)
            if size == result.shape[axis]
        ]
        narrow = source.with_shape([size for size, _ in kept])
        x = low.reshape(x, source, narrow)
        read = ir.AffineMap.get(
            result.rank, 0, [ir.AffineDimExpr.get(axis) for _, axis in kept]
        )
        return low.generic(
            [x],
            [read, ir.AffineMap.get_identity(result.rank)],
            low.empty(result),
            ["parallel"] * result.rank,
            lambda element, _: element,
        )

    simplify = (
        RewriteRow(
            "x, if it has the shape",
            this(X),
            lambda b, m: m.x,
            given=(f32(2, 3),),
            example=lambda b, x: b.broadcast(x, shape=(2, 3), axes=(0, 1)),
            near_miss=lambda b, x: b.broadcast(x, shape=(4, 2, 3), axes=(1, 2)),
            where=lambda m: Tensor.of(m.x).shape == m.op.shape,
        ),
        RewriteRow(
            "of two, one",
            this(call("broadcast", X, axes="axes")),
            lambda b, m: b.broadcast(
                m.x, shape=m.op.shape, axes=tuple(m.op.axes[axis] for axis in m.axes)
            ),
            given=(f32(2),),
            example=lambda b, x: b.broadcast(
                _repeated(b, x, 3, 2), shape=(3, 4, 2), axes=(0, 2)
            ),
            near_miss=lambda b, x: b.broadcast(b.negate(x), shape=(3, 2), axes=(1,)),
        ),
    )

    @classmethod
    def is_merged(cls, op: Self) -> bool:
        """Return True: IREE fuses a broadcast into readers of its result."""
        return True

    @classmethod
    def kept_axes(cls, op: Self, operand: int) -> dict[int, int]:
        """Return a mapping from all axes of x to the result axes that they become."""
        return dict(enumerate(op.axes))

    @staticmethod
    def counted_axis(op: "Broadcast", axis: int) -> int | None:
        """Return the counted axis in the result, if it is not stretched."""
        at = op.axes[axis]
        return at if Tensor.of(op.x).shape[axis] == op.shape[at] else None

    @staticmethod
    def view(op: "Broadcast", x: View) -> View | None:
        """Return the operand's view `x`, broadcast."""
        return x.broadcast(op.shape, op.axes)

    samples = [
        OpSample((f32(3),), {"shape": (2, 3), "axes": (1,)}),
        OpSample((f32(1, 3),), {"shape": (4, 3), "axes": (0, 1)}),
        OpSample((f32(),), {"shape": ("n", 2), "axes": ()}),
        OpSample((f32("n", 1),), {"shape": (2, "n", 5), "axes": (1, 2)}),
        OpSample((f32(1, "n", 1),), {"shape": ("m", "n", "n"), "axes": (0, 1, 2)}),
    ]


def varying_axes(op: Broadcast) -> tuple[int, ...]:
    """Return the axes along which the elements of a broadcast may differ."""
    return permute(op.axes, long_axes(Tensor.of(op.x).shape))


def _scalar_constant(value: Value) -> float | int | bool | None:
    """Return the Python number of a scalar constant, or None."""
    constant = made_by(value, Constant)
    if constant is None or Tensor.of(value).rank:
        return None
    scalar: float | int | bool = constant.value.item()
    return scalar


class Reverse(Movement, name="reverse"):
    """y = x backwards along `axes`."""

    selects = True
    why = "its own adjoint"

    axes: Ints

    @staticmethod
    def infer(x: Tensor, *, axes: tuple[int, ...]) -> Tensor:
        """Return the result type, that of the operand."""
        require_distinct(x, axes)
        return x

    @staticmethod
    def ref(x: np.ndarray, *, axes: tuple[int, ...]) -> np.ndarray:
        """Return np.flip."""
        return np.flip(x, axes)

    @staticmethod
    def vjp(b: Builder, op: "Reverse", dy: Value) -> list[Value]:
        """Return the reversed cotangent, as the op is its own inverse."""
        return [b.reverse(dy, axes=op.axes)]

    batch = leading(axes=shift_axes)
    reorder = in_any_order(axes=rename_axes)

    pad = harmless_but_along(along_axes)

    @staticmethod
    def lower(low: Lowering, op: "Reverse", x: Value) -> Value:
        """Emit reads of element n - 1 - i along the reversed axes."""
        source, x = Tensor.of(op.x), low.materialize(x)

        def element(indices: list[Value]) -> Value:
            positions = list(indices)
            for axis in op.axes:
                last = low.size(source.shape[axis] - 1)
                positions[axis] = arith.subi(last, indices[axis])
            return low.extract(x, positions)

        return low.generate(source, element)

    simplify = (
        RewriteRow(
            "x, if the axes have one element",
            this(X),
            lambda b, m: m.x,
            given=(f32(1, 3),),
            example=lambda b, x: b.reverse(x, axes=(0,)),
            near_miss=lambda b, x: b.reverse(x, axes=(0, 1)),
            where=lambda m: not _reversed_axes(m.op),
        ),
        RewriteRow(
            "of two, one along the axes of either",
            this(call("reverse", X, axes="axes")),
            lambda b, m: b.reverse(
                m.x, axes=tuple(sorted(_reversed_axes(m.op) ^ {*m.axes}))
            ),
            given=(f32(2, 3),),
            example=lambda b, x: b.reverse(b.reverse(x, axes=(0, 1)), axes=(1,)),
            near_miss=lambda b, x: b.reverse(b.negate(x), axes=(1,)),
        ),
    )

    @staticmethod
    def view(op: "Reverse", x: View) -> View | None:
        """Return the operand's view `x`, with some axes reversed."""
        return x.reverse(op.axes)

    samples = [
        OpSample((f32(2, 3),), {"axes": (0, 1)}),
        OpSample((f32("n", 3),), {"axes": (0,)}),
    ]


def _reversed_axes(op: Reverse) -> set[int]:
    """Return the axes of more than one element that an op reverses."""
    shape = Tensor.of(op.x).shape
    return {axis for axis in op.axes if shape[axis] != 1}
