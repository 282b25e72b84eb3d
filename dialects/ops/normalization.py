"""Softmax and normalisation: kept whole, for the sake of their derivatives."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from aotc.core import dtypes as dt
from aotc.dialects.attributes import Bool, Float, Int, Ints
from aotc.dialects.builder import Builder
from aotc.dialects.graph import WIDE, WIDENS, GraphOp, Operand, Pure, Result, Tangent
from aotc.dialects.lowering import Lowering
from aotc.dialects.lowering.conversion import accumulator
from aotc.dialects.lowering.scalars import Body
from aotc.dialects.lowering.summation import is_long, lowered_sum
from aotc.dialects.movement.permutations import Order
from aotc.dialects.ops.contraction import cast
from aotc.dialects.patterns.values import splat_of
from aotc.dialects.reference.wide_sums import wide_sum
from aotc.dialects.rules.batching import leading, shift_axes
from aotc.dialects.rules.checks import require_axes, require_dtype
from aotc.dialects.rules.padding import (
    along_axes,
    along_axis,
    harmless_but_along,
    hiding,
)
from aotc.dialects.rules.reordering import in_any_order, order_without, rename_axes
from aotc.dialects.rules.samples import OpSample, f32
from aotc.dialects.types import Shape, Size, Tensor, element_count
from aotc.errors import InputError
from aotc.mlir import Value, arith, ir, linalg, math

_PASSES = 3  # over a row


class AlongAxis(GraphOp, traits=[Pure]):
    """Base of ops along one axis, with a result of the operand's type."""

    x: Operand[Any]
    axis: Int
    y: Result[Any]
    in_memory = True

    @staticmethod
    def infer(x: Tensor, *, axis: int) -> Tensor:
        """Return the result type, that of the operand."""
        require_dtype(x, dt.FLOATS)
        require_axes(x, (axis,))
        return x

    batch = leading(axis=shift_axes)
    reorder = in_any_order(axis=rename_axes)

    pad = hiding(lambda _: -np.inf, along_axis)

    @classmethod
    def flops(cls, op: Self) -> Size:
        """Return the number of operations: one per element and pass over a row."""
        return _PASSES * Tensor.of(op.y).elements

    samples = [
        OpSample((f32(2, 5),), {"axis": 1}),
        OpSample((f32("n", 3, 2),), {"axis": 1}),
        OpSample(
            (np.array([[1e4, 0, -1e4], [-np.inf, 0, 1]], "f"),),
            {"axis": 1},
            smooth=False,
        ),
        OpSample((f32(2, "n"),), {"axis": 1}),
    ]


def _widen(x: np.ndarray) -> np.ndarray:
    """Return an array in the dtype that it is accumulated in."""
    return x.astype(dt.to_numpy(accumulator(dt.canonical_dtype(x.dtype))))


def _shift(x: np.ndarray, axis: int) -> Any:
    """Return an array less its maximum along an axis, in the dtype of sums."""
    wide = _widen(x)
    return wide - np.max(wide, axis, keepdims=True, initial=-np.inf)


