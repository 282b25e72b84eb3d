"""Rows of the left operand of a contraction: where they lie, and widened.

Rows of elements that are narrower than f32 are widened before they are multiplied, some
terms at a time, in memory that stays in the first cache: each element is then read once
for each vector of a panel, as one of f32 is. Of rows that lie side by side, the terms
that one instruction multiplies are brought together there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from aotc.dialects.lowering.scalars import constant
from aotc.kernels.cpu import loops, vectors
from aotc.kernels.cpu.contraction.factors import Factors
from aotc.kernels.cpu.vectors import add, index, scale
from aotc.kernels.cpu.walks import visit_by_size
from aotc.kernels.geometry import ConvolutionGeometry
from aotc.kernels.machine import Machine
from aotc.kernels.planning.tile import PART, ContractionTile, widens
from aotc.mlir import Value, arith


@dataclass(frozen=True)
class LeftRows:
    """Rows of the left operand in memory: offset and strides.

    Args:
        memory: that holds them.
        begin: the first element of the first one.
        row: elements from one row to the next.
        step: from one term to the next.
    """

    memory: Value
    begin: Value
    row: int
    step: int


@dataclass(frozen=True)
class Widening:
    """An emitter of copies of left rows, widened, to stack memory.

    Args:
        memory: for `PART` terms of as many rows as a tile may have.
        rows: so many.
        factors: what multiplies them.
        rest: terms of a sum that are left after the last ones multiplied together.
    """

    memory: Value
    rows: int
    factors: Factors
    rest: int

    @classmethod
    def of(
        cls,
        geometry: ConvolutionGeometry,
        tile: ContractionTile,
        machine: Machine | None,
    ) -> Widening | None:
        """Emit the allocation for widened rows; None where rows are read as they are.

        Rows are read as they are where they are f32, have unit stride along neither
        rows nor terms, or are bytes that are multiplied as bytes.
        """
        factors = Factors.of(geometry, tile, machine)
        if not widens(geometry, factors.mma):
            return None
        memory = vectors.allocate(tile.rows * PART, factors.element)
        return cls(memory, tile.rows, factors, geometry.depth % factors.terms)

    def widen(self, left: LeftRows, rows: int, length: Value) -> LeftRows:
        """Emit the widened copy of some rows; return where and how it lies.

        Args:
            left: the rows; one of their distances is 1.
            rows: how many there are.
            length: the number of terms, at most `PART`.
        """
        if left.step == 1:
            for row in range(rows):
                source = add(left.begin, row * left.row)
                self._copy_run(left.memory, source, index(row * PART), length)
            return LeftRows(self.memory, index(0), PART, 1)

        terms = self.factors.terms

        def widen_terms(number: Value, count: int = terms) -> None:
            source = add(left.begin, scale(number, terms * left.step))
            places = [add(source, term * left.step) for term in range(count)]
            self._interleave(
                left.memory, places, scale(number, terms * self.rows), rows
            )

        whole = arith.divui(length, index(terms)) if terms > 1 else length
        loops.repeat_for(0, whole, 1, widen_terms)
        if self.rest:  # after the last part of the terms
            last = arith.ceildivui(length, index(terms))
            loops.repeat_for(whole, last, 1, lambda at: widen_terms(at, self.rest))
        return LeftRows(self.memory, index(0), terms, self.rows)

    def _copy_run(
        self, memory: Value, source: Value, target: Value, length: Value
    ) -> None:
        """Emit the widened copy of contiguous elements, padded with zeros.

        Zeros follow where the last terms are fewer than are multiplied at a time.
        """

        def copy(at: Value, count: int) -> None:
            self._copy(memory, add(source, at), add(target, at), count)

        terms = self.factors.terms
        visit_by_size(0, length, self.factors.lanes_of_factor, copy)
        if terms > 1:
            zero = constant(vectors.vector_type(1, self.factors.element), 0)
            end = arith.muli(arith.ceildivui(length, index(terms)), index(terms))
            loops.repeat_for(
                length,
                end,
                1,
                lambda at: vectors.store(zero, self.memory, add(target, at), 1),
            )

    def _interleave(
        self, memory: Value, sources: Sequence[Value], target: Value, rows: int
    ) -> None:
        """Emit the widened copy of some terms of rows, interleaved by row.

        Terms without a source are zeros.
        """
        found = [self.factors.rows(memory, source, rows) for source in sources]
        missing = self.factors.terms - len(found)
        found += [constant(found[0].type, 0)] * missing
        x = vectors.interleave(found)
        vectors.store(x, self.memory, target, self.factors.terms * rows)

    def _copy(self, memory: Value, source: Value, target: Value, count: int) -> None:
        """Emit the widened copy of a vector."""
        x = self.factors.rows(memory, source, count)
        vectors.store(x, self.memory, target, count)
