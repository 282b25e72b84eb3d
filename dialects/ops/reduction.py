"""Reductions over axes, which disappear from the shape."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from aotc.core import dtypes as dt
from aotc.dialects.attributes import Int, Ints
from aotc.dialects.builder import Builder
from aotc.dialects.graph import (
    NOT_DIFFERENTIABLE,
    WIDE,
    GraphOp,
    Operand,
    Pure,
    Result,
    Tangent,
)
from aotc.dialects.lowering import Lowering, scalars
from aotc.dialects.lowering.conversion import accumulator, integer_bounds
from aotc.dialects.lowering.scalars import Body, comparison, is_nan
from aotc.dialects.lowering.summation import lowered_sum, with_few_axes
from aotc.dialects.movement.nests import ARGSORT_DESCENDING, Nest
from aotc.dialects.movement.permutations import Order
from aotc.dialects.movement.views import View
from aotc.dialects.ops.shape import Broadcast
from aotc.dialects.patterns.rows import RewriteRow
from aotc.dialects.patterns.terms import X, call, this
from aotc.dialects.patterns.values import splat_of
from aotc.dialects.reference.wide_sums import wide_sum
from aotc.dialects.rules.batching import leading, shift_axes
from aotc.dialects.rules.checks import require_axes, require_dtype
from aotc.dialects.rules.padding import BucketPadding, along_axis, hiding
from aotc.dialects.rules.reordering import in_any_order, order_without, rename_axes
from aotc.dialects.rules.samples import OpSample, f32, i32
from aotc.dialects.types import Size, Tensor, bounds, element_count
from aotc.errors import InputError
from aotc.mlir import Value, arith, ir


class Reduction(GraphOp, traits=[Pure]):
    """Base of reductions; subclasses give `start`, `combine`, `ufunc` and `weights`."""

    x: Operand[Any]
    axes: Ints
    y: Result[Any]
    if TYPE_CHECKING:
        start: Callable[[str], float]
        combine: dict[str, Body]
        ufunc: str
        weights: Callable[[Builder, Any], Tangent]
    in_memory = True
    dtypes = dt.NUMBERS
    needs_elements = False

    @classmethod
    def infer(cls, x: Tensor, *, axes: tuple[int, ...]) -> Tensor:
        """Return the type without the reduced axes."""
        require_dtype(x, cls.dtypes)
        require_axes(x, axes)
        if cls.needs_elements and any(x.shape[axis] == 0 for axis in axes):
            raise InputError(
                "empty-reduction", f"{x} has no elements along {axes} to choose from"
            )
        return x.with_shape([n for axis, n in enumerate(x.shape) if axis not in axes])

    @classmethod
    def jvp(cls, b: Builder, op: Self, dx: Value) -> Value:
        """Return the weighted sum of the tangents."""
        weights = cls.weights(b, op)
        weighted = dx if weights is None else b.multiply(weights, dx)
        return b.reduce_sum(weighted, axes=op.axes)

    @classmethod
    def vjp(cls, b: Builder, op: Self, dy: Value) -> list[Value]:
        """Return dy times every element's weight."""
        spread = b.expand(dy, Tensor.of(op.x), op.axes)
        weights = cls.weights(b, op)
        return [spread if weights is None else b.multiply(weights, spread)]

    batch = leading(axes=shift_axes)
    reorder = in_any_order(axes=rename_axes)

    @classmethod
    def nests(cls, op: Self) -> tuple[Nest, ...]:
        """Return loops over the axes that are left, and those that are reduced."""
        shape = Tensor.of(op.x).shape
        order = (*(n for n in range(len(shape)) if n not in op.axes), *sorted(op.axes))
        sizes = tuple(shape[axis] for axis in order)
        reads = (lambda x: x.transpose(order),)
        start = cls.start(Tensor.of(op.y).dtype)
        return (Nest(sizes, len(op.axes), reads, cls.ufunc, start),)

    @classmethod
    def pad(cls, p: BucketPadding, op: Self, operands: Sequence[Value]) -> Any:
        """Emit the op with padding replaced by the neutral element."""
        (x,), exact = operands, Tensor.of(op.x)
        return p.build(op, [p.hide(x, exact, op.axes, cls.start(exact.dtype))])

    @staticmethod
    def result_orders(op: "Reduction", order: Order) -> list[Order]:
        """Return the order of the remaining axes."""
        return [order_without(op.axes, order)]

    @classmethod
    def lower(cls, low: Lowering, op: Self, x: Value) -> Value:
        """Emit one linalg.generic; half-precision floats accumulate in f32."""
        source, result = Tensor.of(op.x), Tensor.of(op.y)
        wide = accumulator(source.dtype)
        x = low.convert(x, source, wide)
        total = lower_reduction(cls, low, x, result.with_dtype(wide), op.axes)
        return low.convert(total, result.with_dtype(wide), result.dtype)

    simplify = tuple(  # of any length, for the static types of subclasses
        [
            RewriteRow(
                "of copies, a reduction of one of each",
                this(call("broadcast", X).named("copies")),
                lambda b, m: _of_repeated(b, m.op, m.copies),
                given=(f32(2),),
                example=lambda b, x: b.reduce_max(
                    b.broadcast(x, shape=(2, 3), axes=(0,)), axes=(0, 1)
                ),
                near_miss=lambda b, x: b.reduce_max(
                    b.broadcast(x, shape=(2, 3), axes=(0,)), axes=(0,)
                ),
            ),
        ]
    )

    @staticmethod
    def of_repeated(b: Builder, y: Value, count: Size) -> Value:
        """Emit the reduction of `count` equal elements y: y itself for an extreme."""
        return y

    @classmethod
    def flops(cls, op: Self) -> Size:
        """Return the number of operations: one for each element of the operand."""
        return Tensor.of(op.x).elements

    samples = [
        OpSample((f32(2, 3, 4),), {"axes": (0, 2)}),
        OpSample((f32("n", 4),), {"axes": (0,)}),
        OpSample((i32(5),), {"axes": (0,)}),
        OpSample((f32(2, 3),), {"axes": ()}),
        OpSample((f32("n", "m", 2),), {"axes": (0, 1)}),
    ]