class Softmax(AlongAxis, name="softmax"):
    """y = e**x / (the sum of e**x along `axis`), computed from x - max x."""

    is_approximated = True
    why = "no overflow; a derivative from its own value; a named op of linalg"

    @staticmethod
    def ref(x: np.ndarray, *, axis: int) -> Any:
        """Return e**(x - max) / sum in NumPy."""
        e = np.exp(_shift(x, axis))
        return e / wide_sum(e, axis, keepdims=True)

    @staticmethod
    def _project(b: Builder, op: "Softmax", d: Value) -> Value:
        """Emit y (d - sum(d y)): the Jacobian is symmetric, so it serves both modes."""
        total = b.reduce_sum(b.multiply(d, op.y), axes=(op.axis,))
        mean = b.expand(total, Tensor.of(op.y), (op.axis,))
        return b.multiply(op.y, b.subtract(d, mean))

    @classmethod
    def jvp(cls, b: Builder, op: Self, dx: Value) -> Value:
        """Return y (dx - sum(dx y))."""
        return cls._project(b, op, dx)

    @classmethod
    def vjp(cls, b: Builder, op: Self, dy: Value) -> list[Value]:
        """Return y (dy - sum(dy y))."""
        return [cls._project(b, op, dy)]

    @staticmethod
    def cascade(b: Builder, op: "Softmax") -> Value:
        """Emit a maximum, exponentials of the distance to it, their sum, quotients."""
        x, highest = _with_maximum(b, op)
        e = b.exp(b.subtract(x, highest))
        total = b.reduce_sum(e, axes=(op.axis,))
        y = b.divide(e, b.expand(total, Tensor.of(x), (op.axis,)))
        return cast(b, y, Tensor.of(op.y).dtype)

    @staticmethod
    def lower(low: Lowering, op: "Softmax", x: Value) -> Value:
        """Emit a linalg.softmax; half precision in f32, and long axes in blocks."""
        source = Tensor.of(op.x)
        wide = source.with_dtype(accumulator(source.dtype))
        x = low.vary(low.convert(x, source, wide.dtype))
        if is_long(wide, (op.axis,)):
            y = _long_softmax(low, x, wide, op.axis)
            return low.convert(y, wide, source.dtype)
        init = low.empty(wide)
        axis = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), op.axis)
        y = linalg.SoftmaxOp([init.type], x, init, axis).results[0]
        return low.convert(y, wide, source.dtype)


class LogSoftmax(AlongAxis, name="log_softmax"):
    """y = x - max x - ln(the sum of e**(x - max x)) along `axis`."""

    is_approximated = True
    why = "no overflow or underflow; a derivative from its own value"
    precision = WIDE

    @staticmethod
    def cancelling(x: np.ndarray) -> Any:
        """Return ones, as the maximum's term 1 may cancel the logarithm's digits."""
        return np.ones_like(_widen(x))

    @staticmethod
    def ref(x: np.ndarray, *, axis: int) -> Any:
        """Return the formula in NumPy, shifted by the maximum."""
        shifted = _shift(x, axis)
        return shifted - np.log(wide_sum(np.exp(shifted), axis, keepdims=True))

    @staticmethod
    def jvp(b: Builder, op: "LogSoftmax", dx: Value) -> Value:
        """Return dx - sum(e**y dx)."""
        total = b.reduce_sum(b.multiply(b.exp(op.y), dx), axes=(op.axis,))
        return b.subtract(dx, b.expand(total, Tensor.of(op.y), (op.axis,)))

    @staticmethod
    def vjp(b: Builder, op: "LogSoftmax", dy: Value) -> list[Value]:
        """Return dy - e**y sum(dy)."""
        total = b.expand(b.reduce_sum(dy, axes=(op.axis,)), Tensor.of(op.y), (op.axis,))
        return [b.subtract(dy, b.multiply(b.exp(op.y), total))]

    @staticmethod
    def cascade(b: Builder, op: "LogSoftmax") -> Value:
        """Emit the maximum, the sum of exponentials, its logarithm, a difference."""
        x, highest = _with_maximum(b, op)
        shifted = b.subtract(x, highest)
        logarithm = b.log(b.reduce_sum(b.exp(shifted), axes=(op.axis,)))
        y = b.subtract(shifted, b.expand(logarithm, Tensor.of(x), (op.axis,)))
        return cast(b, y, Tensor.of(op.y).dtype)

    @staticmethod
    def lower(low: Lowering, op: "LogSoftmax", x: Value) -> Value:
        """Emit the maximum, the sum of exponentials, and their difference from x."""
        source = Tensor.of(op.x)
        wide = source.with_dtype(accumulator(source.dtype))
        x = low.convert(x, source, wide.dtype)
        highest, _, total = _sum_of_powers(low, x, wide, op.axis)
        rest = wide.with_shape(_reduced_shape(wide.shape, (op.axis,)))
        logs = low.pointwise([total], rest, math.log)

        def log_share(x: Value, highest: Value, logarithm: Value) -> Value:
            return arith.subf(arith.subf(x, highest), logarithm)

        y = _combine(low, wide, (op.axis,), [x, highest, logs], log_share)
        return low.convert(y, wide, source.dtype)


