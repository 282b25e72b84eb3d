"""Terms of patterns: expressions with names for the values that they capture.

Captures, numbers and calls of ops are matched as they stand (`structure.py`). Products,
sums and means are for what may be written in many ways: they stand flat, and match
whatever the order and association of `multiply`, `divide`, `negate`, `power` by 2 or 3,
`add` and `subtract`, and what they read may be repeated along axes on the way: such a
pattern never says `broadcast` (`aotc.passes.recovery.matching`).
"""

from collections.abc import Container, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Union

Constant = float | str  # a number, or the name that one is captured under

# the last ops of what is read as a sum of several terms, and as a product of factors
_SUMS = frozenset({"add", "subtract", "negate"})
_PRODUCTS = frozenset({"multiply", "divide", "negate", "power"})


class _Heads:
    """The ops that terms of an expression begin with, computed once for each."""

    @cached_property
    def heads(self) -> frozenset[str] | None:
        """The ops, repetitions aside, that a value may be of; None where any may be."""
        return _heads_of(self)  # type: ignore[arg-type]


@dataclass(frozen=True)
class CaptureTerm(_Heads):
    """Any value; in an elementwise expression, of the type of the whole of it."""

    name: str


@dataclass(frozen=True)
class NumberTerm(_Heads):
    """A number in every element."""

    value: Constant


@dataclass(frozen=True)
class TruthTerm(_Heads):
    """True, or False, in every element."""

    value: bool


@dataclass(frozen=True)
class OpTerm(_Heads):
    """An op of the dialect by name.

    Args:
        name: of the op; empty for the one whose class has the row.
        operands: in order; those of an op that commutes in any.
        attributes: the names under which attributes are captured.
        op: the name under which the op is captured; empty if it is not.
    """

    name: str
    operands: tuple["Term", ...]
    attributes: Mapping[str, str] = field(default_factory=dict)
    op: str = ""

    @cached_property
    def operation(self) -> str:
        """The name of the op, with that of its dialect."""
        return f"graph.{self.name}"

    @cached_property
    def hardest_first(self) -> "list[tuple[int, Term]]":
        """The operands with their places, those that may be anything at the end."""
        places = enumerate(self.operands)
        return sorted(places, key=lambda each: isinstance(each[1], CaptureTerm))

    def named(self, op: str) -> "OpTerm":
        """Return the call with a name under which the op is captured."""
        return replace(self, op=op)


@dataclass(frozen=True)
class ProductTerm(_Heads):
    """`coefficient` times all `factors`."""

    coefficient: Constant
    factors: tuple["Term", ...]


@dataclass(frozen=True)
class SumTerm(_Heads):
    """`constant` plus all terms of `plus` less all of `minus`."""

    constant: Constant
    plus: tuple["Term", ...]
    minus: tuple["Term", ...] = ()


@dataclass(frozen=True)
class ReciprocalTerm(_Heads):
    """A divisor in a product."""

    of: "Term"


@dataclass(frozen=True)
class MeanTerm(_Heads):
    """The mean of `of` over axes, captured as `axes`; sizes may be symbolic."""

    of: "Term"


@dataclass(frozen=True)
class ChoiceTerm(_Heads):
    """A term that matches any of several spellings."""

    choices: tuple["Term", ...]


Term = Union[  # noqa: UP007 - some members name it
    CaptureTerm,
    NumberTerm,
    TruthTerm,
    OpTerm,
    ProductTerm,
    SumTerm,
    ReciprocalTerm,
    MeanTerm,
    ChoiceTerm,
]

X, Y = CaptureTerm("x"), CaptureTerm("y")


def call(name: str, *operands: Term, **attributes: str) -> OpTerm:
    """An op, with the names that its attributes are captured under."""
    return OpTerm(name, operands, attributes)


def this(*operands: Term) -> OpTerm:
    """The op whose class has the row, captured as `op`."""
    return OpTerm("", operands, op="op")


def product(coefficient: Constant, *factors: Term) -> ProductTerm:
    """`coefficient` times the factors."""
    return ProductTerm(coefficient, factors)


def total(constant: Constant, *plus: Term, minus: tuple[Term, ...] = ()) -> SumTerm:
    """`constant` plus and minus terms."""
    return SumTerm(constant, plus, minus)


def square(term: Term) -> ProductTerm:
    """A term times itself."""
    return product(1.0, term, term)


def any_of(*choices: Term) -> ChoiceTerm:
    """Return a term that matches any of several spellings."""
    return ChoiceTerm(choices)


def root_ops(term: Term) -> frozenset[str]:
    """The ops whose result a term may be."""
    match term:
        case OpTerm(name=name):
            return frozenset({name})
        case ProductTerm():
            return frozenset({"multiply", "divide"})
        case SumTerm():
            return frozenset({"add", "subtract"})
        case ChoiceTerm(choices=choices):
            return frozenset().union(*map(root_ops, choices))
    raise TypeError(f"expected a term that an op computes; got {term}")


def _heads_of(term: Term) -> frozenset[str] | None:
    match term:
        case OpTerm(name=name):
            return frozenset({name})
        case ProductTerm(coefficient=number, factors=parts):
            # times 1 or -1, one factor is the value itself
            is_itself = len(parts) == 1 and number in (1.0, -1.0)
            return None if is_itself or _is_open(number, parts) else _PRODUCTS
        case SumTerm(constant=number, plus=plus, minus=minus):
            parts = (*plus, *minus)
            is_itself = len(parts) == 1 and number == 0.0
            return None if is_itself or _is_open(number, parts) else _SUMS
        case ReciprocalTerm(of=of):
            return of.heads
        case MeanTerm():
            return _PRODUCTS | {"reduce_sum"}
        case ChoiceTerm(choices=choices):
            heads = [each.heads for each in choices]
            known = [each for each in heads if each is not None]
            return frozenset().union(*known) if len(known) == len(heads) else None
    return None


def _is_open(number: Constant, parts: tuple[Term, ...]) -> bool:
    """Return whether a number alone may match, or a part beside any number."""
    return not parts or (len(parts) == 1 and isinstance(number, str))


def may_match(term: Term, names: Container[str]) -> bool:
    """Return whether a term may match in a graph of ops of these names."""
    match term:
        case OpTerm(name=name, operands=parts):
            return name in names and all(may_match(each, names) for each in parts)
        case ProductTerm(factors=parts):
            return all(may_match(each, names) for each in parts)
        case SumTerm(plus=plus, minus=minus):
            return all(may_match(each, names) for each in (*plus, *minus))
        case ReciprocalTerm(of=of):
            return may_match(of, names)
        case MeanTerm(of=of):
            return "reduce_sum" in names and may_match(of, names)
        case ChoiceTerm(choices=choices):
            return any(may_match(each, names) for each in choices)
    return True
