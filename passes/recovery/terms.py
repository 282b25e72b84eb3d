"""What patterns are written in: expressions with names for what they capture.

Products and sums are written flat. They match whatever the order and association of
`multiply`, `divide`, `negate`, `power` by 2 or 3, `add` and `subtract`, and what they
read may be repeated along axes on the way: a pattern never says `broadcast`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

Constant = float | str  # a number, or the name that one is captured under


@dataclass(frozen=True)
class Capture:
    """Any value of the type of the whole expression, element for element."""

    name: str


@dataclass(frozen=True)
class Number:
    """A number in every element."""

    value: Constant


@dataclass(frozen=True)
class Call:
    """An op of the dialect by name.

    Args:
        name: of the op.
        operands: in order; those of `maximum` in any.
        attributes: the names under which attributes are captured.
    """

    name: str
    operands: tuple[Term, ...]
    attributes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Product:
    """`coefficient` times all `factors`."""

    coefficient: Constant
    factors: tuple[Term, ...]


@dataclass(frozen=True)
class Sum:
    """`constant` plus all terms of `plus` less all of `minus`."""

    constant: Constant
    plus: tuple[Term, ...]
    minus: tuple[Term, ...] = ()


@dataclass(frozen=True)
class Reciprocal:
    """What a product is divided by."""

    of: Term


@dataclass(frozen=True)
class Mean:
    """The mean of `of` over axes, captured as `axes`; sizes may be symbolic."""

    of: Term


@dataclass(frozen=True)
class AnyOf:
    """One of several ways to write the same."""

    choices: tuple[Term, ...]


Term = Capture | Number | Call | Product | Sum | Reciprocal | Mean | AnyOf


def call(name: str, *operands: Term, **attributes: str) -> Call:
    """An op, with the names that its attributes are captured under."""
    return Call(name, operands, attributes)


def product(coefficient: Constant, *factors: Term) -> Product:
    """`coefficient` times the factors."""
    return Product(coefficient, factors)


def total(constant: Constant, *plus: Term, minus: tuple[Term, ...] = ()) -> Sum:
    """`constant` plus and minus terms."""
    return Sum(constant, plus, minus)


def square(term: Term) -> Product:
    """A term times itself."""
    return product(1.0, term, term)


def any_of(*choices: Term) -> AnyOf:
    """One of several ways to write the same."""
    return AnyOf(choices)


def root_ops(term: Term) -> frozenset[str]:
    """The ops whose result a term may be."""
    match term:
        case Call(name=name):
            return frozenset({name})
        case Product():
            return frozenset({"multiply", "divide"})
        case Sum():
            return frozenset({"add", "subtract"})
        case AnyOf(choices=choices):
            return frozenset().union(*map(root_ops, choices))
    raise TypeError(f"expected a term that an op computes; got {term}")