def _with_maximum(b: Builder, op: Softmax | LogSoftmax) -> tuple[Value, Value]:
    """Emit x in the dtype of sums, and its maximum along the axis, broadcast back."""
    x = cast(b, op.x, accumulator(Tensor.of(op.x).dtype))
    highest = b.highest(x, (op.axis,))
    return x, b.expand(highest, Tensor.of(x), (op.axis,))


def _long_softmax(low: Lowering, x: Value, wide: Tensor, axis: int) -> Value:
    """Emit exponentials divided by their sum, which is made in blocks.

    Powers of many numbers are computed twice rather than kept: 4e6 take twice as long
    to write and read as to compute (AVX2). A symbolic size may well be small, and then
    it is the other way round.
    """
    highest, powers, total = _sum_of_powers(low, x, wide, axis)
    if not isinstance(wide.shape[axis], int):
        return _combine(low, wide, (axis,), [powers, total], arith.divf)

    def share(x: Value, highest: Value, total: Value) -> Value:
        return arith.divf(_shifted_power(x, highest), total)

    return _combine(low, wide, (axis,), [x, highest, total], share)


def _shifted_power(x: Value, highest: Value) -> Value:
    """Emit e**(x - highest) of scalars."""
    return math.exp(arith.subf(x, highest))


def _sum_of_powers(
    low: Lowering, x: Value, wide: Tensor, axis: int
) -> tuple[Value, Value, Value]:
    """Emit the maximum of x along an axis, e**(x - maximum), and the sum of these."""
    rest = wide.with_shape(_reduced_shape(wide.shape, (axis,)))
    highest = low.reduce(x, rest, (axis,), -np.inf, arith.maximumf)
    powers = _combine(low, wide, (axis,), [x, highest], _shifted_power)
    return highest, powers, lowered_sum(low, powers, wide, (axis,))


