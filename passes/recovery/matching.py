"""Match terms against the values of a graph."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import permutations
from typing import Any

import ml_dtypes
import numpy as np

from aotc.core import dtypes
from aotc.dialects.functions.walking import users_of
from aotc.dialects.ops.creation import Dimension
from aotc.dialects.ops.reduction import ReduceSum
from aotc.dialects.patterns.terms import (
    CaptureTerm,
    ChoiceTerm,
    Constant,
    MeanTerm,
    NumberTerm,
    OpTerm,
    ProductTerm,
    ReciprocalTerm,
    SumTerm,
    Term,
)
from aotc.dialects.patterns.values import made_by
from aotc.dialects.types import Tensor, element_count
from aotc.mlir import Value
from aotc.passes.recovery.labels import LabelledValue, SplatValues

MOST_INSIDE = 256  # values of an expression; terms say far fewer
ROUNDING = 4  # units in the last place by which a constant may differ


@dataclass(frozen=True)
class Match:
    """A match of a term: captured values and numbers by name, and the values it
    covers.
    """

    captured: Mapping[str, Any] = field(default_factory=dict)
    inside: frozenset[Value] = frozenset()

    def bind(self, name: str, found: object) -> Match | None:
        """Return the match with one more capture; None if the name is bound to
        another.
        """
        if name in self.captured:
            return self if self.captured[name] == found else None
        return replace(self, captured={**self.captured, name: found})

    def covering(self, read: LabelledValue, *, itself: bool) -> Match:
        """Return the match, also covering the values on the path to `read` (and `read`
        itself).
        """
        more = (*read.inside, read.value) if itself else read.inside
        return replace(self, inside=self.inside.union(more))


def find_match(term: Term, root: Value, numbers: SplatValues) -> Match | None:
    """Return the first match of a term at `root` whose inner values have no other
    users.
    """
    for match in _Matcher(root, numbers).match(
        term, LabelledValue.of_root(root), 1, Match()
    ):
        if not users_of(match.inside - {root}, match.inside):
            return match
    return None


class _Matcher:
    """Backtracking matcher of terms against the expression that ends in `root`."""

    def __init__(self, root: Value, numbers: SplatValues) -> None:
        self._root = root
        self._own: dict[Value, bool] = {root: True}
        self._kind = Tensor.of(root)
        self._numbers = numbers
        narrow = dtypes.to_numpy(self._kind.dtype)
        self._unit = float(ml_dtypes.finfo(narrow).eps)

    def match(
        self, term: Term, read: LabelledValue, sign: int, found: Match
    ) -> Iterator[Match]:
        """Yield the ways to extend the match `found` by a term that is `sign` times a
        value.

        There are none below a value that something else reads, too: a derivative reads
        most, and all ways to read what is below them would be tried.
        """
        heads = term.heads
        if heads is not None and self._numbers.head(read.value) not in heads:
            return iter(())
        if not all(map(self._is_own, read.inside)):
            return iter(())
        return self._match_own(term, read, sign, found)

    def _match_own(
        self, term: Term, read: LabelledValue, sign: int, found: Match
    ) -> Iterator[Match]:
        """Yield extensions of a match by a term's kind: choice, sum, product, mean,
        number, ….
        """
        match term:
            case ChoiceTerm(choices=choices):
                for choice in choices:
                    yield from self.match(choice, read, sign, found)
            case SumTerm():
                yield from self._match_sum(term, read, sign, found)
            case ProductTerm():
                yield from self._match_product(term, read, sign, found)
            case MeanTerm(of=of):
                yield from self._match_mean(of, read, sign, found)
            case NumberTerm(value=value):
                yield from self._match_number(value, read, sign, found)
            case ReciprocalTerm(of=of) if read.is_inverse:
                yield from self.match(of, replace(read, is_inverse=False), sign, found)
            case CaptureTerm(name=name) if sign == 1 and not read.is_inverse:
                yield from self._match_capture(name, read, found)
            case OpTerm() if sign == 1 and not read.is_inverse:
                yield from self._match_call(term, read, found)

    def _is_own(self, value: Value) -> bool:
        """Return whether all users of a value lead to the root only, memoized."""
        if value not in self._own:
            self._own[value] = self._leads_to_root_alone(value)
        return self._own[value]

    def _leads_to_root_alone(self, value: Value) -> bool:
        """Return whether all transitive users of a value come before the root's op."""
        end, seen, rest = self._root.owner, {self._root, value}, [value]
        while rest:
            for use in rest.pop().uses:
                reader = use.owner
                if reader == end or any(x in seen for x in reader.results):
                    continue
                if len(seen) > MOST_INSIDE or not reader.is_before_in_block(end):
                    return False
                seen.update(reader.results)
                rest += reader.results
        return True

    def _match_all(
        self, rows: Sequence[tuple[Term, LabelledValue, int]], found: Match
    ) -> Iterator[Match]:
        """Yield the ways to extend a match by several (term, value, sign) rows at
        once.
        """
        if not rows:
            yield found
            return
        (term, read, sign), *rest = rows
        for each in self.match(term, read, sign, found):
            yield from self._match_all(rest, each)

    def _match_sum(
        self, term: SumTerm, read: LabelledValue, sign: int, found: Match
    ) -> Iterator[Match]:
        """Yield the matches of a sum term, in all orders of the summands."""
        if read.is_inverse:
            return
        wanted = [*((each, 1) for each in term.plus), *((t, -1) for t in term.minus)]
        for constant, reads in self._numbers.terms(read, len(wanted), sign):
            for bound in self._bind_number(term.constant, constant, found):
                for order in dict.fromkeys(permutations(reads)):
                    pairs = zip(wanted, order, strict=True)
                    rows = [(each, v, s * own) for (each, s), (own, v) in pairs]
                    yield from self._match_all(rows, bound)

    def _match_product(
        self, term: ProductTerm, read: LabelledValue, sign: int, found: Match
    ) -> Iterator[Match]:
        """Yield the matches of a product term, in all orders of the factors."""
        for coefficient, reads in self._numbers.factors(read, len(term.factors)):
            for bound in self._bind_number(term.coefficient, sign * coefficient, found):
                for order in _orders(term.factors, reads):
                    pairs = zip(term.factors, order, strict=True)
                    yield from self._match_all([(t, v, 1) for t, v in pairs], bound)

    def _match_mean(
        self, of: Term, read: LabelledValue, sign: int, found: Match
    ) -> Iterator[Match]:
        """Yield matches of a mean: a sum times 1 / its count, or divided by a symbolic
        count.
        """
        total = OpTerm("reduce_sum", (of,), {"axes": "axes"})
        for share, (part,) in self._numbers.factors(read, 1):
            count = _reduced_count(part)
            if isinstance(count, int) and self._is_share(sign * share, count):
                yield from self.match(total, part, 1, found)
        for share, (part, divisor) in self._numbers.factors(read, 2):
            size = made_by(divisor.value, Dimension)
            is_count = size is not None and size.size == (_reduced_count(part),)
            if is_count and divisor.is_inverse and sign * share == 1:
                inner = found.covering(divisor, itself=False)
                yield from self.match(total, part, 1, inner)

    def _match_number(
        self, value: Constant, read: LabelledValue, sign: int, found: Match
    ) -> Iterator[Match]:
        """Yield the match of a constant term with a value that repeats one number."""
        number = self._numbers.find(read.value)
        if number is not None and not read.is_inverse:
            yield from self._bind_number(value, sign * number, found)

    def _match_capture(
        self, name: str, read: LabelledValue, found: Match
    ) -> Iterator[Match]:
        """Yield the match that captures a value of the root's type under `name`."""
        if Tensor.of(read.value) == self._kind and read.is_aligned():
            bound = found.bind(name, read.value)
            if bound is not None:
                yield bound.covering(read, itself=False)

    def _match_call(
        self, term: OpTerm, read: LabelledValue, found: Match
    ) -> Iterator[Match]:
        """Yield the matches of an op term, looking through broadcasts."""
        inner = read.without_repeats()
        if inner is not None:
            yield from self.match(term, inner, 1, found)
        if read.op_name != term.name:
            return
        bound: Match | None = found.covering(read, itself=True)
        for attribute, name in term.attributes.items():
            bound = bound and bound.bind(name, getattr(read.op, attribute))
        operands = read.operands()
        orders = [operands, operands[::-1]] if type(read.op).commutes else [operands]
        for order in orders if bound is not None else []:
            rows = [(t, v, 1) for t, v in zip(term.operands, order, strict=True)]
            yield from self._match_all(rows, bound or found)

    def _bind_number(
        self, wanted: Constant, number: float, found: Match
    ) -> Iterator[Match]:
        """Yield the match if a number equals `wanted`, or binds it if `wanted` is a
        name.
        """
        if isinstance(wanted, str):
            bound = found.bind(wanted, number)
            if bound is not None:
                yield bound
        elif self._is_close(number, wanted):
            yield found

    def _is_close(self, number: float, wanted: float) -> bool:
        """Return whether a number equals a constant up to rounding in the root's
        dtype.
        """
        if number == wanted:
            return True
        tolerance = ROUNDING * self._unit * abs(wanted)
        return bool(abs(number - wanted) <= tolerance) and bool(np.isfinite(wanted))

    def _is_share(self, number: float, count: int) -> bool:
        """Return whether a number is 1 / `count` up to one rounding."""
        return abs(number * count - 1) <= self._unit


def _orders(
    terms: Sequence[Term], reads: Sequence[LabelledValue]
) -> Iterable[Sequence[LabelledValue]]:
    """Return the permutations of values to try against the terms; one if all terms are
    equal.
    """
    if all(term is terms[0] for term in terms):  # as in a square
        return [reads]
    return dict.fromkeys(permutations(reads))


def _reduced_count(read: LabelledValue) -> Any:
    """Return how many elements the sum behind a value adds up; None if it is no sum."""
    while (inner := read.without_repeats()) is not None:
        read = inner
    op = made_by(read.value, ReduceSum)
    if op is None:
        return None
    sizes = Tensor.of(op.x).shape
    return element_count(tuple(sizes[axis] for axis in op.axes))