def lower_reduction(
    cls: type[Reduction], low: Lowering, x: Value, result: Tensor, axes: Sequence[int]
) -> Value:
    """Emit a lowered tensor reduced over `axes` by the reduction op `cls`.

    Note [signed extremes]: in code for GPUs, IREE 3.13 takes 0 for the least integer
    and -1 for the greatest, signed or not, where threads share the maximum or the
    minimum of a row, or the last vector of a row is not full. With the sign bit turned
    over, signed integers are in the order of unsigned ones, of which both are true.
    """
    kind = "f" if dt.is_float(result.dtype) else result.dtype[0]
    start, combine = cls.start(result.dtype), cls.combine[kind]
    if not (low.on_gpu and kind == "i" and cls.selects):
        return low.reduce(x, result, axes, start, combine)
    lowest = integer_bounds(result.dtype)[0]

    def turned(element: Value) -> Value:
        return arith.xori(element, scalars.constant(element.type, lowest))

    def combine_turned(total: Value, element: Value) -> Value:
        return cls.combine["u"](total, turned(element))

    found = low.reduce(x, result, axes, int(start) ^ lowest, combine_turned)
    return low.pointwise([found], result, turned)


def _of_repeated(b: Builder, op: Reduction, source: Broadcast) -> Value | None:
    """Emit a reduction of a broadcast without the repeated axes; None if it has none.

    Those axes are taken out of the broadcast, and what is left is reduced as before.
    """
    x, y = Tensor.of(op.x), Tensor.of(source.x)
    own = dict(
        zip(source.axes, y.shape, strict=True)
    )  # the sizes that are not repeated
    gone = [axis for axis in op.axes if own.get(axis, 1) != x.shape[axis]]
    count = element_count(tuple(x.shape[axis] for axis in gone))
    if not gone or not _is_repeatable(source.x, count):
        return None
    left = [axis for axis in range(x.rank) if axis not in gone]
    kept = [axis for axis in source.axes if axis in left]
    value = b.reshape(source.x, shape=tuple(own[axis] for axis in kept))
    value = b.broadcast(
        value,
        shape=tuple(x.shape[axis] for axis in left),
        axes=tuple(map(left.index, kept)),
    )
    rest = tuple(left.index(axis) for axis in op.axes if axis not in gone)
    reduced = type(op).build(value, axes=rest) if rest else value
    return op.of_repeated(b, reduced, count)


