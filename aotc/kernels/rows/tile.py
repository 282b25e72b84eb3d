"""How rows are cut up, and the sizes that this depends on."""

from __future__ import annotations

from dataclasses import dataclass

from aotc.dialects.graph import GraphOp
from aotc.dialects.ops.normalization import AlongAxis, Normalize
from aotc.dialects.ops.reduction import Reduction
from aotc.dialects.types import Size, Tensor, element_count
from aotc.kernels import grain
from aotc.kernels.machine import Machine
from aotc.kernels.schedule import Schedule
from aotc.kernels.tile import split_evenly
from aotc.kernels.typical import ROWS, typical

_SHORT = 16  # vectors of a row, of which one accumulator may add up all


@dataclass(frozen=True)
class RowSizes:
    """Rows of a tensor, one after the other in memory.

    Args:
        count: of rows; a call may decide it.
        length: of each, which is static.
    """

    count: Size
    length: int

    @classmethod
    def of(cls, op: GraphOp) -> RowSizes | None:
        """Those of an op along the last axes; None if it is along others."""
        shape, axes = Tensor.of(op.operands[0]).shape, reduced_axes(op)
        first = len(shape) - len(axes)
        if axes != tuple(range(first, len(shape))):
            return None
        length = element_count(shape[first:])
        return (
            cls(element_count(shape[:first]), length)
            if isinstance(length, int)
            else None
        )

    @property
    def typical_count(self) -> int:
        """The number of rows that the schedule is made for."""
        return typical(self.count, ROWS)


def reduced_axes(op: GraphOp) -> tuple[int, ...]:
    """The axes along which an op computes."""
    assert isinstance(op, (AlongAxis, Normalize, Reduction))
    return (op.axis,) if isinstance(op, AlongAxis) else tuple(sorted(op.axes))


@dataclass(frozen=True)
class RowTile(Schedule):
    """The schedule of what is computed along rows.

    Args:
        lanes: elements of a vector.
        rows: that are gone through side by side; as many as lanes, or one.
        vectors: of a row that are read in one step, each with an accumulator.
        block: rows of a workgroup; a multiple of `rows`.
    """

    lanes: int
    rows: int
    vectors: int
    block: int


def choose_tile(sizes: RowSizes, machine: Machine, *, is_reduced: bool) -> RowTile:
    """The schedule for rows on a machine.

    There are as many accumulators as additions are under way at a time. If a row gives
    one number (`is_reduced`) and is short, they are of as many rows as a vector has
    lanes, which makes a vector of results; else all of them are of one row.

    Args:
        sizes: of the rows.
        machine: that computes them.
        is_reduced: whether a row gives one number.
    """
    needed = -(-sizes.length // machine.lanes)
    count = sizes.typical_count
    is_many = is_reduced and needed <= _SHORT and count >= machine.lanes
    rows = machine.lanes if is_many else 1
    tiles = -(-count // rows)
    wanted = -(-grain.elements(grain.ROWS) // (rows * sizes.length))
    return RowTile(
        lanes=machine.lanes,
        rows=rows,
        vectors=min(needed, max(1, machine.under_way // rows)),
        block=rows * max(split_evenly(tiles, min(wanted, tiles))),
    )
