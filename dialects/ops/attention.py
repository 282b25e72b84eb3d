"""Scaled dot product attention: kept whole, for the sake of its derivative.

The derivative needs the probabilities, one number for each pair of positions. It makes
them again from the logarithm of the sum of the scores' exponentials, one number for
each row, as in Dao, Fu, Ermon, Rudra and Ré, "FlashAttention", NeurIPS 2022; the op of
`attention_gradient` is that.
"""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from aotc.core import dtypes as dt
from aotc.dialects.attributes import Bool, Float
from aotc.dialects.builder import Builder
from aotc.dialects.graph import LOW, GraphOp, Operand, Pure, Result, Tangent
from aotc.dialects.lowering.conversion import accumulator
from aotc.dialects.ops.attention_sums import (
    ScoreCotangents,
    grouped_products,
    heads_per_key,
    hides_by_choice,
    keeps_digits,
    normalized_last,
    products_of,
    softmax_of,
    sum_of,
    swap_middle,
    weighted_sum,
    weights_of,
    wide_bias,
)
from aotc.dialects.ops.contraction import cast, dot_axes
from aotc.dialects.reference.products import sum_of_products
from aotc.dialects.rules.batching import add_leading_axis
from aotc.dialects.rules.checks import require_dtype
from aotc.dialects.rules.padding import BucketPadding
from aotc.dialects.rules.samples import OpSample, f32
from aotc.dialects.types import Size, Tensor, element_count
from aotc.errors import InputError
from aotc.mlir import Value


