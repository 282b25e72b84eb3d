"""Softmax and normalisation: kept whole, because their derivatives are better that way."""

from typing import Any

import numpy as np

from aotc import dtypes as dt
from aotc.dialects.elementwise import f32, require_dtype
from aotc.dialects.graph import Float, GraphOp, Int, Operand, Pure, Result, Sample
from aotc.dialects.reduction import accumulator, convert, reduce_generic, require_axes
from aotc.dialects.types import Tensor
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

    samples = [
        Sample((f32(2, 5),), {"axis": 1}),
        Sample((f32("n", 3, 2),), {"axis": 1}),
        Sample((np.array([[1e4, 0, -1e4], [-np.inf, 0, 1]], "f"),), {"axis": 1}, smooth=False),
    ]


def _wide(x: Any) -> Any:
    return x.astype(dt.to_numpy(accumulator(dt.canonical(x.dtype))))


class Softmax(AlongAxis, name="softmax"):
    """y = e**x / (the sum of e**x along `axis`), computed from x - max x."""

    @staticmethod
    def ref(x: Any, *, axis: int) -> Any:
        """e**(x - max) / sum."""
        e = np.exp(_wide(x) - np.max(_wide(x), axis, keepdims=True))
        return e / np.sum(e, axis, keepdims=True)

    @staticmethod
    def _projected(b: Any, op: Any, d: Any) -> Any:
        """y (d - sum(d y)): the Jacobian is symmetric, so it serves both modes."""
        total = b.reduce_sum(b.multiply(d, op.y), axes=(op.axis,))
        mean = b.expand(total, Tensor.of(op.y), (op.axis,))
        return b.multiply(op.y, b.subtract(d, mean))

    @classmethod
    def jvp(cls, b: Any, op: Any, dx: Any) -> Any:
        """y (dx - sum(dx y))."""
        return cls._projected(b, op, dx)

    @classmethod
    def vjp(cls, b: Any, op: Any, dy: Any) -> list[Any]:
        """y (dy - sum(dy y))."""
        return [cls._projected(b, op, dy)]

    @staticmethod
    def lower(low: Any, op: Any, x: Any) -> Any:
        """linalg.softmax; half precision in f32."""
        source = Tensor.of(op.x)
        wide = source.with_dtype(accumulator(source.dtype))
        x = convert(low, x, source, wide.dtype)
        init = low.empty(wide)
        axis = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), op.axis)
        y = linalg.SoftmaxOp([init.type], x, init, axis).results[0]
        return convert(low, y, wide, source.dtype)


class LogSoftmax(AlongAxis, name="log_softmax"):
    """y = x - max x - ln(the sum of e**(x - max x)) along `axis`."""

    @staticmethod
    def ref(x: Any, *, axis: int) -> Any:
        """Shifted by the maximum, which cancels."""
        shifted = _wide(x) - np.max(_wide(x), axis, keepdims=True)
        return shifted - np.log(np.sum(np.exp(shifted), axis, keepdims=True))

    @staticmethod
    def jvp(b: Any, op: Any, dx: Any) -> Any:
        """dx - sum(e**y dx)."""
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
        x = convert(low, x, source, wide.dtype)
        rest = wide.with_shape(wide.shape[: op.axis] + wide.shape[op.axis + 1 :])
        highest = reduce_generic(
            low, x, rest, (op.axis,), low.scalar(wide.dtype, -np.inf),
            lambda value, total: arith.MaximumFOp(value, total).result,
        )
        shifted = _combine(low, wide, op.axis, x, highest, arith.SubFOp)
        power = low.pointwise([shifted], wide, lambda v: math.ExpOp(v).result)
        total = reduce_generic(
            low, power, rest, (op.axis,), low.scalar(wide.dtype, 0.0),
            lambda value, total: arith.AddFOp(total, value).result,
        )
        logs = low.pointwise([total], rest, lambda v: math.LogOp(v).result)
        y = _combine(low, wide, op.axis, shifted, logs, arith.SubFOp)
        return convert(low, y, wide, source.dtype)


def _combine(low: Any, wide: Tensor, axis: int, x: Any, reduced: Any, operation: Any) -> Any:
    """`operation(x, reduced)`, with the reduced value repeated along `axis`."""
    loops = [ir.AffineDimExpr.get(i) for i in range(wide.rank)]
    identity = ir.AffineMap.get_identity(wide.rank)
    projected = ir.AffineMap.get(wide.rank, 0, loops[:axis] + loops[axis + 1 :])
    return low.generic(
        [x, reduced],
        [identity, projected, identity],
        low.empty(wide),
        ["parallel"] * wide.rank,
        lambda value, other, _: operation(value, other).result,
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
        centered = wide - wide.mean(-1, keepdims=True)
        variance = np.square(centered).mean(-1, keepdims=True)
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
        """r (d - mean(d) - x^ mean(d x^)): the Jacobian of x^, which is symmetric."""
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
    def lower(low: Any, op: Any, x: Any, scale: Any, bias: Any) -> Any:
        """Mean, variance, then one fused elementwise generic."""
        source = Tensor.of(op.x)
        wide = source.with_dtype(accumulator(source.dtype))
        axis, rank = wide.rank - 1, wide.rank
        rest = wide.with_shape(wide.shape[:-1])
        x = convert(low, x, source, wide.dtype)
        line = source.with_shape(source.shape[-1:])
        scale, bias = (convert(low, v, line, wide.dtype) for v in (scale, bias))
        count = arith.IndexCastOp(_i64(), low.size(wide.shape[-1])).result
        count = arith.SIToFPOp(x.type.element_type, count).result

        def mean(value: Any) -> Any:
            total = reduce_generic(
                low, value, rest, (axis,), low.scalar(wide.dtype, 0.0),
                lambda element, total: arith.AddFOp(total, element).result,
            )
            return low.pointwise([total], rest, lambda t: arith.DivFOp(t, count).result)

        centered = _combine(low, wide, axis, x, mean(x), arith.SubFOp)
        square = low.pointwise([centered], wide, lambda v: arith.MulFOp(v, v).result)
        variance = mean(square)
        identity = ir.AffineMap.get_identity(rank)
        loops = [ir.AffineDimExpr.get(i) for i in range(rank)]
        outer = ir.AffineMap.get(rank, 0, loops[:-1])
        inner = ir.AffineMap.get(rank, 0, loops[-1:])

        def element(c: Any, v: Any, s: Any, t: Any, _: Any) -> Any:
            shifted = arith.AddFOp(v, low.scalar(wide.dtype, op.epsilon)).result
            normal = arith.MulFOp(c, math.RsqrtOp(shifted).result).result
            return arith.AddFOp(arith.MulFOp(normal, s).result, t).result

        y = low.generic(
            [centered, variance, scale, bias],
            [identity, outer, inner, inner, identity],
            low.empty(wide),
            ["parallel"] * rank,
            element,
        )
        return convert(low, y, wide, source.dtype)

    samples = [
        Sample((f32(2, 5), f32(5), f32(5)), {"epsilon": 1e-5}),
        Sample((f32("n", 3, 4), f32(4), f32(4)), {"epsilon": 1e-3}),
    ]


def _i64() -> Any:
    return ir.IntegerType.get_signless(64)


def _mean(b: Any, x: Any, like: Tensor) -> Any:
    """The mean over the last axis, repeated along it."""
    last = (like.rank - 1,)
    return b.expand(b.mean(x, last), like, last)
