"""Products and sums that attention, and its derivatives, are made of."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from aotc.dialects.builder import Builder
from aotc.dialects.functions.walking import defining_op
from aotc.dialects.lowering.conversion import accumulator
from aotc.dialects.ops.binary import Add
from aotc.dialects.ops.contraction import cast, dot_axes
from aotc.dialects.ops.creation import Constant
from aotc.dialects.ops.selection import Cast, Select
from aotc.dialects.ops.shape import Broadcast, Reshape, Transpose
from aotc.dialects.ops.trigonometric import Tanh
from aotc.dialects.ops.unary import Logistic
from aotc.dialects.patterns.values import splat_of
from aotc.dialects.types import Size, Tensor
from aotc.mlir import Value

if TYPE_CHECKING:
    from aotc.dialects.ops.attention import Attention
    from aotc.dialects.ops.attention_gradient import AttentionGradient

    Attends: TypeAlias = Attention | AttentionGradient

_MODERATE = 100.0  # of a bias: `logsum` is off by some 4e-6 then, as scores may be


def normalized_last(b: Builder, op: "Attention", value: Value) -> list[Value]:
    """Emit y and logsum, with the division by the softmax's sum after the product."""
    scores = _scores(b, op)
    like = Tensor.of(scores)
    highest = _finite(b, b.highest(scores, (3,)))
    e = b.exp(b.subtract(scores, b.expand(highest, like, (3,))))
    total = b.reduce_sum(e, axes=(3,))
    logsum = b.add(highest, b.log(total))
    is_safe = op.safe or like.shape[3] == 0  # a sum over nothing is 0
    divisor = _divisor(b, total) if is_safe else total
    divisor = b.transpose(divisor, permutation=(0, 2, 1))
    wide = Tensor.of(op.y).with_dtype(like.dtype)
    y = weighted_sum(b, op, e, value, like.dtype)
    y = b.divide(y, b.expand(divisor, wide, (3,)))
    return [cast(b, y, Tensor.of(op.y).dtype), logsum]


# Scores, probabilities and their tangents are batch, heads, length, positions. For a
# product they are batch, key heads, heads of each * length, positions: one matrix
# product for each batch and key head.


def _group_heads(b: Builder, op: "Attends", x: Value) -> Value:
    """Emit `x` (like query) as [batch, key heads, heads of each * length, depth]."""
    batch, length, heads, depth = Tensor.of(x).shape
    shared = Tensor.of(op.key).shape[2]
    shape = (batch, shared, heads_per_key(heads, shared) * length, depth)
    return b.reshape(swap_middle(b, x), shape=shape)


def swap_middle(b: Builder, x: Value) -> Value:
    """Emit a value of rank 4 with its second and third axis swapped."""
    first, second, third, last = Tensor.of(x).shape
    if 1 in (second, third):  # no element moves
        return b.reshape(x, shape=(first, third, second, last))
    return b.transpose(x, permutation=(0, 2, 1, 3))


def heads_per_key(heads: Size, shared: Size) -> int:
    """Return the number of query heads that share a key head."""
    if isinstance(heads, int) and isinstance(shared, int):
        return heads // max(shared, 1)
    return 1


def products_of(b: Builder, op: "Attends", x: Value, y: Value) -> Value:
    """Emit products of rows of `x` (like query) and of `y` (like key), like scores."""
    shape = (*Tensor.of(op.logsum).shape, Tensor.of(y).shape[1])
    return b.reshape(grouped_products(b, op, x, y), shape=shape)


def grouped_products(b: Builder, op: "Attends", x: Value, y: Value) -> Value:
    """Emit x times y as [batch, key heads, heads of each * length, positions]."""
    return b.dot_general(
        _group_heads(b, op, x),
        y,
        **dot_axes(contract=((3,), (3,)), batch=((0, 1), (0, 2))),
        dtype=_dtype_of_sums(op),
    )


