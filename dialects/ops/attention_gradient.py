"""The gradient of attention: one op, so that one kernel can compute it by blocks.

What the backward pass needs of each row is two numbers, the logarithm of its sum of
exponentials and the sum of its result times its cotangent, so no tensor of queries by
keys need lie in memory: Dao, "FlashAttention-2", 2023 (arXiv:2307.08691), section 3.1.
"""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from aotc.dialects.attributes import Bool, Float
from aotc.dialects.builder import Builder
from aotc.dialects.graph import WIDE, GraphOp, Operand, Pure, Result, Tangent
from aotc.dialects.ops.attention import Attention, hide_positions, merge_batches
from aotc.dialects.ops.attention_sums import (
    ScoreCotangents,
    probabilities,
    products_of,
    rows_like,
    sum_of,
    sum_over_rows,
    sum_to_bias,
    weighted_sum,
    wide_bias,
)
from aotc.dialects.ops.contraction import cast
from aotc.dialects.reference.products import sum_of_products
from aotc.dialects.rules.batching import add_leading_axes
from aotc.dialects.rules.checks import require_dtype, require_equal
from aotc.dialects.rules.padding import BucketPadding
from aotc.dialects.rules.samples import OpSample, f32
from aotc.dialects.types import Size, Tensor
from aotc.mlir import Value


