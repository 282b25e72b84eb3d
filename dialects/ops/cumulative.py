"""Running totals along an axis, and the linear recurrence that differentiates them."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from aotc.core import dtypes as dt
from aotc.dialects.attributes import Bool, Int
from aotc.dialects.builder import Builder
from aotc.dialects.graph import WIDE, GraphOp, Operand, Pure, Result, Tangent
from aotc.dialects.lowering import Lowering
from aotc.dialects.lowering.conversion import accumulator
from aotc.dialects.lowering.scalars import Body, constant, float_compare
from aotc.dialects.lowering.scans import Monoid, ScanLowering
from aotc.dialects.ops.reduction import (
    ReduceMax,
    ReduceMin,
    ReduceProd,
    ReduceSum,
)
from aotc.dialects.rules.batching import leading, shift_axes
from aotc.dialects.rules.checks import require_axes, require_dtype, require_equal
from aotc.dialects.rules.linearity import linear
from aotc.dialects.rules.padding import BucketPadding
from aotc.dialects.rules.reordering import in_any_order, rename_axes
from aotc.dialects.rules.samples import OpSample, f32
from aotc.dialects.types import Tensor
from aotc.mlir import Value, arith, math


def _widen(x: np.ndarray) -> np.ndarray:
    """Return an array in the dtype that it is accumulated in."""
    return x.astype(dt.to_numpy(accumulator(dt.canonical_dtype(x.dtype))))


class LinearRecurrence(GraphOp, name="linear_recurrence", traits=[Pure]):
    """y[i] = a[i] y[i-1] + x[i] along `axis`, from 0; y[i+1] if `reverse`."""

    why = (
        "the common form of running sums and products with a derivative that is "
        "again one"
    )
    in_memory = True
    precision = WIDE

    a: Operand[Any]
    x: Operand[Any]
    axis: Int
    reverse: Bool
    y: Result[Any]

    @staticmethod
    def infer(a: Tensor, x: Tensor, *, axis: int, reverse: bool) -> Tensor:
        """Return the result type, that of x."""
        require_dtype(x, dt.FLOATS)
        require_equal(a, x)
        require_axes(x, (axis,))
        return x

    @staticmethod
    def ref(a: np.ndarray, x: np.ndarray, *, axis: int, reverse: bool) -> np.ndarray:
        """Return the recurrence in NumPy, computed step by step."""
        a, x = (np.moveaxis(_widen(v), axis, 0) for v in (a, x))
        y, total = np.empty_like(x), np.zeros_like(x, shape=x.shape[1:])
        for i in range(len(x))[:: -1 if reverse else 1]:
            total = y[i] = a[i] * total + x[i]
        return np.moveaxis(y, 0, axis)

    @staticmethod
    def jvp(b: Builder, op: "LinearRecurrence", da: Tangent, dx: Tangent) -> Value:
        """Return dy[i] = a[i] dy[i-1] + (da[i] y[i-1] + dx[i]): the same recurrence."""
        if da is not None:
            moved = b.multiply(da, b.delay(op.y, op.axis, op.reverse))
            dx = moved if dx is None else b.add(dx, moved)
        return b.linear_recurrence(op.a, dx, axis=op.axis, reverse=op.reverse)

    @staticmethod
    def vjp(b: Builder, op: "LinearRecurrence", dy: Value) -> list[Value]:
        """Return cotangents by the reverse recurrence c[i] = a[i+1] c[i+1] + dy[i]."""
        c = _adjoint(b, op.a, dy, op)
        return [b.multiply(c, b.delay(op.y, op.axis, op.reverse)), c]

    batch = leading(axis=shift_axes)
    reorder = in_any_order(axis=rename_axes)

    @staticmethod
    def pad(p: BucketPadding, op: "LinearRecurrence", operands: Sequence[Value]) -> Any:
        """Emit the op with zeros for padding that comes first: totals stay 0."""
        if not op.reverse:
            return p.build(op, operands)
        exact = Tensor.of(op.x)
        return p.build(op, [p.hide(x, exact, (op.axis,), 0) for x in operands])

    @staticmethod
    def lower(low: Lowering, op: "LinearRecurrence", a: Value, x: Value) -> Value:
        """Emit a blocked scan; see Note [scan in blocks]. f32 accumulates f16, bf16."""
        source = Tensor.of(op.x)
        wide = source.with_dtype(accumulator(source.dtype))
        a, x = (low.convert(value, source, wide.dtype) for value in (a, x))
        scan = ScanLowering(low, Monoid(_both_steps, (1, 0)), op.reverse)
        _, y = scan([a, x], wide, op.axis)
        return low.convert(y, wide, source.dtype)

    samples = [
        OpSample((f32(2, 5), f32(2, 5)), {"axis": 1, "reverse": False}),
        OpSample((f32("n", 3), f32("n", 3)), {"axis": 0, "reverse": True}),
        OpSample((f32(70, 2), f32(70, 2)), {"axis": 0, "reverse": False}, -1.0, 1.0),
        OpSample((f32(2, 0), f32(2, 0)), {"axis": 1, "reverse": True}),
    ]


def _both_steps(one: Sequence[Value], other: Sequence[Value]) -> Sequence[Value]:
    """Emit the composition of two steps y → a y + x, `one` first, as one step."""
    (a, x), (b, z) = one, other
    return arith.mulf(a, b), arith.addf(arith.mulf(b, x), z)


def _adjoint(
    b: Builder, a: Value, dy: Value, op: "LinearRecurrence | Cumulative"
) -> Value:
    """Emit the adjoint of the recurrence with factors `a` along the axis of `op`."""
    factors = b.delay(a, op.axis, not op.reverse)
    return b.linear_recurrence(factors, dy, axis=op.axis, reverse=not op.reverse)


class Cumulative(GraphOp, traits=[Pure]):
    """Base of cumulative ops, such as cumsum; subclasses define the combination."""

    x: Operand[Any]
    axis: Int
    reverse: Bool
    y: Result[Any]
    if TYPE_CHECKING:
        accumulate: Callable[..., np.ndarray]
        start: Callable[[str], float]
        combine: dict[str, Body]
        step: Callable[[Builder, Any], tuple[Value, Value]]
    in_memory = True
    dtypes = tuple(dt.NUMBERS)  # of any length, for the static types of subclasses

    @classmethod
    def infer(cls, x: Tensor, *, axis: int, reverse: bool) -> Tensor:
        """Return the result type, that of the operand."""
        require_dtype(x, cls.dtypes)
        require_axes(x, (axis,))
        return x

    @classmethod
    def ref(cls, x: np.ndarray, *, axis: int, reverse: bool) -> np.ndarray:
        """Return NumPy's ufunc.accumulate, forwards or backwards."""
        wide = np.flip(_widen(x), axis) if reverse else _widen(x)
        y = cls.accumulate(wide, axis, wide.dtype)
        return np.flip(y, axis) if reverse else y

    @classmethod
    def jvp(cls, b: Builder, op: Self, dx: Value) -> Value:
        """Return dy[i] = ∂y[i]/∂y[i-1] dy[i-1] + ∂y[i]/∂x[i] dx[i]: a recurrence."""
        before, own = cls.step(b, op)
        weighted = b.multiply(own, dx)
        return b.linear_recurrence(before, weighted, axis=op.axis, reverse=op.reverse)

    @classmethod
    def vjp(cls, b: Builder, op: Self, dy: Value) -> list[Value]:
        """Return the cotangent by the reverse recurrence."""
        before, own = cls.step(b, op)
        return [b.multiply(own, _adjoint(b, before, dy, op))]

    batch = leading(axis=shift_axes)
    reorder = in_any_order(axis=rename_axes)

    @classmethod
    def pad(cls, p: BucketPadding, op: Self, operands: Sequence[Value]) -> Any:
        """Emit the op with the neutral element for padding that comes first."""
        (x,), exact = operands, Tensor.of(op.x)
        axes = (op.axis,) if op.reverse else ()
        return p.build(op, [p.hide(x, exact, axes, cls.start(exact.dtype))])

    @classmethod
    def lower(cls, low: Lowering, op: Self, x: Value) -> Value:
        """Emit a blocked scan; see Note [scan in blocks]. f32 accumulates f16, bf16."""
        source = Tensor.of(op.x)
        wide = source.with_dtype(accumulator(source.dtype))
        x = low.convert(x, source, wide.dtype)
        (y,) = ScanLowering(low, cls.monoid(wide.dtype), op.reverse)([x], wide, op.axis)
        return low.convert(y, wide, source.dtype)

    @classmethod
    def monoid(cls, dtype: str) -> Monoid:
        """Return the operation on elements of `dtype`, with its neutral element."""
        combine = cls.combine["f" if dt.is_float(dtype) else dtype[0]]

        def both(one: Sequence[Value], other: Sequence[Value]) -> Sequence[Value]:
            return [combine(one[0], other[0])]

        return Monoid(both, [cls.start(dtype)])

    samples = [
        OpSample((f32(2, 5),), {"axis": 1, "reverse": False}),
        OpSample((f32(10, 2),), {"axis": 0, "reverse": True}),
        OpSample((f32(0, 3),), {"axis": 0, "reverse": False}),
    ]


