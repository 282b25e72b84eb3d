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
    """Base of terms, which caches the ops that can define a matching value."""

    @cached_property
    def heads(self) -> frozenset[str] | None:
        """Names of the ops that can define a matching value; None if any op can."""
        return _heads_of(self)  # type: ignore[arg-type]


@dataclass(frozen=True)
class CaptureTerm(_Heads):
    """Term that matches any value, captured as `name`.

    In an elementwise expression it has the type of the whole.
    """

    name: str


@dataclass(frozen=True)
class NumberTerm(_Heads):
    """Term that matches a value with one number, stated or captured, everywhere."""

    value: Constant


@dataclass(frozen=True)
class TruthTerm(_Heads):
    """Term that matches a value that is True, or False, in every element."""

    value: bool


@dataclass(frozen=True)
class OpTerm(_Heads):
    """Term that matches the result of one op of the dialect.

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
        """Name of the op with its dialect, such as `graph.add`."""
        return f"graph.{self.name}"

    @cached_property
    def hardest_first(self) -> "list[tuple[int, Term]]":
        """Pairs of operand index and term, those that match any value last."""
        places = enumerate(self.operands)
        return sorted(places, key=lambda each: isinstance(each[1], CaptureTerm))

    def named(self, op: str) -> "OpTerm":
        """Return the term with `op` as the name under which the op is captured."""
        return replace(self, op=op)


@dataclass(frozen=True)
class ProductTerm(_Heads):
    """Term that matches `coefficient` times all `factors`, in any association."""

    coefficient: Constant
    factors: tuple["Term", ...]


@dataclass(frozen=True)
class SumTerm(_Heads):
    """Term that matches `constant` plus all of `plus` less all of `minus`."""

    constant: Constant
    plus: tuple["Term", ...]
    minus: tuple["Term", ...] = ()


@dataclass(frozen=True)
class ReciprocalTerm(_Heads):
    """Term for a divisor in a product."""

    of: "Term"


@dataclass(frozen=True)
class MeanTerm(_Heads):
    """Term that matches the mean of `of` over axes, captured as `axes`."""

    of: "Term"


@dataclass(frozen=True)
class ChoiceTerm(_Heads):
    """Term that matches any of several spellings."""

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
    """Return a term for an op; keywords name the captures of its attributes."""
    return OpTerm(name, operands, attributes)


def this(*operands: Term) -> OpTerm:
    """Return a term for the op whose class has the row, captured as `op`."""
    return OpTerm("", operands, op="op")


def product(coefficient: Constant, *factors: Term) -> ProductTerm:
    """Return a term for `coefficient` times the factors."""
    return ProductTerm(coefficient, factors)


def total(constant: Constant, *plus: Term, minus: tuple[Term, ...] = ()) -> SumTerm:
    """Return a term for `constant` plus the terms, less those of `minus`."""
    return SumTerm(constant, plus, minus)


def square(term: Term) -> ProductTerm:
    """Return a term for another term times itself."""
    return product(1.0, term, term)


def any_of(*choices: Term) -> ChoiceTerm:
    """Return a term that matches any of several spellings."""
    return ChoiceTerm(choices)


def root_ops(term: Term) -> frozenset[str]:
    """Return the names of the ops whose result a term can match."""
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
    """Return the names of the ops that can define a match; None if any op can."""
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
    """Return whether a sum or product term can match a value of any op."""
    return not parts or (len(parts) == 1 and isinstance(number, str))


def may_match(term: Term, names: Container[str]) -> bool:
    """Return whether a term could match in a graph with ops of these names only."""
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