class AttentionGradient(GraphOp, name="attention_gradient", traits=[Pure]):
    """y = the cotangents of attention's query, key, value and bias, given dy.

    P = exp(scores - logsum) and dS = P (dy value^T + shift) are the probabilities and
    the scores' cotangent, for each batch and head; the cotangents are dS key scale,
    dS^T query scale, P^T dy, and dS summed to the shape of the bias (0 where that is a
    scalar). The first five operands are like attention's and its result, `logsum` is
    its second result, and `shift` is the cotangent of that less sum(dy y), of each
    batch, head and row. Results are of the dtype in which sums are made; `logsum` and
    `shift` are, too, unless they were rounded.
    """

    is_for_kernels = True
    is_costly = True
    in_memory = True
    is_approximated = True
    why = "one kernel of blocks, for which nothing of queries by keys is stored"
    precision = WIDE  # of logsum every digit counts

    query: Operand[Any]
    key: Operand[Any]
    value: Operand[Any]
    bias: Operand[Any]
    dy: Operand[Any]
    logsum: Operand[Any]
    shift: Operand[Any]
    scale: Float
    causal: Bool
    safe: Bool
    dquery: Result[Any]
    dkey: Result[Any]
    dvalue: Result[Any]
    dbias: Result[Any]

    @staticmethod
    def infer(
        query: Tensor,
        key: Tensor,
        value: Tensor,
        bias: Tensor,
        dy: Tensor,
        logsum: Tensor,
        shift: Tensor,
        *,
        scale: float,
        causal: bool,
        safe: bool,
    ) -> tuple[Tensor, ...]:
        """Return the types of the operands that have cotangents, in the sums' dtype."""
        y, sums = Attention.infer(
            query, key, value, bias, scale=scale, causal=causal, safe=safe
        )
        for given, wanted in ((dy, y), (logsum, sums), (shift, sums)):
            require_dtype(given, (wanted.dtype, query.dtype))
            require_equal(wanted.with_dtype(given.dtype), given)
        return tuple(x.with_dtype(sums.dtype) for x in (query, key, value, bias))

    @staticmethod
    def ref(
        query: np.ndarray,
        key: np.ndarray,
        value: np.ndarray,
        bias: np.ndarray,
        dy: np.ndarray,
        logsum: np.ndarray,
        shift: np.ndarray,
        *,
        scale: float,
        causal: bool,
        safe: bool,
    ) -> tuple[np.ndarray, ...]:
        """Return the cotangents by the formula in f64, in NumPy, key heads repeated."""
        wide = np.dtype(np.float64)
        shared = max(key.shape[2], 1)
        groups = query.shape[2] // shared
        given = query, key, value, dy, logsum, shift
        query, key, value, dy, logsum, shift = (x.astype(wide) for x in given)
        key, value = (np.repeat(x, groups, 2) for x in (key, value))
        b, heads, rows, columns, inner = range(5)
        on_query, on_key = (b, rows, heads, inner), (b, columns, heads, inner)
        on_scores = b, heads, rows, columns
        scores = sum_of_products(query, on_query, key, on_key, on_scores)
        scores = scores * scale
        if bias.ndim:
            scores = scores + bias.astype(wide)
        if causal:
            scores = np.where(np.tri(*scores.shape[2:]) == 1, scores, -np.inf)
        if safe:
            logsum = np.where(logsum == -np.inf, 0, logsum)
        p = np.exp(scores - logsum[..., None])
        products = sum_of_products(dy, on_query, value, on_key, on_scores)
        dscores = p * (products + shift[..., None])
        scaled = dscores * scale
        dbias = np.zeros((), wide)
        if bias.ndim:
            axes = tuple(n for n, size in enumerate(bias.shape) if size == 1)
            dbias = dscores.sum(axes, keepdims=True)
        dkey = sum_of_products(scaled, on_scores, query, on_query, on_key)
        dvalue = sum_of_products(p, on_scores, dy, on_query, on_key)
        return (
            sum_of_products(scaled, on_scores, key, on_key, on_query),
            *(_sum_groups(x, shared) for x in (dkey, dvalue)),
            dbias,
        )

    @classmethod
    def jvp(
        cls,
        b: Builder,
        op: Self,
        tquery: Tangent,
        tkey: Tangent,
        tvalue: Tangent,
        tbias: Tangent,
        tdy: Tangent,
        tlogsum: Tangent,
        tshift: Tangent,
    ) -> tuple[Tangent, ...]:
        """Return tangents by the product rule: through P, dy value^T + shift, dS."""
        parts = _score_cotangents(b, op)
        of_scores = (
            [] if tlogsum is None else [rows_like(b, b.negate(tlogsum), parts.p)]
        )
        if tquery is not None:
            of_scores.append(b.scale(products_of(b, op, tquery, op.key), op.scale))
        if tkey is not None:
            of_scores.append(b.scale(products_of(b, op, op.query, tkey), op.scale))
        if tbias is not None and Tensor.of(op.bias).rank:
            of_scores.append(wide_bias(b, op, tbias))
        of_sums = [] if tshift is None else [rows_like(b, tshift, parts.p)]
        if tdy is not None:
            of_sums.append(products_of(b, op, tdy, op.value))
        if tvalue is not None:
            of_sums.append(products_of(b, op, op.dy, tvalue))
        zero = b.full_like(parts.p, 0.0)
        tp = b.multiply(parts.p, sum_of(b, of_scores)) if of_scores else zero
        tds = b.multiply(tp, parts.sums)
        if of_sums:
            tds = b.add(tds, b.multiply(parts.p, sum_of(b, of_sums)))
        scaled, tscaled = (b.scale(x, op.scale) for x in (parts.ds, tds))
        wide = Tensor.of(op.dquery).dtype
        to_query = [weighted_sum(b, op, tscaled, op.key, wide)]
        to_key = [sum_over_rows(b, op, tscaled, op.query, wide)]
        to_value = [sum_over_rows(b, op, tp, op.dy, wide)]
        if tkey is not None:
            to_query.append(weighted_sum(b, op, scaled, tkey, wide))
        if tquery is not None:
            to_key.append(sum_over_rows(b, op, scaled, tquery, wide))
        if tdy is not None:
            to_value.append(sum_over_rows(b, op, parts.p, tdy, wide))
        found = (sum_of(b, each) for each in (to_query, to_key, to_value))
        return *found, sum_to_bias(b, op, tds)

    @classmethod
    def vjp(
        cls,
        b: Builder,
        op: Self,
        cquery: Value,
        ckey: Value,
        cvalue: Value,
        cbias: Value,
    ) -> list[Tangent]:
        """Return cotangents by the transpose of `jvp`, through its parts in reverse."""
        parts, wide = _score_cotangents(b, op), Tensor.of(op.dquery).dtype
        cquery, ckey, cvalue = (
            cast(b, x, Tensor.of(op.query).dtype) for x in (cquery, ckey, cvalue)
        )
        of_ds = [products_of(b, op, cquery, op.key), products_of(b, op, op.query, ckey)]
        cds = b.scale(sum_of(b, of_ds), op.scale)
        if Tensor.of(op.bias).rank:
            cds = b.add(cds, wide_bias(b, op, cbias))
        csums = b.multiply(cds, parts.p)
        cp = b.add(b.multiply(cds, parts.sums), products_of(b, op, op.dy, cvalue))
        cscores = b.multiply(cp, parts.p)
        scaled, ds = (b.scale(x, op.scale) for x in (cscores, parts.ds))
        on_query = [
            weighted_sum(b, op, scaled, op.key, wide),
            weighted_sum(b, op, ds, ckey, wide),
        ]
        on_key = [
            sum_over_rows(b, op, scaled, op.query, wide),
            sum_over_rows(b, op, ds, cquery, wide),
        ]
        on_dy = [
            weighted_sum(b, op, csums, op.value, wide),
            weighted_sum(b, op, parts.p, cvalue, wide),
        ]
        found = [
            sum_of(b, on_query),
            sum_of(b, on_key),
            sum_over_rows(b, op, csums, op.dy, wide),
            sum_to_bias(b, op, cscores),
            sum_of(b, on_dy),
            b.negate(b.reduce_sum(cscores, axes=(3,))),
            b.reduce_sum(csums, axes=(3,)),
        ]
        return [
            cast(b, x, Tensor.of(like).dtype)
            for x, like in zip(found, op.operands, strict=True)
        ]

    @staticmethod
    def batch(
        b: Builder,
        op: "AttentionGradient",
        operands: Sequence[Value],
        batched: Sequence[bool],
        size: Size,
    ) -> list[Value]:
        """Emit the op with the new axis merged into the batch; each has a bias."""
        query, key, value, bias, *others = add_leading_axes(b, operands, batched, size)
        own, batches = Tensor.of(op.bias), Tensor.of(op.query).shape[0]
        if own.rank:
            shape = (size, batches, *own.shape[1:])
            wide = b.broadcast(bias, shape=shape, axes=(0, 1, 2, 3, 4))
            bias = merge_batches(b, wide)
        else:  # none, whatever it is
            bias = b.full(own, 0.0)
        query, key, value, *others = (
            merge_batches(b, x) for x in (query, key, value, *others)
        )
        *found, dbias = op.rebuild(query, key, value, bias, *others)
        results = [
            b.reshape(y, shape=(size, *Tensor.of(old).shape))
            for y, old in zip(found, op.results, strict=False)
        ]
        kind = Tensor.of(op.dbias)
        if not own.rank:
            return [*results, b.full(kind.with_shape((size,)), 0.0)]
        dbias = b.reshape(dbias, shape=(size, batches, *own.shape[1:]))
        return [*results, b.sum_to(dbias, (size, *own.shape), (0, 1, 2, 3, 4))]

    @staticmethod
    def pad(
        p: BucketPadding, op: "AttentionGradient", operands: Sequence[Value]
    ) -> Any:
        """Emit the op padded with zeros; the bias hides positions after the call's.

        Not where the bias has a cotangent, which would get that of those positions.
        """
        query, key, value, bias, dy, logsum, shift = operands
        exact = [Tensor.of(x) for x in op.operands]
        if any(p.axes(kind, (2, 3)) for kind in exact[:3]) or _is_read(op.dbias):
            return None
        if p.axes(exact[1], (1,)):
            bias = hide_positions(p, bias, exact[3], exact[1].shape[1])
        query, key, value, dy = (
            p.hide(x, exact[n], (1,), 0)
            for n, x in ((0, query), (1, key), (2, value), (4, dy))
        )
        logsum, shift = (
            p.hide(x, exact[n], (2,), 0) for n, x in ((5, logsum), (6, shift))
        )
        *found, _ = p.build(op, [query, key, value, bias, dy, logsum, shift])
        return [*found, p.b.full(p.type(Tensor.of(op.dbias)), 0.0)]

    @staticmethod
    def decompose(b: Builder, op: "AttentionGradient") -> list[Value]:
        """Emit the formula, with scores in memory; nothing is rounded in between."""
        wide = Tensor.of(op.dquery).dtype
        query, key, dy = (cast(b, x, wide) for x in (op.query, op.key, op.dy))
        return _score_cotangents(b, op).of_operands(b, op, query, key, dy)

    cascade = decompose

    @staticmethod
    def composition(b: Builder, op: "AttentionGradient") -> list[Value]:
        """Emit products of the operands' dtype, which have kernels.

        Where that is narrower, weights of sums are rounded to it.
        """
        return _score_cotangents(b, op).of_operands(b, op, op.query, op.key, op.dy)

    @classmethod
    def flops(cls, op: Self) -> Size:
        """Return the number of operations of the five products."""
        batch, length, heads, depth = Tensor.of(op.query).shape
        scores = batch * length * heads * Tensor.of(op.key).shape[1]
        return 2 * scores * (3 * depth + 2 * Tensor.of(op.value).shape[3])

    samples = [
        OpSample(
            (
                *(f32(2, 3, 2, 4), f32(2, 5, 2, 4), f32(2, 5, 2, 3), f32()),
                *(f32(2, 3, 2, 3), f32(2, 2, 3), f32(2, 2, 3)),
            ),
            {"scale": 0.5, "causal": False, "safe": True},
        ),
        OpSample(
            (
                *(f32(2, 4, 4, 3), f32(2, 4, 2, 3), f32(2, 4, 2, 3), f32(1, 4, 4, 4)),
                *(f32(2, 4, 4, 3), f32(2, 4, 4), f32(2, 4, 4)),
            ),
            {"scale": 0.7, "causal": True, "safe": True},
        ),
        OpSample(
            (
                *(f32(2, "l", 2, 3), f32(2, "s", 2, 3), f32(2, "s", 2, 3)),
                *(f32(2, 1, 1, "s"), f32(2, "l", 2, 3)),
                *(f32(2, 2, "l"), f32(2, 2, "l")),
            ),
            {"scale": 1.0, "causal": False, "safe": True},
        ),
        OpSample(
            (
                *(f32(1, 2, 1, 3), f32(1, 2, 1, 3), f32(1, 2, 1, 3)),
                np.array([[[[-np.inf, -np.inf], [0.5, -np.inf]]]], "f"),
                *(f32(1, 2, 1, 3), np.array([[[-np.inf, 0.3]]], "f"), f32(1, 1, 2)),
            ),
            {"scale": 1.0, "causal": False, "safe": True},
            smooth=False,
        ),
    ]


def _score_cotangents(b: Builder, op: AttentionGradient) -> ScoreCotangents:
    """Emit probabilities, their cotangents, and those of scores."""
    return ScoreCotangents.of(b, op, probabilities(b, op, op.safe), op.dy, op.shift)


def _sum_groups(x: np.ndarray, shared: int) -> np.ndarray:
    """Return the sums, in NumPy, of heads that share one of `shared` key heads."""
    batch, positions, heads, depth = x.shape
    groups = x.reshape(batch, positions, shared, heads // shared, depth)
    summed: np.ndarray = groups.sum(3)
    return summed


def _is_read(value: Value) -> bool:
    """Return whether a value has a use."""
    return any(True for _ in value.uses)