class Cumsum(Cumulative, name="cumsum"):
    """y[i] = the sum of x[j] over j <= i along `axis`; over j >= i if `reverse`."""

    why = "log n steps instead of n; its adjoint runs the other way"
    precision = WIDE
    adds_products = True

    accumulate = staticmethod(np.add.accumulate)
    start, combine = staticmethod(ReduceSum.start), ReduceSum.combine

    jvp = linear

    @staticmethod
    def vjp(b: Builder, op: "Cumsum", dy: Value) -> list[Value]:
        """Return the cumulative sums of dy in the other direction."""
        return [b.cumsum(dy, axis=op.axis, reverse=not op.reverse)]

    samples = [
        *Cumulative.samples,
        OpSample((f32("n", 2),), {"axis": 0, "reverse": True}),
        OpSample((f32(3, 70),), {"axis": 1, "reverse": False}),
    ]


class Cumprod(Cumulative, name="cumprod"):
    """y[i] = the product of x[j] over j <= i along `axis`; j >= i if `reverse`."""

    why = "log n steps instead of n; a derivative that is right where elements are zero"
    precision = WIDE

    accumulate = staticmethod(np.multiply.accumulate)
    start, combine = staticmethod(ReduceProd.start), ReduceProd.combine

    @staticmethod
    def step(b: Builder, op: "Cumprod") -> tuple[Value, Value]:
        """Return the derivatives of y[i] by y[i-1] and by x[i]: x[i] and y[i-1].

        Nothing is divided, so zeros are as good as others.
        """
        return op.x, b.delay(op.y, op.axis, op.reverse, 1.0)

    samples = [
        *Cumulative.samples,
        OpSample(
            (np.array([[1, 0, 2, 3], [3, 0, 0, 2]], "f"),),
            {"axis": 1, "reverse": False},
        ),
    ]


