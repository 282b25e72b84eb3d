"""Rows: patterns with their replacements, an example of each and a near miss.

Tests evaluate the example before and after, and see that the near miss stays; the page
`docs/rewrites.md` is made of them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from aotc.dialects.builder import Builder
from aotc.dialects.patterns.terms import Term
from aotc.dialects.types import Tensor
from aotc.mlir import Value

# What a term has captured, by name: values, numbers, attributes and ops.
Captured = Any
Written = Callable[..., Value]  # with a builder, of values


def always(_: Captured) -> bool:
    """Return True: the condition of a row whose term is its only condition."""
    return True


@dataclass(frozen=True, eq=False)
class RewriteRow:
    """A rewrite rule: a term to match, its conditions, and the replacement.

    Args:
        says: what is replaced by what, in a line.
        term: what is matched.
        build: the value in its place, of what was captured; None if there is none.
        given: the operand types of the example and the near miss.
        example: what the row replaces.
        near_miss: what it leaves alone, though little differs.
        where: what must hold of the captures besides.
    """

    says: str
    term: Term
    build: Callable[[Builder, Captured], Value | None]
    given: tuple[Tensor, ...]
    example: Written
    near_miss: Written
    where: Callable[[Captured], bool] = always
