"""Reductions over axes that are not the last ones: sums and the like of columns.

Vectors hold neighbouring columns, of which as many as there are registers for are gone
through from the first row to the last, side by side. Sums are made in parts, as those
of rows are (`aotc.kernels.rows.walk`). The mean of the pixels of an image, by channels,
is one of these.
"""

from __future__ import annotations

from dataclasses import dataclass

from aotc.dialects.graph import GraphOp
from aotc.dialects.ops.reduction import Reduction
from aotc.dialects.types import Size, Tensor, ceil_divide, element_count
from aotc.kernels import grain, vectors
from aotc.kernels.arguments import Arguments
from aotc.kernels.epilogue import Epilogue, Place
from aotc.kernels.machine import Machine
from aotc.kernels.rows.operands import is_in_memory
from aotc.kernels.rows.walk import Combination, Walk
from aotc.kernels.schedule import Schedule
from aotc.kernels.tile import split_evenly
from aotc.kernels.typical import IMAGES, typical
from aotc.kernels.vectors import Values, add, scale
from aotc.kernels.walks import block_bounds, parts, visit_some_parts
from aotc.mlir import Function, Value

_SPARE = 6  # registers that are left to what makes the elements


@dataclass(frozen=True)
class ColumnSizes:
    """Matrices, one after the other, whose rows are reduced to one.

    Args:
        count: of matrices; a call may decide it.
        length: rows of each.
        width: columns of each.
    """

    count: Size
    length: int
    width: int

    @classmethod
    def of(cls, op: Reduction) -> ColumnSizes | None:
        """Those of a reduction over neighbouring axes; None if it is another."""
        shape, axes = Tensor.of(op.x).shape, sorted(op.axes)
        if not axes or axes != list(range(axes[0], axes[-1] + 1)):
            return None
        length = element_count(shape[axes[0] : axes[-1] + 1])
        width = element_count(shape[axes[-1] + 1 :])
        if not isinstance(length, int) or not isinstance(width, int):
            return None
        return cls(element_count(shape[: axes[0]]), length, width)


@dataclass(frozen=True)
class ColumnTile(Schedule):
    """The schedule of a reduction of columns.

    Args:
        lanes: elements of a vector.
        vectors: of columns that are gone through side by side, at most.
        steps: rows that are read in one step, each with accumulators of its own.
        tiles: so many vectors of columns, that a workgroup computes.
        block: matrices of which a workgroup computes some columns.
    """

    lanes: int
    vectors: int
    steps: int
    tiles: int
    block: int

    @property
    def columns(self) -> int:
        """Of a tile."""
        return self.lanes * self.vectors


def plan(op: Reduction, machine: Machine) -> ColumnTile | None:
    """The schedule of a reduction; None where there is no kernel for it.

    All but the first axes are static, those that are reduced are beside each other, and
    elements are f32.
    """
    x, sizes = Tensor.of(op.x), ColumnSizes.of(op)
    if sizes is None or x.dtype != "f32" or 0 in x.shape:
        return None
    size = typical(sizes.count, IMAGES) * sizes.length * sizes.width
    if size < grain.elements(grain.LEAST) or not machine.half_fills(sizes.width):
        return None
    if not is_in_memory(op.x, _columns(op)):
        return None
    return choose_tile(sizes, machine)


def choose_tile(sizes: ColumnSizes, machine: Machine) -> ColumnTile:
    """The schedule of a reduction of columns on a machine."""
    needed = -(-sizes.width // machine.lanes)
    count = max(split_evenly(needed, machine.registers - _SPARE))
    work = sizes.length * count * machine.lanes
    tiles, wanted = -(-needed // count), -(-grain.elements(grain.COLUMNS) // work)
    matrices = typical(sizes.count, IMAGES)
    return ColumnTile(
        lanes=machine.lanes,
        vectors=count,
        steps=min(sizes.length, -(-machine.under_way // count)),
        tiles=max(split_evenly(tiles, min(tiles, wanted))),
        block=max(split_evenly(matrices, max(1, min(matrices, wanted // tiles)))),
    )


def workgroups(op: Reduction, tile: ColumnTile) -> tuple[Size, Size]:
    """How many there are: parts of the columns, and blocks of matrices."""
    sizes = ColumnSizes.of(op)
    assert sizes is not None
    parts = ceil_divide(sizes.width, tile.columns * tile.tiles)
    return parts, ceil_divide(sizes.count, tile.block)


def column_axes(op: GraphOp) -> int:
    """How many of the last axes, of the operand and the result, are not reduced."""
    return len(_columns(op))


def _columns(op: GraphOp) -> range:
    assert isinstance(op, Reduction)
    return range(max(op.axes) + 1, Tensor.of(op.x).rank)


def write(
    function: Function, anchor: Reduction, tile: ColumnTile, given: Arguments
) -> None:
    """Write the kernel of a region."""
    sizes = ColumnSizes.of(anchor)
    assert sizes is not None
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
    sizes: ColumnSizes
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
        vectors.repeat_for(*bounds, 1, write_matrix)

    def _write_tile(self, matrix: Value, column: Value, count: int) -> None:
        """Some columns of a matrix."""
        sizes, lanes, how = (
            self.sizes,
            self.tile.lanes,
            Combination.of(type(self.anchor)),
        )
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
