"""What makes an operand of a kernel of what lies in memory, while that is in registers.

    q = cast(%packed)                     elements of few bits, as memory holds them,
    w = multiply(q, broadcast(%scale))    times a scale of each column

The elementwise ops of a region before its anchor are applied to the vectors of the
operand as they are loaded. What else they read is the same for all terms of a sum: a
number, or a vector along the columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from aotc.dialects.ops.selection import Cast
from aotc.kernels import vectors
from aotc.kernels.epilogue import Epilogue, Place
from aotc.kernels.terms import Factor, Read, Term
from aotc.mlir import Value


@dataclass(frozen=True)
class Prologue:
    """Makes vectors of the second operand of a term, at the insertion point.

    Args:
        value: of the region, that is the operand.
        loaded: the value of the region that memory holds, in the order of a kernel.
        others: what else is read of memory: numbers, and vectors along the columns.
        memories: of the arguments that these are of.
        epilogue: applies the ops.
        lanes: of a vector.
    """

    value: Value
    loaded: Value
    others: Sequence[Read]
    memories: Mapping[Value, Value]
    epilogue: Epilogue
    lanes: int

    @classmethod
    def of(
        cls, term: Term, packed: Value, memories: Mapping[Value, Value], lanes: int
    ) -> Prologue | None:
        """Return the prologue of a region; None where memory holds the operand.

        Args:
            term: of the region.
            packed: the argument of the region that holds the operand.
            memories: of the others.
            lanes: of a vector.
        """
        factor = term.factors[1]
        if factor.behind_views().op is None:
            return None
        reads = [read for read in factor.reads() if read.source.op is None]
        (loaded,) = {read.value for read in reads if read.source.value == packed}
        others = [read for read in reads if read.value != loaded]
        epilogue = Epilogue(loaded, {}, (), lanes, None)
        return cls(factor.value, loaded, others, memories, epilogue, lanes)

    def apply(self, loaded: Value, column: Value, key: int, count: int) -> Value:
        """Return a vector of the operand, made of what memory holds.

        Args:
            loaded: the vector that memory holds.
            column: of its first lane.
            key: of that column.
            count: how many of its lanes are columns.
        """
        known = {self.loaded: [loaded]}
        for read in self.others:
            memory = self.memories[read.source.value]
            if read.source.is_number:
                element = vectors.load_element(memory, vectors.index(0))
                known[read.value] = [vectors.repeat(element, self.lanes)]
            else:
                known[read.value] = [vectors.load(memory, column, self.lanes, count)]
        place = Place(column, column, key, count)
        return self.epilogue.compute(self.value, place, known)


def why_no_prologue(term: Term, packed: Value, *, is_packed: bool) -> str:
    """Return why a kernel cannot compute the second operand; "" if it can.

    Args:
        term: of the region.
        packed: the argument of the region that holds the operand.
        is_packed: whether that is in another order than the operand.
    """
    factor, columns = term.factors[1], column_loops(term)
    if factor.behind_views().op is None:
        return ""
    if why := _why_not_elementwise(factor):
        return why
    reads = [*factor.reads()]
    held = {read.value for read in reads if read.source.value == packed}
    if len(held) != 1:
        return "its second operand is not computed of its second argument, once"
    if not is_packed and held != {packed}:
        return "its second operand is computed of a view of its second argument"
    others = [read for read in reads if read.source.value != packed]
    if all(_is_along(read, columns) for read in others):
        return ""
    return "its second operand is computed of what varies by more than columns"


def _why_not_elementwise(factor: Factor) -> str:
    """Why elementwise ops alone do not make an operand; "" if they do."""
    source = factor.behind_views()
    if source.op is None or not source.op.operands:
        return ""
    if source.value != factor.value:
        return "its second operand is a view of what elementwise ops give"
    if not (type(source.op).on_vectors or isinstance(source.op, Cast)):
        return f"its second operand is computed by '{source.op.OPERATION_NAME}'"
    found = map(_why_not_elementwise, source.operands())
    return next((why for why in found if why), "")


def column_loops(term: Term) -> list[int]:
    """Return the loops over the result along which the first operand is broadcast."""
    left = term.factors[0].view()
    if left is None:
        return []
    repeats = [all(stride.repeats for stride in axis) for axis in left.axes]
    return [loop for loop in term.nest.kept if repeats[loop]]


def _is_along(read: Read, columns: Sequence[int]) -> bool:
    """Whether what is read is a number, or a vector along the columns."""
    if read.source.op is not None:
        return read.source.is_number
    view = read.source.view()
    if view is None or view.fill is not None:
        return False
    flat = view.flat()
    others = [loop for loop in range(len(flat.axes)) if loop not in columns]
    own = flat.group(columns)
    is_vector = [(s.axis, s.step) for s in own] == [(0, 1)] and flat.begin == (0,)
    repeats = all(stride.repeats for stride in flat.group(others))
    return read.source.is_number or (repeats and is_vector)
