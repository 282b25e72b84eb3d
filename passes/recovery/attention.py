"""Attention in parts: two products, and a softmax between them.

    scores = dot_general(query, key)           batch…, length, positions
    p = softmax(scores * scale + bias)
    y = dot_general(p, value)                  batch…, length, depth

Numbers that scale the operands or the scores, terms added to the scores, masks that
hide some of them, and reshapes between are looked through; so are the reshapes,
transposes and repeats (of key heads that serve several heads) that the operands went
through, which become as few as they can be. A constant mask that hides what is behind
each row's own position is `causal`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf, isfinite
from typing import Any

import numpy as np

from aotc.core import dtypes
from aotc.dialects.builder import Builder
from aotc.dialects.functions.walking import users_of
from aotc.dialects.movement.views import Stride, Strides, View, size_of, split
from aotc.dialects.ops.contraction import DotGeneral, free_axes
from aotc.dialects.ops.normalization import Softmax
from aotc.dialects.patterns.values import made_by
from aotc.dialects.types import Shape, Tensor, bounds, compare_sizes, element_count
from aotc.mlir import Value
from aotc.passes.recovery.heads import last_repeats, shared_views
from aotc.passes.recovery.known import KnownValues
from aotc.passes.recovery.movement import ScaledView, scaled_view_of
from aotc.passes.recovery.scores import HIDDEN, Addend, AttentionScores, scores_of


@dataclass(frozen=True)
class RecoveredAttention:
    """The value that replaces a matrix product's result, and the values that become
    unused.

    Args:
        value: of the same type.
        inside: the values that nothing reads any more.
    """

    value: Value
    inside: frozenset[Value]


def recover_attention(
    b: Builder, root: DotGeneral, known: KnownValues
) -> RecoveredAttention | None:
    """Emit an attention op for the composition that ends in `root`; None if it is
    none.
    """
    found = _find(root, known)
    if found is None or len(users_of(found.inside, found.inside)) != 1:
        return None
    value = found.build(b)
    return None if value is None else RecoveredAttention(value, found.inside)


@dataclass(frozen=True)
class _ProductSide:
    """One operand of a matrix product, its axes split into batch/heads, rows, and
    depth.
    """

    value: Value
    lead: Sequence[int]
    rows: Sequence[int]
    depth: Sequence[int]


def _find(root: DotGeneral, known: KnownValues) -> _AttentionMatch | None:
    """Match a matrix product as the last step of an attention; None if it is none."""
    left, right = _sides(root)
    p = scaled_view_of(root.lhs)
    softmax = made_by(p.source, Softmax)
    rank = Tensor.of(p.source).rank
    if softmax is None or softmax.axis != rank - 1 or rank < 2:
        return None
    own = _groups(View.identity(Tensor.of(p.source).shape))
    if own != [p.view.group(axes) for axes in (left.lead, left.rows, left.depth)]:
        return None
    scores = scores_of(softmax.x, known)
    if scores is None or not _has_one_dtype(root, scores.product):
        return None
    sides = _query_and_key(scores)
    if sides is None:
        return None
    positions = Tensor.of(p.source).shape[-1]
    inside = frozenset((*p.inside, p.source, *scores.inside))
    # A sum over no positions is 0, where a softmax of none is divided by 0.
    if bounds(positions)[0] < 1 or not isfinite(scores.scale):
        return None
    value = replace(right, rows=right.depth, depth=right.rows)
    return _AttentionMatch(root, scores, (*sides, value), inside, known)


def _sides(product: DotGeneral) -> tuple[_ProductSide, _ProductSide]:
    """Return both operands of a matrix product with their batch, free and contracted
    axes.
    """
    lhs, rhs = Tensor.of(product.lhs).rank, Tensor.of(product.rhs).rank
    left = free_axes(lhs, product.lhs_batch, product.lhs_contract)
    right = free_axes(rhs, product.rhs_batch, product.rhs_contract)
    return (
        _ProductSide(product.lhs, product.lhs_batch, left, product.lhs_contract),
        _ProductSide(product.rhs, product.rhs_batch, right, product.rhs_contract),
    )


def _groups(view: View) -> list[Strides]:
    """Return a view's strides in three groups: batch and heads, rows, positions."""
    rank = len(view.axes)
    return [view.group(axes) for axes in (range(rank - 2), [rank - 2], [rank - 1])]


