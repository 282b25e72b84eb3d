"""Work of the reference evaluator: counts it, and ends what would be too much."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import prod

import numpy as np

from aotc.dialects.graph import LOW, Evaluator, GraphOp
from aotc.dialects.types import Size, Tensor, evaluate_size
from aotc.mlir import Value

_USUAL = 2e10  # elements: some 20 s
_ELEMENTS = 2**28  # of the largest array: 2 GiB, drawn in f64
TOO_LONG = "the reference evaluator would take too long (--self-check=full)"
TOO_LARGE = "the reference evaluator would take too much memory (--self-check=full)"
_WORK_OF_AN_OP = 10_000
_PRODUCTS = 32  # that BLAS computes in the time of one element


class NothingToCompare(Exception):
    """Raised for an item that cannot be compared; the text says why."""

    is_lasting = True  # whether another run on this machine would find the same
    kind = "nothing"  # as counters call it


class OverBudget(NothingToCompare):
    """Raised for an item that exceeds the reference evaluator's work budget."""

    kind = "budget"


class ArrayTooLarge(OverBudget):
    """Raised for an item of which one array would be too large."""

    def __init__(self, text: str = TOO_LARGE) -> None:
        super().__init__(text)


class NoMemoryToCompare(NothingToCompare):
    """Raised for an item on which the reference evaluator ran out of memory."""

    is_lasting = False
    kind = "memory"

    def __init__(self, text: str = "the reference evaluator ran out of memory") -> None:
        super().__init__(text)


@dataclass
class WorkBudget:
    """Counts the elements that the reference evaluator may still compute.

    Args:
        left: how many elements may still be computed.
        most: how many elements one array may have.
        whole: what this is a part of, which is counted there too.
        taken: how many elements have been computed.
        needed: how many would have had to be left for nothing to be refused.
        is_cancelled: whether nobody wants the results any more.
    """

    left: float
    most: float
    whole: WorkBudget | None = None
    taken: float = field(default=0.0, init=False)
    needed: float = field(default=0.0, init=False)
    is_cancelled: bool = field(default=False, init=False)
    _shapes: dict[GraphOp, list[tuple[Size, ...]]] = field(default_factory=dict)
    _evaluate: Evaluator = field(default_factory=Evaluator)

    @classmethod
    def usual(cls) -> WorkBudget:
        """Return the budget of all self-checks of one build."""
        return cls(_USUAL, _ELEMENTS)

    def __call__(
        self, op: GraphOp, operands: Sequence[np.ndarray], symbols: Sequence[int]
    ) -> list[np.ndarray]:
        """Return the results of an op, after counting its work against the budget."""
        if op not in self._shapes:
            self._shapes[op] = [Tensor.of(result).shape for result in op.results]
        for shape in self._shapes[op]:
            self.hold(prod(evaluate_size(n, symbols) for n in shape))
        self.take(_work_of(op, [getattr(x, "shape", ()) for x in operands]))
        return self._evaluate(op, operands, symbols)

    def require(
        self,
        ops: Iterable[GraphOp],
        inner: Iterable[GraphOp],
        symbols: Sequence[int],
        times: int,
    ) -> None:
        """Refuse ops that would take too long, before they are run.

        Args:
            ops: of a function.
            inner: those that calls in it run for certain.
            symbols: of the function.
            times: how often they are run.

        Raises:
            NothingToCompare: they are too many.
        """
        own = [_work_and_largest(op, symbols) for op in ops]
        if any(largest > self.most for _, largest in own):
            raise ArrayTooLarge
        others = (_work_and_largest(op, symbols) for op in inner)
        total = times * sum(work for work, _ in (*own, *others))
        self.needed = max(self.needed, self.taken + total)
        if total > self.left:
            raise OverBudget(TOO_LONG)

    def part(self, limit: float) -> WorkBudget:
        """Return a budget within this one, of at most `limit` elements."""
        return WorkBudget(min(self.left, limit), self.most, self)

    def hold(self, elements: float) -> None:
        """Reserve work for an array of `elements` before it is made.

        Raises:
            NothingToCompare: they are too many.
        """
        if elements > self.most:
            raise ArrayTooLarge
        self.take(elements)

    def count(self, elements: float) -> None:
        """Count elements that are computed whatever is left; negative ones give
        back.
        """
        if self.is_cancelled:
            raise OverBudget(TOO_LONG)
        self.left -= elements
        self.taken += elements
        if self.whole is not None:
            self.whole.count(elements)

    def take(self, elements: float) -> None:
        """Count elements before they are computed; raise `OverBudget` if too many.

        Raises:
            NothingToCompare: they are too many.
        """
        self.count(elements)
        self.needed = max(self.needed, self.taken)
        if self.left < 0:
            raise OverBudget(TOO_LONG)


def _work_and_largest(op: GraphOp, symbols: Sequence[int]) -> tuple[float, int]:
    """Return the work that an op takes, and the elements of its largest result."""
    made = [prod(_shape_of(value, symbols)) for value in op.results]
    shapes = [_shape_of(value, symbols) for value in op.operands]
    return sum(made) + _work_of(op, shapes), max(made, default=0)


def _shape_of(value: Value, symbols: Sequence[int]) -> tuple[int, ...]:
    """Return the shape of a value for these symbol values."""
    return tuple(evaluate_size(n, symbols) for n in Tensor.of(value).shape)


def _work_of(op: GraphOp, shapes: Sequence[tuple[int, ...]]) -> float:
    """Return the work of an op by its operands' shapes, without making its results."""
    products = _products(shapes) / _PRODUCTS if type(op).precision == LOW else 0.0
    return _WORK_OF_AN_OP + sum(map(prod, shapes)) + products


def _products(shapes: Sequence[tuple[int, ...]]) -> float:
    """Return about how many products a contraction of these shapes sums.

    With the size of its result it is exact for a matrix product, whose three sizes
    multiply to the square of m·k·n. The larger operand stands in for the result.
    """
    sizes = [float(prod(shape)) for shape in shapes[:2]]
    return float(np.sqrt(prod(sizes) * max(sizes, default=1.0)))
