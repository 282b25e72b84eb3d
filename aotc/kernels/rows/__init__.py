"""What is computed along the last axes: norms, softmax, log softmax and reductions.

One workgroup has some rows. A row is gone through by vectors, once for each number that
is made of all of it (`walk`), and once for the results (`formulas`), which are made
with what follows (`Epilogue`). Its elements may be computed, too: in the first of these
passes, from which they are kept in the memory of a result for those that follow. Where
a row gives one number, short rows are gone through side by side, as many as a vector
has lanes, so that results are vectors, too.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from aotc.dialects.graph import GraphOp
from aotc.dialects.ops.normalization import LogSoftmax, Normalize, Softmax
from aotc.dialects.ops.reduction import (
    ReduceMax,
    ReduceMin,
    ReduceProd,
    ReduceSum,
    Reduction,
)
from aotc.dialects.types import Size, Tensor, ceil_divide
from aotc.kernels import grain, vectors
from aotc.kernels.arguments import Arguments
from aotc.kernels.epilogue import Epilogue, Place
from aotc.kernels.machine import Machine
from aotc.kernels.rows.formulas import Row, formula
from aotc.kernels.rows.operands import is_in_memory
from aotc.kernels.rows.tile import RowSizes, RowTile, choose_tile, reduced_axes
from aotc.kernels.rows.walk import Combination, Walk
from aotc.kernels.vectors import Values, add, scale
from aotc.kernels.walks import block_bounds, visit_by_size
from aotc.mlir import Function, Value

REDUCTIONS = (ReduceSum, ReduceProd, ReduceMax, ReduceMin)
ANCHORS = (Softmax, LogSoftmax, Normalize, *REDUCTIONS)


def plan(op: GraphOp, machine: Machine) -> RowTile | None:
    """The schedule for an op along the last axes; None where there is no kernel for it.

    The length of a row is static, elements are f32, and nobody reads the statistics of
    a norm.
    """
    types = [Tensor.of(value) for value in (*op.operands, *op.results)]
    if not all(x.dtype == "f32" and 0 not in x.shape for x in types):
        return None
    axes, sizes = reduced_axes(op), RowSizes.of(op)
    if not axes or sizes is None:
        return None
    if any(True for value in list(op.results)[1:] for _ in value.uses):
        return None
    if isinstance(op, Reduction) and not is_in_memory(op.x, axes):
        return None
    is_reduced = isinstance(op, Reduction)
    least = grain.elements(grain.LEAST if is_reduced else grain.LEAST_OF_NORM)
    if sizes.typical_count * sizes.length < least:
        return None
    if not machine.half_fills(sizes.length):
        return None
    return choose_tile(sizes, machine, is_reduced=is_reduced)


def column_axes(op: GraphOp) -> int:
    """How many of the last axes of the result are those of a row."""
    return 0 if isinstance(op, Reduction) else row_axes(op)


def row_axes(op: GraphOp) -> int:
    """How many of the last axes of the operand a row has."""
    return len(reduced_axes(op))


def workgroups(op: GraphOp, tile: RowTile) -> tuple[Size, Size]:
    """How many there are: blocks of rows."""
    sizes = RowSizes.of(op)
    assert sizes is not None
    return ceil_divide(sizes.count, tile.block), 1


def write(function: Function, anchor: GraphOp, tile: RowTile, given: Arguments) -> None:
    """Write the kernel of a region."""
    sizes = RowSizes.of(anchor)
    assert sizes is not None
    epilogue = Epilogue.of(function, anchor, given, tile.lanes)
    kernel = _Kernel(anchor, sizes.length, tile, epilogue)
    block, _ = given.workgroup
    is_even = isinstance(sizes.count, int) and sizes.count % tile.rows == 0
    kernel.write(block, given.size(sizes.count), is_even=is_even)


@dataclass(frozen=True)
class _Kernel:
    """Writes a kernel at the insertion point.

    Args:
        anchor: what is computed.
        length: of a row.
        tile: how they are cut up.
        epilogue: makes the results of what the anchor gives, and the elements of rows.
    """

    anchor: GraphOp
    length: int
    tile: RowTile
    epilogue: Epilogue

    def write(self, block: Value, count: Value, *, is_even: bool) -> None:
        """Write the work of one workgroup.

        Args:
            block: the number of its block of rows.
            count: of all rows.
            is_even: whether they are known to be a multiple of those of a tile.
        """
        rows = self.tile.rows
        first, last = block_bounds(block, self.tile.block, count)
        if is_even:
            vectors.repeat_for(
                first, last, rows, lambda row: self._write_tile(row, rows)
            )
        else:
            visit_by_size(first, last, rows, self._write_tile)

    def _write_tile(self, first: Value, rows: int) -> None:
        """Write rows side by side."""
        tile = self.tile
        walk = Walk(rows, self.length, tile.lanes, tile.vectors, width=tile.lanes)
        if isinstance(self.anchor, Reduction):
            self._write_numbers(self.anchor, walk, first)
        else:
            self._write_row(walk, first)

    def _write_row(self, walk: Walk, number: Value) -> None:
        """A row of results for each row."""
        x, begin = self.anchor.operands[0], scale(number, walk.length)

        def place(at: Value, count: int) -> Place:
            return Place(add(begin, at), at, 0, count)

        def compute(at: Value, count: int) -> Value:
            return self.epilogue.compute(x, place(at, count))

        def compute_and_keep(at: Value, count: int) -> Value:
            found = compute(at, count)
            row.keep(found, at, count)
            return found

        _, kept = self.epilogue.results[0]
        row = Row(walk, begin, compute, compute, kept)
        if not self.epilogue.is_read(x):
            row = replace(row, read_first=compute_and_keep, read=row.read_kept)
        result = formula(self.anchor, row)
        walk.visit(
            lambda at, count: self.epilogue.write(
                [place(at, count)], [result(at, count)]
            )
        )

    def _write_numbers(self, anchor: Reduction, walk: Walk, first: Value) -> None:
        """A number for each of some rows."""
        how = Combination.of(type(anchor))
        begins = [scale(add(first, row), walk.length) for row in range(walk.rows)]

        def elements(at: Value, count: int) -> Values:
            return [
                self.epilogue.compute(anchor.x, Place(add(begin, at), at, 0, count))
                for begin in begins
            ]

        totals = vectors.reduce_lanes(walk.reduce(how, elements), how.combine)
        self.epilogue.write([Place(first, first, 0, walk.rows)], [totals])