def _is_repeatable(x: Value, count: Size) -> bool:
    """Return whether a sum of copies is count * x: at least one copy, or x finite."""
    value = splat_of(x)
    return bounds(count)[0] >= 1 or (value is not None and bool(np.isfinite(value)))


class ReduceSum(Reduction, name="reduce_sum"):
    """y = the sum over `axes`; 0 for no elements.

    Note [sums of products]: IREE 3.13 makes a contraction of a sum of products and then
    refuses it ("'vector.contract' op invalid accumulator/result vector shape") when it
    sums over several axes of which one factor has only the last, as in
    `(x * scale).sum()`. So sums run over one axis after the other, from the last.
    """

    why = "the adjoint of broadcast"
    precision = WIDE
    adds_products = True

    @staticmethod
    def ref(x: np.ndarray, *, axes: tuple[int, ...]) -> Any:
        """Return the sum in the accumulator's dtype; of floats, the f64 sum rounded."""
        kept = x.astype(
            dt.to_numpy(accumulator(dt.canonical_dtype(x.dtype))), copy=False
        )
        if not dt.is_float(dt.canonical_dtype(x.dtype)):
            return np.sum(kept, axis=axes, dtype=kept.dtype)
        return wide_sum(kept, axes)

    @staticmethod
    def weights(b: Builder, op: "ReduceSum") -> Tangent:
        """Return None, which stands for weights of 1."""
        return None

    @staticmethod
    def of_repeated(b: Builder, y: Value, count: Size) -> Value:
        """Emit y times `count`, multiplied in the dtype of sums and cast back."""
        kind = Tensor.of(y)
        wide = kind.with_dtype(accumulator(kind.dtype))
        if wide == kind:
            return b.multiply(y, b.number(kind, count))
        total = b.multiply(b.cast(y, dtype=wide.dtype), b.number(wide, count))
        return b.cast(total, dtype=kind.dtype)

    @classmethod
    def lower(cls, low: Lowering, op: Self, x: Value) -> Value:
        """Emit sums axis by axis; see Notes [sums of products] and [sums in blocks]."""
        source = Tensor.of(op.x)
        kind = source.with_dtype(accumulator(source.dtype))
        x = low.convert(x, source, kind.dtype)
        x, kind, axes = with_few_axes(low, x, kind, op.axes)
        for axis in sorted(axes, reverse=True):
            x = lowered_sum(low, x, kind, (axis,))
            kind = kind.with_shape(kind.shape[:axis] + kind.shape[axis + 1 :])
        return low.convert(x, kind, source.dtype)

    start = staticmethod(lambda dtype: 0)
    combine = {"f": arith.addf, "i": arith.addi, "u": arith.addi}
    ufunc = "add"
    samples = [
        *Reduction.samples,
        OpSample((f32(0, 3),), {"axes": (0,)}),
        OpSample((f32("n", 2, 3, 4),), {"axes": (0, 1, 2, 3)}),
        OpSample((f32(2, 3, 2, "n", 4, 2),), {"axes": (0, 1, 2, 3, 5)}),
    ]


