"""Plans of reductions of columns."""

from __future__ import annotations

from dataclasses import dataclass

from aotc.dialects.graph import GraphOp
from aotc.dialects.ops.reduction import Reduction
from aotc.dialects.types import Size, Tensor, ceil_divide
from aotc.kernels import grain
from aotc.kernels.machine import Machine
from aotc.kernels.planning.reductions import Matrices, is_in_memory, known_matrices
from aotc.kernels.planning.tile import split_evenly
from aotc.kernels.schedule import Schedule
from aotc.kernels.typical import IMAGES, typical

_SPARE = 6  # registers that are left to what makes the elements


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
        """The columns of a tile."""
        return self.lanes * self.vectors


def plan(op: Reduction, machine: Machine) -> ColumnTile | None:
    """The schedule of a reduction; None where there is no kernel for it.

    All but the first axes are static, those that are reduced are beside each other, and
    elements are floats.
    """
    x, sizes = Tensor.of(op.x), Matrices.of(op)
    if sizes is None or x.dtype not in machine.dtypes or 0 in x.shape:
        return None
    size = typical(sizes.count, IMAGES) * sizes.length * sizes.width
    if size < grain.elements(grain.LEAST) or not machine.half_fills(sizes.width):
        return None
    if not is_in_memory(op.x, _columns(op), machine.dtypes):
        return None
    return choose_tile(sizes, machine)


def choose_tile(sizes: Matrices, machine: Machine) -> ColumnTile:
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
    """Return the numbers of workgroups: parts of the columns, and blocks of
    matrices.
    """
    sizes = known_matrices(op)
    parts = ceil_divide(sizes.width, tile.columns * tile.tiles)
    return parts, ceil_divide(sizes.count, tile.block)


def column_axes(op: GraphOp) -> int:
    """Return the number of last axes, of the operand and the result, not reduced."""
    return len(_columns(op))


def _columns(op: GraphOp) -> range:
    assert isinstance(op, Reduction)
    return range(max(op.axes) + 1, Tensor.of(op.x).rank)
