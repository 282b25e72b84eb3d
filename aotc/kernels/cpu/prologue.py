"""Prologues: ops that make an operand of a kernel from memory, in registers.

    q = cast(%packed)                     elements of few bits, as memory holds them,
    w = multiply(q, broadcast(%scale))    times a scale of each column

The elementwise ops of a region before its anchor are applied to the vectors of the
operand as they are loaded. What else they read is the same for all terms of a sum: a
number, or a vector along the columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from aotc.dialects.graph import GraphOp
from aotc.kernels.cpu import vectors
from aotc.kernels.cpu.epilogue import Epilogue, VectorPosition
from aotc.kernels.term_builder import expression_of
from aotc.kernels.terms import Read
from aotc.mlir import Value


@dataclass(frozen=True)
class Prologue:
    """An emitter of ops that make a product's second operand, as it is loaded.

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
        cls, op: GraphOp, packed: Value, memories: Mapping[Value, Value], lanes: int
    ) -> Prologue | None:
        """Return the emitter of a product's second operand; None if memory holds it.

        Args:
            op: the product.
            packed: the argument of the region that holds the operand.
            memories: of the others.
            lanes: of a vector.
        """
        factor = expression_of(op, 1)
        if factor is None or factor.is_argument:
            return None
        reads = [read for read in factor.reads() if read.is_argument]
        (loaded,) = {read.value for read in reads if read.source == packed}
        others = [read for read in reads if read.value != loaded]
        epilogue = Epilogue(loaded, {}, (), lanes, None)
        return cls(factor.value, loaded, others, memories, epilogue, lanes)

    def apply(self, loaded: Value, column: Value, key: int, count: int) -> Value:
        """Emit a vector of the operand from the one loaded from memory.

        Args:
            loaded: the vector that memory holds.
            column: of its first lane.
            key: of that column.
            count: how many of its lanes are columns.
        """
        known = {self.loaded: [loaded]}
        for read in self.others:
            memory = self.memories[read.source]
            if read.is_number:
                element = vectors.load_element(memory, vectors.index(0))
                known[read.value] = [vectors.repeat(element, self.lanes)]
            else:
                known[read.value] = [vectors.load(memory, column, self.lanes, count)]
        place = VectorPosition(column, column, key, count)
        return self.epilogue.compute(self.value, place, known)