class ReduceProd(Reduction, name="reduce_prod"):
    """y = the product over `axes`; 1 for no elements."""

    why = "a derivative that is right where elements are zero"
    precision = WIDE

    @staticmethod
    def ref(x: np.ndarray, *, axes: tuple[int, ...]) -> Any:
        """Return np.prod in the accumulator's dtype."""
        return np.prod(
            x, axis=axes, dtype=dt.to_numpy(accumulator(dt.canonical_dtype(x.dtype)))
        )

    @staticmethod
    def weights(b: Builder, op: "ReduceProd") -> Tangent:
        """Emit, for each element, the product of the other elements."""
        return _others(b, op.x, op.axes)

    simplify = ()  # powers of integers wrap around, and those of floats round

    start = staticmethod(lambda dtype: 1)
    combine = {"f": arith.mulf, "i": arith.muli, "u": arith.muli}
    ufunc = "multiply"
    samples = [
        *Reduction.samples,
        OpSample((np.array([[1, 0, 2], [0, 0, 3]], "f"),), {"axes": (1,)}),
    ]


def _others(b: Builder, x: Value, axes: Sequence[int]) -> Value:
    """Emit, for each element, the product of the others along `axes`.

    Made of products alone, so that zeros are as good as others, to any order: of those
    before and those after it along one axis, and of the other lines along the rest.
    """
    if not axes:
        return b.full_like(x, 1.0)
    *rest, axis = sorted(axes)
    before, after = (
        b.delay(b.cumprod(x, axis=axis, reverse=end), axis, end, 1.0)
        for end in (False, True)
    )
    line = b.multiply(before, after)
    if not rest:
        return line
    others = _others(b, b.reduce_prod(x, axes=(axis,)), rest)
    return b.multiply(line, b.expand(others, Tensor.of(x), (axis,)))


def _share_of_ties(b: Builder, op: "ReduceMax | ReduceMin") -> Value:
    """Emit 1 / (number of elements equal to the extreme) at these, 0 elsewhere."""
    like = Tensor.of(op.x)
    wide = like.with_dtype(accumulator(like.dtype))  # there may be many
    chosen = b.compare(op.x, b.expand(op.y, like, op.axes), direction="eq")
    mask = b.where_true(chosen, b.full(wide, 1.0))
    count = b.expand(b.reduce_sum(mask, axes=op.axes), wide, op.axes)
    share = b.divide(mask, count)
    return share if wide == like else b.cast(share, dtype=like.dtype)


def _lowest(dtype: str) -> float | int:
    """Return the lowest number of a dtype."""
    return -np.inf if dt.is_float(dtype) else integer_bounds(dtype)[0]


def _highest(dtype: str) -> float | int:
    """Return the highest number of a dtype."""
    return np.inf if dt.is_float(dtype) else integer_bounds(dtype)[1]


class ReducedChoice(Reduction, traits=[Pure]):
    """Base of reductions that choose one of the elements. Ties share the gradient."""

    selects = True
    why = "ties share the derivative"
    needs_elements = True
    weights = staticmethod(_share_of_ties)


class ReduceMax(ReducedChoice, name="reduce_max"):
    """y = the largest element over `axes`; NaN if any is. Ties share the gradient."""

    @staticmethod
    def ref(x: np.ndarray, *, axes: tuple[int, ...]) -> Any:
        """Return np.max; of no elements, the lowest number of the dtype."""
        return np.max(x, axis=axes, initial=_lowest(dt.canonical_dtype(x.dtype)))

    start = staticmethod(_lowest)
    combine = {"f": arith.maximumf, "i": arith.maxsi, "u": arith.maxui}
    ufunc = "maximum"


class ReduceMin(ReducedChoice, name="reduce_min"):
    """y = the smallest element over `axes`; NaN if any is. Ties share the gradient."""

    @staticmethod
    def ref(x: np.ndarray, *, axes: tuple[int, ...]) -> Any:
        """Return np.min; of no elements, the highest number of the dtype."""
        return np.min(x, axis=axes, initial=_highest(dt.canonical_dtype(x.dtype)))

    start = staticmethod(_highest)
    combine = {"f": arith.minimumf, "i": arith.minsi, "u": arith.minui}
    ufunc = "minimum"