def weighted_sum(
    b: Builder, op: "Attends", p: Value, y: Value, dtype: str = ""
) -> Value:
    """Emit `y` (like key) summed over positions with weights `p` (like scores)."""
    batch, heads, length, positions = Tensor.of(p).shape
    shared, depth = Tensor.of(y).shape[2:]
    rows = (batch, shared, heads_per_key(heads, shared) * length, positions)
    flat = b.dot_general(
        b.reshape(cast(b, p, Tensor.of(y).dtype), shape=rows),
        y,
        **dot_axes(contract=((3,), (1,)), batch=((0, 1), (0, 2))),
        dtype=dtype,
    )
    return swap_middle(b, b.reshape(flat, shape=(batch, heads, length, depth)))


def sum_over_rows(
    b: Builder, op: "Attends", p: Value, x: Value, dtype: str = ""
) -> Value:
    """Emit `x` (like query) summed over a group's rows and heads with weights `p`."""
    batch, heads, length, positions = Tensor.of(p).shape
    shared = Tensor.of(op.key).shape[2]
    rows = (batch, shared, heads_per_key(heads, shared) * length, positions)
    flat = b.dot_general(
        b.reshape(cast(b, p, Tensor.of(x).dtype), shape=rows),
        _group_heads(b, op, x),
        **dot_axes(contract=((2,), (2,)), batch=((0, 1), (0, 1))),
        dtype=dtype,
    )
    return b.transpose(flat, permutation=(0, 2, 1, 3))


def _scores(b: Builder, op: "Attends") -> Value:
    """Emit scores: scaled products plus bias, -infinity at hidden positions."""
    scores = b.scale(products_of(b, op, op.query, op.key), op.scale)
    if Tensor.of(op.bias).rank:
        scores = b.add(scores, wide_bias(b, op, op.bias))
    if not op.causal:
        return scores
    like = Tensor.of(scores)
    row, column = (b.iota(shape=like.shape, axis=axis, dtype="i32") for axis in (2, 3))
    seen = b.compare(row, column, direction="ge")
    return b.select(seen, scores, b.full_like(scores, -np.inf))


def wide_bias(b: Builder, op: "Attends", bias: Value) -> Value:
    """Emit the bias broadcast to the shape of the scores, in their dtype."""
    shape = (*Tensor.of(op.logsum).shape, Tensor.of(op.key).shape[1])
    wide = cast(b, bias, _dtype_of_sums(op))
    return b.broadcast(wide, shape=shape, axes=(0, 1, 2, 3))


def probabilities(b: Builder, op: "Attends", safe: bool) -> Value:
    """Emit e**(score - logsum), recomputed; if safe, 0 in a row without positions."""
    scores = _scores(b, op)
    logsum = _finite(b, op.logsum) if safe else op.logsum
    return b.exp(b.subtract(scores, rows_like(b, logsum, scores)))


def weights_of(b: Builder, op: "Attention", safe: bool) -> Value:
    """Emit the probabilities for a derivative, recomputed from `logsum` if it is exact.

    Of a row that a bias of -1e9 hides, `logsum` is -1e9 however many positions there
    are, as f32 has no digits for the rest; a softmax divides by their number.

    Args:
        b: writes them.
        op: the attention.
        safe: whether they are zeros in a row without positions, as in `probabilities`.
    """
    if keeps_digits(op.bias):
        return probabilities(b, op, safe)
    return softmax_of(b, _scores(b, op), safe)


def softmax_of(b: Builder, scores: Value, safe: bool) -> Value:
    """Emit a softmax of scores; if safe, zeros in a row without positions."""
    p = b.softmax(scores, axis=3)
    return _with_zeros(b, p, scores) if safe else p


def hides_by_choice(bias: Value) -> bool:
    """Return whether a bias hides positions by a select with -infinity, as masks do.

    No cotangent reaches what was not chosen, where one of a sum with -infinity is NaN
    in a row that sees no position.
    """
    op = defining_op(bias)
    if isinstance(op, Select):
        return any(splat_of(each) == -np.inf for each in (op.on_true, op.on_false))
    followed = Broadcast, Reshape, Transpose, Cast, Add
    return isinstance(op, followed) and any(map(hides_by_choice, op.operands))


def keeps_digits(bias: Value) -> bool:
    """Return whether `logsum` keeps its digits: no bias, or small numbers and -inf."""
    return not Tensor.of(bias).rank or is_moderate(bias)


