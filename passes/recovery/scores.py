"""Scores of an attention: a product, scaled, and the terms added to it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from aotc.dialects.movement.views import View
from aotc.dialects.ops.binary import Add
from aotc.dialects.ops.contraction import DotGeneral
from aotc.dialects.ops.selection import Select
from aotc.dialects.patterns.values import made_by
from aotc.mlir import Value
from aotc.passes.recovery.known import KnownValues
from aotc.passes.recovery.movement import scaled_view_of

# So low a number in place of a score, or added to it, leaves nothing of it in a row
# where another score is higher.
HIDDEN = -1e30
MOST_TERMS = 4  # that are added


@dataclass(frozen=True)
class Addend:
    """A term added to attention scores, or a mask that hides some of them.

    Args:
        value: of the shape of the scores: to be added, or the mask.
        factor: of what is added; the number in place of a score that is hidden.
        hides: the truth with which a mask hides a score; None if it is no mask.
    """

    value: Value
    factor: float
    hides: bool | None = None


@dataclass(frozen=True)
class AttentionScores:
    """Attention scores: a view of the query-key matrix product, scaled, plus terms.

    Args:
        product: of query and key.
        view: of the product, that the scores are.
        scale: of the product.
        terms: that are added.
        inside: the values between, and the product.
    """

    product: DotGeneral
    view: View
    scale: float
    terms: tuple[Addend, ...]
    inside: tuple[Value, ...]


def scores_of(
    value: Value, known: KnownValues, scale: float = 1.0, terms: int = MOST_TERMS
) -> AttentionScores | None:
    """Match a value as attention scores with at most `terms` added terms; None if it is
    none.
    """
    movement = scaled_view_of(value, known.numbers)
    scale *= movement.factor
    inside = (*movement.inside, movement.source)
    product = made_by(movement.source, DotGeneral)
    if product is not None:
        return AttentionScores(product, movement.view, scale, (), inside)
    if not (movement.view.is_identity and terms):
        return None
    for x, term in _terms_of(movement.source, known, scale):
        found = scores_of(x, known, scale, terms - 1)
        if found is not None:
            every = (*found.terms, term)
            return replace(found, terms=every, inside=(*found.inside, *inside))
    return None


def _terms_of(
    value: Value, known: KnownValues, scale: float
) -> Iterator[tuple[Value, Addend]]:
    """Yield the ways to split a value into scores and one added term or mask."""
    if (op := made_by(value, Add)) is not None:
        yield op.lhs, Addend(op.rhs, scale)
        yield op.rhs, Addend(op.lhs, scale)
    if (choice := made_by(value, Select)) is not None:
        x, y = choice.on_true, choice.on_false
        ways = (x, y, False), (y, x, True)
        for x, hidden, hides in ways:
            number = known.numbers.find(hidden)
            if number is not None and number * scale <= HIDDEN:
                yield x, Addend(choice.condition, number * scale, hides)
