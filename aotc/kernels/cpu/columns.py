"""Reductions over axes that are not the last ones: sums and the like of columns.

Vectors hold neighbouring columns, of which as many as there are registers for are gone
through from the first row to the last, side by side. Sums are made in parts, as those
of rows are (`aotc.kernels.cpu.rows.walk`). The mean of the pixels of an image, by
channels, is one of these. Several reductions of what is made of the same tensors go
through it once, each with accumulators of its own.

Of a norm, the mean and the variance of columns are made by two passes over them: one
adds up elements, and the other one the squares of what is left of them without their
mean, so that a mean that is much larger than the deviation takes no digits away.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from aotc.dialects.ops.normalization import Normalize
from aotc.dialects.ops.reduction import ReduceSum, Reduction
from aotc.kernels.cpu import loops, vectors
from aotc.kernels.cpu.arguments import KernelArguments
from aotc.kernels.cpu.epilogue import Epilogue, VectorPosition
from aotc.kernels.cpu.rows.walk import Combination, Walk
from aotc.kernels.cpu.vectors import Values, add, scale
from aotc.kernels.cpu.walks import block_bounds, parts, visit_some_parts
from aotc.kernels.planning.columns import ColumnTile, vectors_of
from aotc.kernels.planning.reductions import MatrixBatch, known_matrices
from aotc.mlir import Function, Value, arith


def write(
    function: Function,
    anchor: Reduction | Normalize,
    tile: ColumnTile,
    arguments: KernelArguments,
) -> None:
    """Emit the body of a kernel that reduces columns of matrices, as `anchor` does."""
    sizes = known_matrices(anchor)
    epilogue = Epilogue.of(function, anchor, arguments, tile.lanes)
    operations = function.entry_block.operations
    others = [op for op in operations if isinstance(op, Reduction) and op != anchor]
    side = vectors_of(1 + len(others), arguments.known_machine)
    kernel = _ColumnKernel(anchor, others, sizes, tile, epilogue, side)
    kernel.write(*arguments.workgroup, arguments.size(sizes.count))


@dataclass(frozen=True)
class _ColumnKernel:
    """An emitter of reductions along the columns of matrices, with epilogues.

    Args:
        anchor: what is computed.
        others: reductions that are computed with it.
        sizes: of the matrices.
        tile: how they are cut up.
        epilogue: makes the results of what the anchor gives, and elements of columns.
        side: vectors that are gone through side by side, at most.
    """

    anchor: Reduction | Normalize
    others: Sequence[Reduction]
    sizes: MatrixBatch
    tile: ColumnTile
    epilogue: Epilogue
    side: int

    def write(self, part: Value, block: Value, count: Value) -> None:
        """Emit the work of one workgroup: some columns of a block of matrices.

        Args:
            part: the number of its part of the columns.
            block: the number of its block of matrices.
            count: of all matrices.
        """
        tile, width = self.tile, self.sizes.width

        def write_matrix(matrix: Value) -> None:
            visit_some_parts(
                (scale(part, tile.tiles), tile.tiles),
                width,
                tile.columns,
                lambda number, columns: self._write_tile(
                    matrix, scale(number, tile.columns), columns
                ),
            )

        bounds = block_bounds(block, tile.block, count)
        loops.repeat_for(*bounds, 1, write_matrix)

    def _write_tile(self, matrix: Value, column: Value, count: int) -> None:
        """Emit the reduction of a tile's columns of one matrix."""
        for first, there in parts(count, self.side * self.tile.lanes):
            self._write_columns(matrix, add(column, first), there)

    def _write_columns(self, matrix: Value, column: Value, count: int) -> None:
        """Emit the reduction and epilogue of `count` columns that fit the registers."""
        begin = scale(matrix, self.sizes.length * self.sizes.width)
        columns = _ColumnLoop(self, begin, column, count)
        here = columns.places(scale(matrix, self.sizes.width))
        if isinstance(self.anchor, Normalize):
            self._write_statistics(self.anchor, columns, here)
            return
        anchors = [self.anchor, *self.others]
        how = Combination.of(type(self.anchor))
        sums, *rest = columns.reduce(how, [each.x for each in anchors])
        values: list[Value] = [op.y for op in self.others]
        others = dict(zip(values, rest, strict=True))
        self.epilogue.write(here, sums, others)

    def _write_statistics(
        self, norm: Normalize, columns: _ColumnLoop, here: Sequence[VectorPosition]
    ) -> None:
        """Emit the means and variances of some columns of a norm, by two passes."""
        lanes = self.tile.lanes
        count, total = float(self.sizes.length), Combination.of(ReduceSum)
        length = vectors.splat(count, lanes)
        zero = vectors.splat(0.0, lanes)
        means = [zero] * len(here)
        if norm.centered:
            (sums,) = columns.reduce(total, [norm.x])
            means = [arith.divf(x, length) for x in sums]

        def square(number: int, x: Value) -> Value:
            shifted = arith.subf(x, means[number]) if norm.centered else x
            return arith.mulf(shifted, shifted)

        (squares,) = columns.reduce(total, [norm.x], square)
        variances = [arith.divf(x, length) for x in squares]
        known: dict[Value, Values] = {norm.mean: means, norm.variance: variances}
        for value, memory in self.epilogue.results:
            for place, x in zip(here, known[value], strict=True):
                vectors.store(x, memory, place.at, lanes, place.count)


@dataclass(frozen=True)
class _ColumnLoop:
    """A pass over all rows of a few columns of one matrix.

    Args:
        kernel: that does.
        begin: where the matrix begins.
        column: the first of the columns.
        count: of the columns.
    """

    kernel: _ColumnKernel
    begin: Value
    column: Value
    count: int

    def places(self, row: Value) -> list[VectorPosition]:
        """Return the positions of a row's vectors, given the offset of the row."""
        return [
            VectorPosition(
                at=add(add(row, self.column), first),
                column=add(self.column, first),
                key=number,
                count=there,
            )
            for number, (first, there) in enumerate(parts(self.count, self._lanes))
        ]

    def reduce(
        self,
        combination: Combination,
        operands: Sequence[Value],
        change: Callable[[int, Value], Value] = lambda number, x: x,
    ) -> list[Values]:
        """Emit the reduction of some tensors' columns; return vectors for each tensor.

        Args:
            combination: of the elements of a column.
            operands: the tensors.
            change: makes what is combined of an element, given the number of its
                vector.
        """
        kernel = self.kernel

        def elements(row: Value, _: int) -> Values:
            here = self.places(add(self.begin, scale(row, kernel.sizes.width)))
            found = map(partial(kernel.epilogue.compute_all, operands), here)
            made = [
                [change(number, x) for x in each] for number, each in enumerate(found)
            ]
            return [x for each in zip(*made, strict=True) for x in each]

        side = -(-self.count // self._lanes)
        rows = side * len(operands)
        walk = Walk(rows, kernel.sizes.length, self._lanes, kernel.tile.steps, width=1)
        found = walk.reduce(combination, elements)
        return [found[first : first + side] for first in range(0, rows, side)]

    @property
    def _lanes(self) -> int:
        """The number of elements of a vector."""
        return self.kernel.tile.lanes