class Normalize(GraphOp, name="normalize", traits=[Pure]):
    """y = (x - mean) / sqrt(variance + epsilon), both of them taken over `axes`.

    Not `centered`, the mean counts as 0, and the variance is the mean of squares. Half
    precision has its statistics in f32.
    """

    in_memory = True
    is_approximated = True
    precision = WIDENS
    why = (
        "one body for layer, batch, group and instance norms, with the short derivative"
    )

    x: Operand[Any]
    axes: Ints
    epsilon: Float
    centered: Bool
    y: Result[Any]
    mean: Result[Any]
    variance: Result[Any]

    @staticmethod
    def infer(
        x: Tensor, *, axes: tuple[int, ...], epsilon: float, centered: bool
    ) -> tuple[Tensor, ...]:
        """Return the type of x, and twice that of the remaining axes."""
        require_dtype(x, dt.FLOATS)
        require_axes(x, axes)
        if element_count(tuple(x.shape[axis] for axis in axes)) == 0:
            raise InputError(
                "shape-mismatch", f"no elements along axes {tuple(axes)} of {x}"
            )
        rest = Tensor(_reduced_shape(x.shape, axes), accumulator(x.dtype))
        return x, rest, rest

    @staticmethod
    def ref(
        x: np.ndarray, *, axes: tuple[int, ...], epsilon: float, centered: bool
    ) -> Any:
        """Return y, mean and variance in NumPy, in two passes."""
        wide = _widen(x)
        count = np.prod([wide.shape[axis] for axis in axes], dtype=wide.dtype)
        mean = wide_sum(wide, axes) / count
        if not centered:
            mean = np.zeros_like(mean)
        shifted = wide - np.expand_dims(mean, axes)
        variance = wide_sum(np.square(shifted), axes) / count
        deviation = np.sqrt(variance + wide.dtype.type(epsilon))
        return shifted / np.expand_dims(deviation, axes), mean, variance

    @classmethod
    def jvp(cls, b: Builder, op: Self, dx: Value) -> tuple[Tangent, ...]:
        """Return r (dx - mean(dx) - y mean(dx y)), r = 1 / sqrt(variance + epsilon)."""
        y, r = cls._saved_values(b, op)
        dx = cast(b, dx, Tensor.of(y).dtype)
        mean, turn = b.mean(dx, op.axes), b.mean(b.multiply(dx, y), op.axes)
        inner = b.subtract(dx, b.multiply(y, cls._expand(b, op, turn)))
        if op.centered:
            inner = b.subtract(inner, cls._expand(b, op, mean))
        dy = b.multiply(inner, cls._expand(b, op, r))
        dmean = mean if op.centered else None
        return (
            cast(b, dy, Tensor.of(op.y).dtype),
            dmean,
            b.scale(b.divide(turn, r), 2.0),
        )

    @classmethod
    def vjp(
        cls, b: Builder, op: Self, dy: Value, dmean: Value, dvariance: Value
    ) -> list[Value]:
        """Return the (symmetric) Jacobian times dy, plus those of the statistics.

        Cotangents of statistics that are zero are left out.
        """
        y, r = cls._saved_values(b, op)
        dy = cast(b, dy, Tensor.of(y).dtype)
        total = b.reduce_sum(b.multiply(dy, y), axes=op.axes)
        turn = b.negate(b.multiply(r, total))
        if splat_of(dvariance) != 0:
            turn = b.add(turn, b.scale(b.divide(dvariance, r), 2.0))
        dx = b.multiply(dy, cls._expand(b, op, r))
        dx = b.add(dx, b.multiply(y, cls._expand(b, op, cls._per_element(b, op, turn))))
        if op.centered:
            total = b.reduce_sum(dy, axes=op.axes)
            shift = b.negate(b.multiply(r, total))
            if splat_of(dmean) != 0:
                shift = b.add(shift, dmean)
            dx = b.add(dx, cls._expand(b, op, cls._per_element(b, op, shift)))
        return [cast(b, dx, Tensor.of(op.x).dtype)]

    @staticmethod
    def _saved_values(b: Builder, op: "Normalize") -> tuple[Value, Value]:
        """Emit y in the dtype of statistics, and 1 / the standard deviation."""
        r = b.rsqrt(b.offset(op.variance, op.epsilon))
        return cast(b, op.y, Tensor.of(r).dtype), r

    @staticmethod
    def _expand(b: Builder, op: "Normalize", statistic: Value) -> Value:
        """Emit a statistic broadcast to the shape of x."""
        return b.expand(statistic, Tensor.of(op.x), op.axes)

    @staticmethod
    def _per_element(b: Builder, op: "Normalize", total: Value) -> Value:
        """Emit `total` divided by the number of elements that it sums."""
        x, like = Tensor.of(op.x), Tensor.of(total)
        count = element_count(tuple(x.shape[axis] for axis in op.axes))
        return b.divide(total, b.number(like, count))

    batch = leading(axes=shift_axes)
    reorder = in_any_order(axes=rename_axes)

    pad = harmless_but_along(along_axes)

    @staticmethod
    def result_orders(op: "Normalize", order: Order) -> list[Order]:
        """Return the order of y, and for statistics that of the remaining axes."""
        rest = order_without(op.axes, order)
        return [order, rest, rest]

    @classmethod
    def cascade(cls, b: Builder, op: Self) -> list[Value]:
        """Emit the mean, the variance, and the normalized elements."""
        x = cast(b, op.x, Tensor.of(op.mean).dtype)
        shifted, mean, variance = cls.moments(b, x, op.axes, centered=op.centered)
        r = b.rsqrt(b.offset(variance, op.epsilon))
        y = b.multiply(shifted, b.expand(r, Tensor.of(x), op.axes))
        return [cast(b, y, Tensor.of(op.y).dtype), mean, variance]

    @staticmethod
    def moments(
        b: Builder, x: Value, axes: Sequence[int], *, centered: bool
    ) -> tuple[Value, Value, Value]:
        """Emit x without its mean over axes, the mean, and the variance.

        Not `centered`, the mean counts as 0. x is of the dtype of the statistics.
        """
        wide, axes = Tensor.of(x), tuple(axes)
        rest = wide.with_shape(_reduced_shape(wide.shape, axes))
        count = element_count(tuple(wide.shape[axis] for axis in axes))

        def mean_of(elements: Value) -> Value:
            total = b.reduce_sum(elements, axes=axes)
            found: Value = b.divide(total, b.number(rest, count))
            return found

        mean, shifted = b.number(rest, 0), x
        if centered:
            mean = mean_of(x)
            shifted = b.subtract(x, b.expand(mean, wide, axes))
        return shifted, mean, mean_of(b.multiply(shifted, shifted))

    composition = cascade

    @classmethod
    def lower(cls, low: Lowering, op: Self, x: Value) -> list[Value]:
        """Emit mean and variance, then one linalg.generic that reads both."""
        source, rest = Tensor.of(op.x), Tensor.of(op.mean)
        wide = source.with_dtype(rest.dtype)
        x = low.convert(x, source, wide.dtype)
        count = _count(low, source, op.axes, x.type.element_type)
        mean = low.full(rest, 0.0)
        if op.centered:
            mean = _means(low, x, wide, op.axes, count)

        def squared_deviation(value: Value, mean: Value) -> Value:
            shifted = arith.subf(value, mean)
            return arith.mulf(shifted, shifted)

        squares = _combine(low, wide, op.axes, [x, mean], squared_deviation)
        variance = _means(low, squares, wide, op.axes, count)

        def inverse(variance: Value) -> Value:
            return math.rsqrt(arith.addf(variance, low.scalar(rest.dtype, op.epsilon)))

        def normal(value: Value, mean: Value, r: Value) -> Value:
            return arith.mulf(arith.subf(value, mean), r)

        r = low.pointwise([variance], rest, inverse)
        y = _combine(low, wide, op.axes, [x, mean, r], normal)
        return [low.convert(y, wide, source.dtype), mean, variance]

    @classmethod
    def flops(cls, op: Self) -> Size:
        """Return the number of operations: one per element and pass over a row."""
        return _PASSES * Tensor.of(op.y).elements

    samples = [
        OpSample((f32(2, 5),), {"axes": (1,), "epsilon": 1e-5, "centered": True}),
        OpSample(
            (f32("n", 3, 4),), {"axes": (0, 1), "epsilon": 1e-3, "centered": True}
        ),
        OpSample((f32(3, "n"),), {"axes": (1,), "epsilon": 1e-3, "centered": False}),
        OpSample((f32(2, 3, 4),), {"axes": (1, 2), "epsilon": 1e-2, "centered": False}),
        OpSample((f32(2, "n", 3),), {"axes": (1,), "epsilon": 1e-2, "centered": True}),
    ]