class CumulativeExtreme(Cumulative):
    """Base of the cumulative maximum and minimum."""

    @staticmethod
    def step(b: Builder, op: "CumulativeExtreme") -> tuple[Value, Value]:
        """Return the derivatives of y[i] by y[i-1] and by x[i]: 1 and 0, or 0 and 1.

        The first of equal extremes has 1.
        """
        previous = b.delay(op.y, op.axis, op.reverse, np.nan)
        new = b.compare(op.y, previous, direction="ne")
        zero, one = b.full_like(op.y, 0.0), b.full_like(op.y, 1.0)
        return b.select(new, zero, one), b.select(new, one, zero)

    samples = [
        *Cumulative.samples,
        OpSample(
            (np.array([-np.inf, -0.0, 2, 2, np.nan, 3, np.inf], "f"),),
            {"axis": 0, "reverse": False},
            smooth=False,
        ),
    ]


class Cummax(CumulativeExtreme, name="cummax"):
    """y[i] = the largest x[j] over j <= i along `axis`; over j >= i if `reverse`.

    NaN if any is. The first of equal elements gets the gradient.
    """

    why = "log n steps instead of n; the first of equal elements gets the derivative"

    accumulate = staticmethod(np.maximum.accumulate)
    start, combine = staticmethod(ReduceMax.start), ReduceMax.combine


class Cummin(CumulativeExtreme, name="cummin"):
    """y[i] = the smallest x[j] over j <= i along `axis`; over j >= i if `reverse`.

    NaN if any is. The first of equal elements gets the gradient.
    """

    why = "log n steps instead of n; the first of equal elements gets the derivative"

    accumulate = staticmethod(np.minimum.accumulate)
    start, combine = staticmethod(ReduceMin.start), ReduceMin.combine


def _logaddexp(x: Value, y: Value) -> Value:
    """Emit ln(e**x + e**y), shifted by the larger one unless that is infinite."""
    zero, infinity = constant(x.type, 0.0), constant(x.type, np.inf)
    top = arith.maximumf(x, y)
    finite = float_compare("OLT", math.absf(top), infinity)
    shift = arith.select(finite, top, zero)
    parts = [math.exp(arith.subf(value, shift)) for value in (x, y)]
    return arith.addf(math.log(arith.addf(*parts)), shift)


class Cumlogsumexp(Cumulative, name="cumlogsumexp"):
    """y[i] = ln(the sum of e**x[j] over j <= i along `axis`); j >= i if `reverse`."""

    is_approximated = True
    why = "no overflow; log n steps instead of n"
    precision = WIDE

    dtypes = dt.FLOATS
    accumulate = staticmethod(np.logaddexp.accumulate)
    start = staticmethod(lambda dtype: -np.inf)
    combine = {"f": _logaddexp}

    @staticmethod
    def step(b: Builder, op: "Cumlogsumexp") -> tuple[Value, Value]:
        """Return the derivatives of y[i] by y[i-1] and by x[i]: shares in the sum.

        They are 0 where it is empty.
        """
        nothing = b.compare(op.y, b.full_like(op.y, -np.inf), direction="eq")
        y = b.select(nothing, b.full_like(op.y, 0.0), op.y)
        before = b.delay(op.y, op.axis, op.reverse, -np.inf)
        return b.exp(b.subtract(before, y)), b.exp(b.subtract(op.x, y))

    samples = [
        *Cumulative.samples,
        OpSample(
            (np.array([[-np.inf, -np.inf, 1, 800], [3, -700, np.inf, 0]], "f"),),
            {"axis": 1, "reverse": False},
            smooth=False,
        ),
    ]