def is_moderate(value: Value) -> bool:
    """Return whether all elements are known to be small numbers or -infinity."""
    op = defining_op(value)
    if isinstance(op, Constant):
        numbers = np.asarray(op.value).astype(np.float64)
        return bool(np.all((np.abs(numbers) <= _MODERATE) | (numbers == -np.inf)))
    if isinstance(op, Select):
        return is_moderate(op.on_true) and is_moderate(op.on_false)
    if isinstance(op, Tanh | Logistic):
        return True
    moves = Broadcast, Reshape, Transpose, Cast
    return isinstance(op, moves) and is_moderate(op.operands[0])


@dataclass(frozen=True)
class ScoreCotangents:
    """Probabilities and cotangents of attention scores, as values of the graph.

    Args:
        p: the probabilities.
        sums: dy value^T + shift.
        ds: their product, the cotangent of the scores.
    """

    p: Value
    sums: Value
    ds: Value

    @classmethod
    def of(
        cls, b: Builder, op: "Attends", p: Value, dy: Value, shift: Value
    ) -> "ScoreCotangents":
        """Emit the cotangents of probabilities and scores, and return them with `p`.

        Args:
            b: writes them.
            op: whose value is read.
            p: the probabilities.
            dy: the cotangent of y.
            shift: of each row the cotangent of logsum, less sum(dy y).
        """
        sums = b.add(products_of(b, op, dy, op.value), rows_like(b, shift, p))
        return cls(p, sums, b.multiply(p, sums))

    def of_operands(
        self, b: Builder, op: "Attends", query: Value, key: Value, dy: Value
    ) -> list[Value]:
        """Emit the cotangents of query, key, value and bias, in the dtype of sums.

        Args:
            b: writes them.
            op: whose operands they are of.
            query: as products are to read it.
            key: likewise.
            dy: likewise.
        """
        wide, scaled = _dtype_of_sums(op), b.scale(self.ds, op.scale)
        return [
            weighted_sum(b, op, scaled, key, wide),
            sum_over_rows(b, op, scaled, query, wide),
            sum_over_rows(b, op, self.p, dy, wide),
            sum_to_bias(b, op, self.ds),
        ]


def sum_to_bias(b: Builder, op: "Attends", ds: Value) -> Value:
    """Emit the scores' cotangent summed to that of the bias; 0 if there is none."""
    kind = Tensor.of(op.bias).with_dtype(_dtype_of_sums(op))
    return b.sum_to(ds, kind.shape, (0, 1, 2, 3)) if kind.rank else b.full(kind, 0.0)


def rows_like(b: Builder, x: Value, scores: Value) -> Value:
    """Emit a number per row broadcast to all positions of scores, in their dtype."""
    like = Tensor.of(scores)
    return b.expand(cast(b, x, like.dtype), like, (3,))


def _dtype_of_sums(op: "Attends") -> str:
    """Return the dtype in which products of the query are accumulated."""
    return accumulator(Tensor.of(op.query).dtype)


def _divisor(b: Builder, total: Value) -> Value:
    """Emit a sum of exponentials; 1 in the place of 0."""
    zero, one = b.full_like(total, 0.0), b.full_like(total, 1.0)
    return b.select(b.compare(total, zero, direction="eq"), one, total)


def _finite(b: Builder, x: Value) -> Value:
    """Emit `x` with 0 for -infinity, so that -infinity less it is -infinity."""
    none = b.compare(x, b.full_like(x, -np.inf), direction="eq")
    return b.select(none, b.full_like(x, 0.0), x)


def sum_of(b: Builder, terms: Sequence[Value]) -> Value:
    """Emit the sum of terms, added in their order."""
    total = terms[0]
    for term in terms[1:]:
        total = b.add(total, term)
    return total


def _with_zeros(b: Builder, p: Value, scores: Value) -> Value:
    """Emit a softmax with zeros for NaN in rows that are all -infinity.

    Where it is no NaN, there is no score of infinity. Each op reads what the softmax
    gives, so that all are computed where that is.
    """
    low, high = (b.full_like(scores, n) for n in (-np.inf, np.inf))
    is_nan = b.compare(p, p, direction="ne")
    hidden = b.compare(b.select(is_nan, low, high), scores, direction="eq")
    return b.select(hidden, b.full_like(p, 0.0), p)
