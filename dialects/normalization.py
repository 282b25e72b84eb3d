"""Softmax and normalisation: kept whole, for the sake of their derivatives."""

from typing import Any

import numpy as np

from aotc import dtypes as dt
from aotc.dialects.attributes import Float, Int
from aotc.dialects.batching import all_spread, leading, moved, spread
from aotc.dialects.checks import require_axes, require_dtype
from aotc.dialects.conversion import accumulator
from aotc.dialects.graph import GraphOp, Operand, Pure, Result
from aotc.dialects.samples import Sample, f32
from aotc.dialects.types import Size, Tensor
from aotc.errors import InputError
from aotc.mlir import arith, ir, linalg, math


class AlongAxis(GraphOp, traits=[Pure]):
    """One operand, one axis, a result of the operand's type."""

    x: Operand[Any]
    axis: Int
    y: Result[Any]

    @staticmethod
    def infer(x: Tensor, *, axis: int) -> Tensor:
        """The operand's type."""
        require_dtype(x, dt.FLOATS)
        require_axes(x, (axis,))
        return x

    batch = leading(axis=moved)

    samples = [
        Sample((f32(2, 5),), {"axis": 1}),
        Sample((f32("n", 3, 2),), {"axis": 1}),
        Sample(
            (np.array([[1e4, 0, -1e4], [-np.inf, 0, 1]], "f"),),
            {"axis": 1},
            smooth=False,
        ),
        Sample((f32(2, "n"),), {"axis": 1}),
    ]


def _wide(x: Any) -> Any:
    return x.astype(dt.to_numpy(accumulator(dt.canonical(x.dtype))))


def _shifted(x: Any, axis: int) -> Any:
    wide = _wide(x)
    return wide - np.max(wide, axis, keepdims=True, initial=-np.inf)


class Softmax(AlongAxis, name="softmax"):
    """y = e**x / (the sum of e**x along `axis`), computed from x - max x."""

    @staticmethod
    def ref(x: Any, *, axis: int) -> Any:
        """e**(x - max) / sum."""
        e = np.exp(_shifted(x, axis))
        return e / np.sum(e, axis, keepdims=True)

    @staticmethod
    def _projected(b: Any, op: Any, d: Any) -> Any:
        """Y (d - sum(d y)): the Jacobian is symmetric, so it serves both modes."""
        total = b.reduce_sum(b.multiply(d, op.y), axes=(op.axis,))
        mean = b.expand(total, Tensor.of(op.y), (op.axis,))
        return b.multiply(op.y, b.subtract(d, mean))

    @classmethod
    def jvp(cls, b: Any, op: Any, dx: Any) -> Any:
        """Y (dx - sum(dx y))."""
        return cls._projected(b, op, dx)

    @classmethod
    def vjp(cls, b: Any, op: Any, dy: Any) -> list[Any]:
        """Y (dy - sum(dy y))."""
        return [cls._projected(b, op, dy)]

    @staticmethod
    def lower(low: Any, op: Any, x: Any) -> Any:
        """linalg.softmax; half precision in f32."""
        source = Tensor.of(op.x)
        wide = source.with_dtype(accumulator(source.dtype))
        x = low.convert(x, source, wide.dtype)
        init = low.empty(wide)
        axis = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), op.axis)
        y = linalg.SoftmaxOp([init.type], x, init, axis).results[0]
        return low.convert(y, wide, source.dtype)


class LogSoftmax(AlongAxis, name="log_softmax"):
    """y = x - max x - ln(the sum of e**(x - max x)) along `axis`."""

    @staticmethod
    def ref(x: Any, *, axis: int) -> Any:
        """Shifted by the maximum, which cancels."""
        shifted = _shifted(x, axis)
        return shifted - np.log(np.sum(np.exp(shifted), axis, keepdims=True))

    @staticmethod
    def jvp(b: Any, op: Any, dx: Any) -> Any:
        """Dx - sum(e**y dx)."""
        total = b.reduce_sum(b.multiply(b.exp(op.y), dx), axes=(op.axis,))
        return b.subtract(dx, b.expand(total, Tensor.of(op.y), (op.axis,)))

    @staticmethod
    def vjp(b: Any, op: Any, dy: Any) -> list[Any]:
        """Dy - e**y sum(dy)."""
        total = b.expand(b.reduce_sum(dy, axes=(op.axis,)), Tensor.of(op.y), (op.axis,))
        return [b.subtract(dy, b.multiply(b.exp(op.y), total))]

    @staticmethod
    def lower(low: Any, op: Any, x: Any) -> Any:
        """Maximum, sum of exponentials, and their difference from x."""
        source = Tensor.of(op.x)
        wide = source.with_dtype(accumulator(source.dtype))
        x = low.convert(x, source, wide.dtype)
        rest = wide.with_shape(wide.shape[: op.axis] + wide.shape[op.axis + 1 :])
        highest = low.reduce(x, rest, (op.axis,), -np.inf, arith.maximumf)
        shifted = _combine(low, wide, op.axis, x, highest, arith.subf)
        power = low.pointwise([shifted], wide, math.exp)
        total = low.reduce(power, rest, (op.axis,), 0.0, arith.addf)
        logs = low.pointwise([total], rest, math.log)
        y = _combine(low, wide, op.axis, shifted, logs, arith.subf)
        return low.convert(y, wide, source.dtype)


