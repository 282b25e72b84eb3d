"""Reductions over axes that are not the last ones: sums and the like of columns.

Vectors hold neighbouring columns, of which as many as there are registers for are gone
through from the first row to the last, side by side. Sums are made in parts, as those
of rows are (`aotc.kernels.cpu.rows.walk`). The mean of the pixels of an image, by
channels, is one of these.
"""

from __future__ import annotations

from dataclasses import dataclass

from aotc.dialects.ops.reduction import Reduction
from aotc.kernels.cpu import loops
from aotc.kernels.cpu.arguments import Arguments
from aotc.kernels.cpu.epilogue import Epilogue, Place
from aotc.kernels.cpu.rows.walk import Combination, Walk
from aotc.kernels.cpu.vectors import Values, add, scale
from aotc.kernels.cpu.walks import block_bounds, parts, visit_some_parts
from aotc.kernels.planning.columns import ColumnTile
from aotc.kernels.planning.reductions import Matrices, known_matrices
from aotc.mlir import Function, Value


def write(
    function: Function, anchor: Reduction, tile: ColumnTile, given: Arguments
) -> None:
    """Write the kernel of a region."""
    sizes = known_matrices(anchor)
    epilogue = Epilogue.of(function, anchor, given, tile.lanes)
    kernel = _Kernel(anchor, sizes, tile, epilogue)
    kernel.write(*given.workgroup, given.size(sizes.count))


@dataclass(frozen=True)
class _Kernel:
    """Writes a kernel at the insertion point.

    Args:
        anchor: what is computed.
        sizes: of the matrices.
        tile: how they are cut up.
        epilogue: makes the results of what the anchor gives, and elements of columns.
    """

    anchor: Reduction
    sizes: Matrices
    tile: ColumnTile
    epilogue: Epilogue

    def write(self, part: Value, block: Value, count: Value) -> None:
        """Write the work of one workgroup.

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
        """Write some columns of a matrix."""
        sizes, lanes = self.sizes, self.tile.lanes
        how = Combination.of(type(self.anchor))
        begin = scale(matrix, sizes.length * sizes.width)

        def places(row: Value) -> list[Place]:
            return [
                Place(
                    at=add(add(row, column), first),
                    column=add(column, first),
                    key=number,
                    count=there,
                )
                for number, (first, there) in enumerate(parts(count, lanes))
            ]

        def elements(row: Value, _: int) -> Values:
            here = places(add(begin, scale(row, sizes.width)))
            return [self.epilogue.compute(self.anchor.x, place) for place in here]

        side = -(-count // lanes)
        walk = Walk(side, sizes.length, lanes, self.tile.steps, width=1)
        sums, here = walk.reduce(how, elements), places(scale(matrix, sizes.width))
        self.epilogue.write(here, sums)