class Argmax(GraphOp, name="argmax", traits=[Pure]):
    """y = the position (i32) of the first NaN or else first maximum along `axis`."""

    why = "one pass instead of a comparison with the maximum"

    x: Operand[Any]
    axis: Int
    y: Result[Any]
    in_memory = True
    dtypes = dt.NUMBERS

    @staticmethod
    def infer(x: Tensor, *, axis: int) -> Tensor:
        """Return the type: i32, without `axis`."""
        require_dtype(x, dt.NUMBERS)
        require_axes(x, (axis,))
        if x.shape[axis] == 0:
            raise InputError(
                "empty-reduction", f"{x} has no elements along axis {axis}"
            )
        return Tensor(x.shape[:axis] + x.shape[axis + 1 :], "i32")

    @staticmethod
    def ref(x: np.ndarray, *, axis: int) -> Any:
        """Return np.argmax."""
        return np.argmax(x, axis=axis)

    jvp = NOT_DIFFERENTIABLE("integer result")
    vjp = NOT_DIFFERENTIABLE("integer result")

    batch = leading(axis=shift_axes)
    reorder = in_any_order(axis=rename_axes)

    pad = hiding(_lowest, along_axis)

    @staticmethod
    def result_orders(op: "Argmax", order: Order) -> list[Order]:
        """Return the order of the remaining axes."""
        return [order_without((op.axis,), order)]

    @staticmethod
    def lower(low: Lowering, op: "Argmax", x: Value) -> Value:
        """Emit the maximum, then the least index that holds it (or a NaN)."""
        source, result = Tensor.of(op.x), Tensor.of(op.y)
        best = lower_reduction(
            ReduceMax, low, x, result.with_dtype(source.dtype), (op.axis,)
        )
        rank = source.rank
        loops = [ir.AffineDimExpr.get(axis) for axis in range(rank)]
        kept = ir.AffineMap.get(rank, 0, loops[: op.axis] + loops[op.axis + 1 :])
        return low.generic(
            [x, best],
            [ir.AffineMap.get_identity(rank), kept, kept],
            low.full(result, _NOWHERE),
            ["reduction" if axis == op.axis else "parallel" for axis in range(rank)],
            _first_position(low, op.axis, source.dtype),
        )

    @staticmethod
    def nests(op: "Argmax") -> tuple[Nest, ...]:
        """Return loops over rows, the one position, and elements of a row."""
        kind, axis = Tensor.of(op.x), op.axis
        rows = tuple(n for n in range(kind.rank) if n != axis)
        kept = *(kind.shape[n] for n in rows), 1
        sizes = *kept, kind.shape[axis]

        def read(x: View) -> View:
            along = *range(len(rows)), len(rows) + 1
            return x.transpose((*rows, axis)).broadcast(sizes, along)

        return (
            Nest(
                sizes,
                1,
                (read,),
                ARGSORT_DESCENDING,
                dtype=accumulator(kind.dtype),
                place=lambda y: y.reshape(kept),
            ),
        )

    samples = [
        OpSample((f32(2, 3, 4),), {"axis": 1}),
        OpSample((f32("n", 4),), {"axis": 1}),
        OpSample((np.array([1, np.nan, 3, np.nan], "f"),), {"axis": 0}),
        OpSample((np.array([2, 5, 5], "u1"),), {"axis": 0}),
    ]


_NOWHERE = 2**31 - 1


def _first_position(low: Lowering, axis: int, dtype: str) -> Body:
    """Return a body that emits the least index of the extreme, or of NaN."""
    equal = comparison(dtype, "eq")

    def body(value: Value, extreme: Value, index: Value) -> Value:
        i32_type = ir.IntegerType.get_signless(32)
        here = arith.index_cast(i32_type, low.loop_index(axis))
        found = equal(value, extreme)
        if dt.is_float(dtype):
            found = arith.ori(found, is_nan(value))
        nowhere = low.scalar("i32", _NOWHERE)
        # Note [signed extremes]: positions are no less than 0
        return arith.minui(index, arith.select(found, here, nowhere))

    return body