def _reduced_shape(shape: Shape, axes: Sequence[int]) -> Shape:
    """Return a shape without the axes."""
    return tuple(size for axis, size in enumerate(shape) if axis not in axes)


def _combine(
    low: Lowering, wide: Tensor, axes: Sequence[int], operands: list[Value], body: Body
) -> Value:
    """Emit `body(x, reduced…)` elementwise, reduced tensors repeated along `axes`."""
    loops = [ir.AffineDimExpr.get(i) for i in range(wide.rank) if i not in axes]
    identity = ir.AffineMap.get_identity(wide.rank)
    projected = ir.AffineMap.get(wide.rank, 0, loops)
    return low.generic(
        operands,
        [identity, *[projected] * (len(operands) - 1), identity],
        low.empty(wide),
        ["parallel"] * wide.rank,
        lambda *elements: body(*elements[:-1]),
    )


def _count(low: Lowering, x: Tensor, axes: Sequence[int], element: Value) -> Value:
    """Emit the number of elements reduced over, as a float; sizes may be symbolic."""
    sizes = tuple(x.shape[axis] for axis in axes)
    i64 = ir.IntegerType.get_signless(64)
    count = arith.index_cast(i64, low.size(element_count(sizes)))
    return arith.sitofp(element, count)


def _means(
    low: Lowering, x: Value, wide: Tensor, axes: Sequence[int], count: Value
) -> Value:
    """Emit the means over axes of a lowered tensor."""
    rest = wide.with_shape(_reduced_shape(wide.shape, axes))
    total = lowered_sum(low, x, wide, axes)
    return low.pointwise([total], rest, lambda t: arith.divf(t, count))