class Attention(GraphOp, name="attention", traits=[Pure]):
    """y = softmax(query key^T scale + bias) value, for each batch and head.

    query is batch, length, heads, depth; key and value are batch, positions, key heads,
    depth, and each key head serves heads / key heads heads. bias is batch, heads,
    length, positions, any of them 1, or a scalar for none. `causal` hides the positions
    behind a row's own. A row that sees no position gives zeros where `safe`, else NaN,
    as a softmax does. `logsum`, ln(sum(exp(the scores))) of each batch, head and row,
    is for the derivative.
    """

    is_costly = True
    in_memory = True
    is_approximated = True
    why = "its scores need not be kept for the derivative; kept whole until lowering"
    precision = LOW

    query: Operand[Any]
    key: Operand[Any]
    value: Operand[Any]
    bias: Operand[Any]
    scale: Float
    causal: Bool
    safe: Bool
    y: Result[Any]
    logsum: Result[Any]

    @staticmethod
    def infer(
        query: Tensor,
        key: Tensor,
        value: Tensor,
        bias: Tensor,
        *,
        scale: float,
        causal: bool,
        safe: bool,
    ) -> tuple[Tensor, Tensor]:
        """Return the types of the result and of logsum, the softmax's log-sum-exp."""
        require_dtype(query, dt.FLOATS)
        for other in (key, value, bias):
            require_dtype(other, (query.dtype,))
        _require_heads(query, key, value)
        batch, length, heads, _ = query.shape
        scores = (batch, heads, length, key.shape[1])
        fits = [n in (1, m) for n, m in zip(bias.shape, scores, strict=False)]
        if bias.rank and (bias.rank != 4 or not all(fits)):
            raise InputError(
                "shape-mismatch",
                f"expected a bias of {query.with_shape(scores)}, some sizes perhaps 1; "
                f"got {bias}",
            )
        y = query.with_shape((batch, length, heads, value.shape[3]))
        return y, Tensor((batch, heads, length), accumulator(query.dtype))

    @staticmethod
    def ref(
        query: np.ndarray,
        key: np.ndarray,
        value: np.ndarray,
        bias: np.ndarray,
        *,
        scale: float,
        causal: bool,
        safe: bool,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return y and logsum by the formula in NumPy, with every key head repeated."""
        wide = dt.to_numpy(accumulator(dt.canonical_dtype(query.dtype)))
        groups = query.shape[2] // max(key.shape[2], 1)
        query, key, value = (x.astype(wide) for x in (query, key, value))
        key, value = (np.repeat(x, groups, 2) for x in (key, value))
        b, heads, rows, columns, inner = range(5)
        on_query, on_key = (b, rows, heads, inner), (b, columns, heads, inner)
        on_scores = b, heads, rows, columns
        scores = sum_of_products(query, on_query, key, on_key, on_scores)
        scores = scores * wide.type(scale)
        if bias.ndim:
            scores = scores + bias.astype(wide)
        if causal:
            scores = np.where(np.tri(*scores.shape[2:]) == 1, scores, -np.inf)
        highest = scores.max(-1, keepdims=True, initial=-np.inf)
        highest = np.where(highest == -np.inf, 0, highest)
        e = np.exp(scores - highest)
        total = e.sum(-1, keepdims=True)
        p = e / (np.where(total == 0, 1, total) if safe else total)
        y = sum_of_products(p, on_scores, value, on_key, on_query)
        return y, (highest + np.log(total))[..., 0]

    @classmethod
    def jvp(
        cls,
        b: Builder,
        op: Self,
        dquery: Tangent,
        dkey: Tangent,
        dvalue: Tangent,
        dbias: Tangent,
    ) -> tuple[Tangent, Tangent]:
        """Return tangents of y and logsum, through those of scores, dS, and of P.

        dP = P (dS - sum(P dS)), and that of y is dP value + P dvalue.
        """
        p = weights_of(b, op, op.safe)
        y_terms, s_terms = [], []
        if dquery is not None:
            s_terms.append(b.scale(products_of(b, op, dquery, op.key), op.scale))
        if dkey is not None:
            s_terms.append(b.scale(products_of(b, op, op.query, dkey), op.scale))
        if dbias is not None and Tensor.of(op.bias).rank:
            s_terms.append(wide_bias(b, op, dbias))
        dlogsum = None
        if s_terms:
            weighted = b.multiply(p, sum_of(b, s_terms))
            dlogsum = b.reduce_sum(weighted, axes=(3,))
            mean = b.multiply(p, b.expand(dlogsum, Tensor.of(p), (3,)))
            y_terms.append(weighted_sum(b, op, b.subtract(weighted, mean), op.value))
        if dvalue is not None:
            y_terms.append(weighted_sum(b, op, p, dvalue))
        return (sum_of(b, y_terms) if y_terms else None), dlogsum

    @classmethod
    def vjp(cls, b: Builder, op: Self, dy: Value, dlogsum: Value) -> list[Tangent]:
        """Return cotangents by `attention_gradient`, given dlogsum - sum(dy y) per row.

        Where `logsum` may have lost its digits, the formula is written with a softmax.
        """
        wide = Tensor.of(op.logsum).dtype
        products = b.multiply(*(cast(b, part, wide) for part in (dy, op.y)))
        own = b.transpose(b.reduce_sum(products, axes=(3,)), permutation=(0, 2, 1))
        shift = b.subtract(dlogsum, own)
        if op.safe or not hides_by_choice(op.bias):
            found = _gradient(b, op, dy, shift, op.safe)
        else:
            found = _gradient_of_chosen(b, op, dy, shift)
        has_bias = Tensor.of(op.bias).rank > 0
        operands = [*op.operands][: 3 + has_bias]
        cotangents: list[Tangent] = [
            cast(b, x, Tensor.of(like).dtype)
            for x, like in zip(found, operands, strict=False)
        ]
        return cotangents if has_bias else [*cotangents, None]

    @staticmethod
    def batch(
        b: Builder,
        op: "Attention",
        operands: Sequence[Value],
        batched: Sequence[bool],
        size: Size,
    ) -> list[Value]:
        """Emit the op with the new axis merged into the batch."""
        parts = [
            merge_batches(b, x if has else add_leading_axis(b, x, size))
            for x, has in zip(operands[:3], batched[:3], strict=True)
        ]
        bias = _merged_bias(b, op, operands[3], batched[3], size)
        results = op.rebuild(*parts, bias)
        return [
            b.reshape(y, shape=(size, *Tensor.of(old).shape))
            for y, old in zip(results, op.results, strict=True)
        ]

    @staticmethod
    def pad(p: BucketPadding, op: "Attention", operands: Sequence[Value]) -> Any:
        """Emit the padded op; -infinity in the bias hides the padding's positions."""
        query, key, value, bias = operands
        exact = [Tensor.of(x) for x in op.operands]
        if any(p.axes(kind, (2, 3)) for kind in exact[:3]):
            return None
        if p.axes(exact[1], (1,)):
            key, value = (
                p.hide(x, kind, (1,), 0)
                for x, kind in zip((key, value), exact[1:3], strict=True)
            )
            bias = hide_positions(p, bias, exact[3], exact[1].shape[1])
        return p.build(op, [query, key, value, bias])

    @staticmethod
    def decompose(b: Builder, op: "Attention") -> list[Value]:
        """Emit two products with a softmax between, normalized after the second."""
        return normalized_last(b, op, op.value)

    @staticmethod
    def cascade(b: Builder, op: "Attention") -> list[Value]:
        """Emit the decomposition without rounding exponentials to a narrower dtype."""
        return normalized_last(b, op, cast(b, op.value, Tensor.of(op.logsum).dtype))

    @staticmethod
    def composition(b: Builder, op: "Attention") -> list[Value]:
        """Emit two products with a softmax between, each with a kernel of its own.

        Each of them has as many programs as its results, where one kernel for all of it
        has one for each row. Nothing may read `logsum`, which is not computed.
        """
        assert not op.causal
        scores = b.scale(grouped_products(b, op, op.query, op.key), op.scale)
        like = Tensor.of(scores)
        if Tensor.of(op.bias).rank:
            bias = wide_bias(b, op, op.bias)
            if Tensor.of(bias).shape != like.shape:
                bias = b.reshape(bias, shape=like.shape)
            scores = b.add(scores, bias)
        p = softmax_of(b, scores, op.safe)
        value = Tensor.of(op.value)
        flat = b.dot_general(
            cast(b, p, value.dtype),
            op.value,
            **dot_axes(contract=((3,), (1,)), batch=((0, 1), (0, 2))),
        )
        batch, length, heads, width = Tensor.of(op.y).shape
        y = b.reshape(flat, shape=(batch, heads, length, width))
        return [swap_middle(b, y), op.logsum]

    @classmethod
    def flops(cls, op: Self) -> Size:
        """Return the number of operations of the two products."""
        _, positions, _, depth = Tensor.of(op.key).shape
        scores = element_count(Tensor.of(op.query).shape[:3]) * positions
        return 2 * scores * (depth + Tensor.of(op.value).shape[-1])

    samples = [
        OpSample(
            (f32(2, 3, 2, 4), f32(2, 5, 2, 4), f32(2, 5, 2, 3), f32()),
            {"scale": 0.5, "causal": False, "safe": True},
        ),
        OpSample(
            (f32(2, 4, 4, 3), f32(2, 4, 2, 3), f32(2, 4, 2, 3), f32(1, 4, 4, 4)),
            {"scale": 0.7, "causal": True, "safe": True},
        ),
        OpSample(
            (
                f32(2, "l", 2, 3),
                f32(2, "s", 2, 3),
                f32(2, "s", 2, 3),
                f32(2, 1, 1, "s"),
            ),
            {"scale": 1.0, "causal": False, "safe": True},
        ),
        OpSample(
            (
                f32(1, 2, 1, 3),
                f32(1, 2, 1, 3),
                f32(1, 2, 1, 3),
                np.array([[[[-np.inf, -np.inf], [0.5, -np.inf]]]], "f"),
            ),
            {"scale": 1.0, "causal": False, "safe": True},
            smooth=False,
        ),
        OpSample(
            (
                f32(1, 3, 1, 3),
                f32(1, 2, 1, 3),
                f32(1, 2, 1, 3),
                np.array([[[[-np.inf, -np.inf], [0.5, -np.inf], [0.1, 0.2]]]], "f"),
            ),
            {"scale": 1.0, "causal": False, "safe": False},
            smooth=False,
        ),
    ]


def _gradient(
    b: Builder, op: Attention, dy: Value, shift: Value, safe: bool
) -> list[Value]:
    """Emit the cotangents of query, key, value and bias.

    Args:
        b: writes them.
        op: the attention.
        dy: the cotangent of its result.
        shift: of each row, see `ScoreCotangents`.
        safe: whether a row without positions has zeros for probabilities, not NaN.
    """
    if keeps_digits(op.bias):
        attributes = {**type(op).attributes_of(op), "safe": safe}
        operands = op.query, op.key, op.value, op.bias, dy, op.logsum, shift
        return b.attention_gradient(*operands, **attributes)
    parts = ScoreCotangents.of(b, op, weights_of(b, op, safe), dy, shift)
    return parts.of_operands(b, op, op.query, op.key, dy)


def _gradient_of_chosen(
    b: Builder, op: Attention, dy: Value, shift: Value
) -> list[Value]:
    """Emit the cotangents where the bias is a mask, so that rows may see no position.

    The probabilities of such a row are NaN, and so is what they make of the values'
    cotangents; but a score that was not chosen has the cotangent 0.
    """
    hidden = b.compare(op.logsum, b.full_like(op.logsum, -np.inf), direction="eq")
    rows = b.expand(b.transpose(hidden, permutation=(0, 2, 1)), Tensor.of(dy), (3,))
    dy = b.select(rows, b.full_like(dy, 0.0), dy)
    shift = b.select(hidden, b.full_like(shift, 0.0), shift)
    dquery, dkey, dvalue, dbias = _gradient(b, op, dy, shift, True)
    lost = b.select(hidden, b.full_like(shift, np.nan), b.full_like(shift, 0.0))
    batch, heads, length = Tensor.of(lost).shape
    shared = Tensor.of(op.value).shape[2]
    grouped = (batch, shared, heads_per_key(heads, shared) * length)
    lost = b.reduce_sum(b.reshape(lost, shape=grouped), axes=(2,))
    lost = b.expand(cast(b, lost, Tensor.of(dvalue).dtype), Tensor.of(dvalue), (1, 3))
    return [dquery, dkey, b.add(dvalue, lost), dbias]


def _require_heads(query: Tensor, key: Tensor, value: Tensor) -> None:
    """Raise InputError for query, key and value whose shapes do not fit."""
    for x in (query, key, value):
        if x.rank != 4:
            raise InputError(
                "shape-mismatch",
                f"expected operands of batch, length, heads, depth; got {x}",
            )
    expected = (query.shape[0], key.shape[1], key.shape[2])
    depths = query.shape[3] == key.shape[3]
    if (
        key.shape[:3] != expected
        or value.shape[:3] != expected
        or not depths
        or not may_share(query.shape[2], key.shape[2])
    ):
        raise InputError(
            "shape-mismatch",
            "expected key and value of one batch size, length and number of heads, the "
            "query's batch size and depth, and heads that divide the query's; got "
            f"query {query}, key {key}, value {value}",
        )


def may_share(heads: Size, shared: Size) -> bool:
    """Return whether `heads` query heads can share `shared` key heads evenly."""
    if isinstance(heads, int) and isinstance(shared, int):
        return heads == shared or (shared > 0 and heads % shared == 0)
    return heads == shared


def merge_batches(b: Builder, x: Value) -> Value:
    """Emit a reshape that merges the first two axes."""
    first, second, *rest = Tensor.of(x).shape
    return b.reshape(x, shape=(first * second, *rest))


def _merged_bias(
    b: Builder, op: Attention, bias: Value, batched: bool, size: Size
) -> Value:
    """Emit the bias for merged batches; one that serves all batches stays as it is."""
    own = Tensor.of(op.bias).shape
    if not own:  # none, whatever it is
        return b.full(Tensor.of(op.bias), 0.0)
    if not batched and own[0] == 1:
        return bias
    bias = bias if batched else add_leading_axis(b, bias, size)
    batches = Tensor.of(op.query).shape[0]
    shape = (size, batches, *own[1:])
    return merge_batches(b, b.broadcast(bias, shape=shape, axes=tuple(range(5))))


def hide_positions(
    p: BucketPadding, bias: Value, exact: Tensor, positions: Size
) -> Value:
    """Emit a bias extended by -infinity after `positions` positions.

    Args:
        p: the padding.
        bias: in the sizes of the bucket.
        exact: its type in the call.
        positions: of the call.
    """
    each = exact.shape[:3] if exact.rank else (1, 1, 1)
    wide = exact.with_shape((*each, positions))
    shape = p.shape(wide.shape)
    if exact.rank:
        bias = p.b.broadcast(bias, shape=shape, axes=(0, 1, 2, 3))
    else:  # which stands for none, whatever it is
        bias = p.b.full(exact.with_shape(shape), 0.0)
    return p.hide(bias, wide, (3,), -np.inf)