def _query_and_key(scores: AttentionScores) -> tuple[_ProductSide, _ProductSide] | None:
    """Return query and key of the scores' matrix product, in that order; None if axes
    do not fit.
    """
    left, right = _sides(scores.product)
    own = View.identity(Tensor.of(scores.product.y).shape)
    lead, first = len(left.lead), len(left.lead) + len(left.rows)
    axes = range(lead), range(lead, first), range(first, len(own.axes))
    batch, one, other = (own.group(each) for each in axes)
    found = _groups(scores.view)
    if found == [batch, one, other]:
        return left, right
    return (right, left) if found == [batch, other, one] else None


def _has_one_dtype(*products: DotGeneral) -> bool:
    """Return whether all operands and results of matrix products have the same float
    dtype.
    """
    values = [x for each in products for x in (each.lhs, each.rhs, each.y)]
    first, *others = {Tensor.of(x).dtype for x in values}
    return not others and dtypes.is_float(first)


@dataclass(frozen=True)
class _AttentionMatch:
    """A matched composition: scores, softmax, and matrix product with the value.

    Args:
        root: the product that ends it.
        scores: of all queries and keys.
        sides: query, key and value.
        inside: the values that it is made of, without the result.
        known: what is known of them.
    """

    root: DotGeneral
    scores: AttentionScores
    sides: tuple[_ProductSide, _ProductSide, _ProductSide]
    inside: frozenset[Value]
    known: KnownValues

    @property
    def shape(self) -> Shape:
        """The shape of the scores."""
        return self.scores.view.shape

    def build(self, b: Builder) -> Value | None:
        """Emit the attention op and reshapes around it; None if its axes cannot be
        arranged.
        """
        moves = [scaled_view_of(x.value, self.known.numbers) for x in self.sides]
        lead = self._batch_and_heads(moves[1].view)
        found = self._operands(moves, lead) or self._operands(
            [ScaledView.identity(x.value) for x in self.sides], lead
        )
        terms = self._terms_left()
        if found is None or terms is None:
            return None
        is_causal = len(terms) < len(self.scores.terms)
        query, key, value = (each.view.write(b, each.source) for each in found)
        bias = self._bias(b, terms, lead)
        scale = self.scores.scale * found[0].factor * found[1].factor
        y, _ = b.attention(
            query, key, value, bias, scale=scale, causal=is_causal, safe=False
        )
        y = b.transpose(y, permutation=(0, 2, 1, 3))
        if found[2].factor != 1:
            y = b.scale(y, found[2].factor)
        return b.reshape(y, shape=Tensor.of(self.root.y).shape)

    # ---- operands -------------------------------------------------------------------

    def _batch_and_heads(self, key: View) -> tuple[Any, Any]:
        """Return the sizes of batch and heads, split from the key's leading axes.

        Scores of one axis for both are of several heads as far as heads lie within
        positions in the key: then it is not moved.
        """
        *lead, _, _ = self.shape
        if len(lead) != 1:
            return (element_count(tuple(lead[:-1])), lead[-1]) if lead else (1, 1)
        side = self.sides[1]
        parts, rows = key.group(side.lead), key.group(side.rows)
        outer = [part for part in parts if rows and _lies_before(part, rows[0])]
        inner = parts[len(outer) :]
        if tuple(outer) != parts[: len(outer)]:
            return lead[0], 1
        return size_of(outer), size_of(inner)

    def _operands(
        self, moves: Sequence[ScaledView], lead: tuple[Any, Any]
    ) -> list[ScaledView] | None:
        """Return query, key and value as views (batch, rows, heads, depth), or None.

        None if their axes cannot be told apart.
        """
        views = []
        for side, movement in zip(self.sides, moves, strict=True):
            view = movement.view
            parts = split(view.group(side.lead), lead)
            if parts is None:
                return None
            batch, heads = parts
            rows, depth = view.group(side.rows), view.group(side.depth)
            views.append(view.with_axes([batch, rows, heads, depth]))
        query, *others = views
        shared = shared_views(size_of(query.axes[2]), others)
        if shared is None or query.has_repeats:
            return None
        found = zip(moves, [query, *shared], strict=True)
        return [replace(movement, view=view) for movement, view in found]

    # ---- what is added --------------------------------------------------------------

    def _terms_left(self) -> list[Addend] | None:
        """Return the score terms without the causal mask; None if a mask is not
        -infinity.
        """
        terms = list(self.scores.terms)
        for term in self.scores.terms:
            if self._is_causal(term, is_alone=len(terms) == 1):
                terms.remove(term)
                break
        masks = [term for term in terms if term.hides is not None]
        return terms if all(mask.factor == -inf for mask in masks) else None

    def _is_causal(self, term: Addend, *, is_alone: bool) -> bool:
        """Return whether a term hides exactly the positions after each row's own.

        It must be -infinity, or the only term: a row that others hide as well would see
        what is hidden by a number.
        """
        length, positions = self.shape[-2:]
        if not isinstance(length, int) or length != positions or length == 1:
            return False
        array = self.known.array(term.value)
        if array is None:
            return False
        if term.hides is not None:
            array = np.where(array == term.hides, term.factor, 0.0)
        else:
            array = array.astype(np.float64) * term.factor
        behind = np.tri(length) == 1
        hidden = array[..., ~behind]
        limit = HIDDEN if is_alone else -inf
        return bool((array[..., behind] == 0).all() and (hidden <= limit).all())

    def _bias(
        self, b: Builder, terms: Sequence[Addend], lead: tuple[object, object]
    ) -> Value:
        """Emit the sum of the score terms, with size 1 along axes where it is
        constant.
        """
        like = Tensor.of(self.root.y).with_shape(())
        values = [self._written(b, term, lead) for term in terms]
        if not values:
            return b.full(like, 0.0)
        total, *rest = values
        for value in rest:
            sizes = [Tensor.of(x).shape for x in (total, value)]
            shape = tuple(n if m == 1 else m for n, m in zip(*sizes, strict=True))
            wide = [
                b.broadcast(x, shape=shape, axes=(0, 1, 2, 3)) for x in (total, value)
            ]
            total = b.add(*wide)
        return total

    def _written(self, b: Builder, term: Addend, lead: tuple[Any, Any]) -> Value:
        """Emit a score term as (batch, heads, rows, positions), masks as 0 and
        -infinity.
        """
        movement = scaled_view_of(term.value)
        batch_and_heads, *others = _groups(movement.view)
        batch = split(batch_and_heads, lead)
        if batch is None or not all(map(_is_one_kind, (*batch, *others))):
            value = b.reshape(term.value, shape=(*lead, *self.shape[-2:]))
        else:
            kept = (() if last_repeats(each) else each for each in (*batch, *others))
            value = movement.view.with_axes(kept).write(b, movement.source)
        if term.hides is None:
            return value if term.factor == 1 else b.scale(value, term.factor)
        like = Tensor.of(value).with_dtype(Tensor.of(self.root.y).dtype)
        zero, lowest = b.full(like, 0.0), b.full(like, -inf)
        return b.select(value, *((lowest, zero) if term.hides else (zero, lowest)))


def _is_one_kind(strides: Strides) -> bool:
    """Return whether all strides of an axis are broadcast, or none is."""
    return len({stride.repeats for stride in strides}) <= 1


def _lies_before(stride: Stride, other: Stride) -> bool:
    """Return whether a stride is outer to another in the source; False for broadcast
    ones.
    """
    if stride.axis is None or other.axis is None:
        return False
    if stride.axis != other.axis:
        return stride.axis < other.axis
    return compare_sizes(stride.step, ">", other.step) is True