def _combine(
    low: Any, wide: Tensor, axis: int, x: Any, reduced: Any, operation: Any
) -> Any:
    """`operation(x, reduced)`, with the reduced value repeated along `axis`."""
    loops = [ir.AffineDimExpr.get(i) for i in range(wide.rank)]
    identity = ir.AffineMap.get_identity(wide.rank)
    projected = ir.AffineMap.get(wide.rank, 0, loops[:axis] + loops[axis + 1 :])
    return low.generic(
        [x, reduced],
        [identity, projected, identity],
        low.empty(wide),
        ["parallel"] * wide.rank,
        lambda value, other, _: operation(value, other),
    )


class LayerNorm(GraphOp, name="layer_norm", traits=[Pure]):
    """y = (x - mean) / sqrt(variance + epsilon) * scale + bias over the last axis."""

    x: Operand[Any]
    scale: Operand[Any]
    bias: Operand[Any]
    epsilon: Float
    y: Result[Any]

    @staticmethod
    def infer(x: Tensor, scale: Tensor, bias: Tensor, *, epsilon: float) -> Tensor:
        """The type of x; scale and bias have its last axis."""
        require_dtype(x, dt.FLOATS)
        for part in (scale, bias):
            if part != x.with_shape(x.shape[-1:]) or not x.rank:
                raise InputError(
                    "shape-mismatch",
                    f"expected scale and bias of the size of the last axis of {x}; "
                    f"got {part}",
                )
        return x

    @staticmethod
    def ref(x: Any, scale: Any, bias: Any, *, epsilon: float) -> Any:
        """Two-pass mean and variance."""
        wide = _wide(x)
        count = wide.shape[-1]
        centered = wide - wide.sum(-1, keepdims=True) / count
        variance = np.square(centered).sum(-1, keepdims=True) / count
        return centered / np.sqrt(variance + wide.dtype.type(epsilon)) * scale + bias

    @staticmethod
    def _normalized(b: Any, op: Any) -> tuple[Any, Any]:
        """(x - mean) * r and r = 1 / sqrt(variance + epsilon), both like x."""
        like = Tensor.of(op.x)
        centered = b.subtract(op.x, _mean(b, op.x, like))
        variance = _mean(b, b.multiply(centered, centered), like)
        r = b.rsqrt(b.offset(variance, op.epsilon))
        return b.multiply(centered, r), r

    @classmethod
    def jvp(cls, b: Any, op: Any, dx: Any, dscale: Any, dbias: Any) -> Any:
        """Scale r (dx - mean(dx) - x^ mean(dx x^)) + x^ dscale + dbias."""
        like = Tensor.of(op.x)
        last = (like.rank - 1,)
        x_hat, r = cls._normalized(b, op)
        terms = []
        if dx is not None:
            inner = cls._centered(b, dx, x_hat, r)
            scale = b.broadcast(op.scale, shape=like.shape, axes=last)
            terms.append(b.multiply(inner, scale))
        if dscale is not None:
            wide = b.broadcast(dscale, shape=like.shape, axes=last)
            terms.append(b.multiply(x_hat, wide))
        if dbias is not None:
            terms.append(b.broadcast(dbias, shape=like.shape, axes=last))
        total = terms[0]
        for term in terms[1:]:
            total = b.add(total, term)
        return total

    @staticmethod
    def _centered(b: Any, d: Any, x_hat: Any, r: Any) -> Any:
        """R (d - mean(d) - x^ mean(d x^)): the Jacobian of x^, which is symmetric."""
        like = Tensor.of(d)
        shift = _mean(b, d, like)
        turn = b.multiply(x_hat, _mean(b, b.multiply(d, x_hat), like))
        return b.multiply(r, b.subtract(b.subtract(d, shift), turn))

    @classmethod
    def vjp(cls, b: Any, op: Any, dy: Any) -> list[Any]:
        """The Jacobian of x^ applied to dy scale; dy x^ and dy summed over the rest."""
        like = Tensor.of(op.x)
        others = tuple(range(like.rank - 1))
        x_hat, r = cls._normalized(b, op)
        scale = b.broadcast(op.scale, shape=like.shape, axes=(like.rank - 1,))
        dx = cls._centered(b, b.multiply(dy, scale), x_hat, r)
        return [
            dx,
            b.reduce_sum(b.multiply(dy, x_hat), axes=others),
            b.reduce_sum(dy, axes=others),
        ]

    @staticmethod
    def batch(b: Any, op: Any, operands: Any, batched: Any, size: Size) -> Any:
        """One more axis of x; a scale and bias for each are applied afterwards."""
        x = operands[0] if batched[0] else spread(b, operands[0], size)
        if not any(batched[1:]):
            return b.layer_norm(x, *operands[1:], epsilon=op.epsilon)
        line = Tensor.of(op.scale)
        unit, zero = b.full(line, 1.0), b.full(line, 0.0)
        y, like = b.layer_norm(x, unit, zero, epsilon=op.epsilon), Tensor.of(x)
        scale, bias = (
            b.broadcast(part, shape=like.shape, axes=(0, like.rank - 1))
            for part in all_spread(b, operands[1:], batched[1:], size)
        )
        return b.add(b.multiply(y, scale), bias)

    @staticmethod
    def lower(low: Any, op: Any, x: Any, scale: Any, bias: Any) -> Any:
        """Mean, variance, then one fused elementwise generic."""
        source = Tensor.of(op.x)
        wide = source.with_dtype(accumulator(source.dtype))
        line = source.with_shape(source.shape[-1:])
        x = low.convert(x, source, wide.dtype)
        scale, bias = (low.convert(v, line, wide.dtype) for v in (scale, bias))
        means = _row_means(low, wide, x)
        centered = _combine(low, wide, wide.rank - 1, x, means, arith.subf)
        square = low.pointwise([centered], wide, lambda v: arith.mulf(v, v))
        variance = _row_means(low, wide, square)
        y = _scale_rows(low, wide, [centered, variance, scale, bias], op.epsilon)
        return low.convert(y, wide, source.dtype)

    samples = [
        Sample((f32(2, 5), f32(5), f32(5)), {"epsilon": 1e-5}),
        Sample((f32("n", 3, 4), f32(4), f32(4)), {"epsilon": 1e-3}),
        Sample((f32(3, "n"), f32("n"), f32("n")), {"epsilon": 1e-3}),
    ]


