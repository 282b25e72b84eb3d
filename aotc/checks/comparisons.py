"""Comparisons of floats under rounding.

Random errors seldom make two numbers equal that compiled code may well find equal, such
as `sin(x)**2 + cos(x)**2` and 1. So several evaluations with errors are looked at
together. How far the gap between two numbers moves from one to another is what rounding
does to it: where the gap is no more than twice that, the comparison may go either way.
The gap of numbers that nothing rounds, or that are one and the same, stays as it is,
and so does what is said of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from aotc.core import dtypes
from aotc.dialects.graph import GraphOp
from aotc.dialects.ops.selection import Cast, Compare
from aotc.mlir import Operation

# A few evaluations show but a part of how far a gap may move.
_NEAR = 2.0


@dataclass
class _ComparisonHistory:
    """The first answer of one comparison, and the range of its operands' differences
    since.

    Args:
        answer: of the first.
        least: gaps that were found.
        most: gaps that were found.
    """

    answer: np.ndarray
    least: np.ndarray
    most: np.ndarray

    def widen(self, gap: np.ndarray) -> np.ndarray:
        """Widen the range by these differences; return where rounding may flip the
        answer.
        """
        self.least, self.most = np.fmin(self.least, gap), np.fmax(self.most, gap)
        moved = self.most - self.least
        is_open: np.ndarray = (
            np.isfinite(moved) & (moved > 0) & (np.abs(gap) <= _NEAR * moved)
        )
        return is_open


class RecordedComparisons:
    """Answers of float comparisons over repeated evaluations of one graph and
    inputs.
    """

    def __init__(self) -> None:
        self._past: dict[tuple[GraphOp, int], _ComparisonHistory] = {}

    def answer(
        self,
        op: GraphOp,
        turn: int,
        operands: Sequence[np.ndarray],
        found: np.ndarray,
    ) -> np.ndarray:
        """Return a comparison's result, flipped where rounding noise may decide it.

        It is the opposite of the first evaluation's where the gap of the operands is at
        most twice its spread over the evaluations so far.

        Args:
            op: a comparison of floats, or a cast of them to bool: `x != 0`.
            turn: how many times the evaluation has run it before.
            operands: of the op.
            found: its result on them.
        """
        x, *others = map(_wide_floats, operands)
        gap = x - others[0] if others else x
        past = self._past.get((op, turn))
        if past is None:
            self._past[op, turn] = _ComparisonHistory(found, gap, gap)
            return found
        return np.where(past.widen(gap), ~past.answer, found)


def compares_floats(
    op: Operation, operands: Sequence[np.ndarray], results: Sequence[np.ndarray]
) -> bool:
    """Return whether an op turns floats into truth values."""
    return (
        isinstance(op, (Compare, Cast))
        and dtypes.is_float(dtypes.canonical_dtype(operands[0].dtype))
        and results[0].dtype == np.bool_
    )


def _wide_floats(array: np.ndarray) -> np.ndarray:
    """Convert floats to a dtype in which the difference of half floats is exact."""
    return array.astype(np.float64 if array.dtype == np.float64 else np.float32)