def _row_means(low: Any, wide: Tensor, x: Any) -> Any:
    """The lowered means over the last axis, which may be symbolic."""
    i64 = ir.IntegerType.get_signless(64)
    count = arith.index_cast(i64, low.size(wide.shape[-1]))
    count = arith.sitofp(x.type.element_type, count)
    rest = wide.with_shape(wide.shape[:-1])
    total = low.reduce(x, rest, (wide.rank - 1,), 0.0, arith.addf)
    return low.pointwise([total], rest, lambda t: arith.divf(t, count))


def _scale_rows(low: Any, wide: Tensor, parts: list[Any], epsilon: float) -> Any:
    """Centered / sqrt(variance + epsilon) * scale + bias, from these four parts."""
    identity = ir.AffineMap.get_identity(wide.rank)
    loops = [ir.AffineDimExpr.get(i) for i in range(wide.rank)]
    rows = ir.AffineMap.get(wide.rank, 0, loops[:-1])
    columns = ir.AffineMap.get(wide.rank, 0, loops[-1:])

    def element(centered: Any, variance: Any, scale: Any, bias: Any, _: Any) -> Any:
        shifted = arith.addf(variance, low.scalar(wide.dtype, epsilon))
        normal = arith.mulf(centered, math.rsqrt(shifted))
        return arith.addf(arith.mulf(normal, scale), bias)

    return low.generic(
        parts,
        [identity, rows, columns, columns, identity],
        low.empty(wide),
        ["parallel"] * wide.rank,
        element,
    )


def _mean(b: Any, x: Any, like: Tensor) -> Any:
    """The mean over the last axis, repeated along it."""
    last = (like.rank - 1,)
    return b.expand(b.mean(x, last), like, last)
