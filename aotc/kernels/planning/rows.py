"""Plans of ops along the last axes, by rows."""

from __future__ import annotations

from dataclasses import dataclass

from aotc.dialects.graph import GraphOp
from aotc.dialects.ops.normalization import LogSoftmax, Normalize, Softmax
from aotc.dialects.ops.quantization import MOST_SHARES, ByteSoftmax
from aotc.dialects.ops.reduction import (
    ReduceMax,
    ReduceMin,
    ReduceProd,
    ReduceSum,
    Reduction,
)
from aotc.dialects.types import Size, Tensor, ceil_divide
from aotc.kernels import grain
from aotc.kernels.elementwise import NARROW
from aotc.kernels.machine import STACK_BYTES, Machine
from aotc.kernels.planning.reductions import (
    MatrixBatch,
    is_in_memory,
    known_matrices,
    reduced_axes,
)
from aotc.kernels.planning.tile import split_evenly
from aotc.kernels.schedule import Schedule
from aotc.kernels.typical import ROWS, typical_size

REDUCTIONS = (ReduceSum, ReduceProd, ReduceMax, ReduceMin)
ANCHORS = (Softmax, LogSoftmax, ByteSoftmax, Normalize, *REDUCTIONS)
_MOST_KEPT = STACK_BYTES // 2  # of a row, on the stack
_SHORT = 16  # vectors of a row, of which one accumulator may add up all


@dataclass(frozen=True)
class RowTile(Schedule):
    """The schedule of a kernel that goes along rows: a softmax, norm or reduction.

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


def choose_tile(sizes: MatrixBatch, machine: Machine, *, is_reduced: bool) -> RowTile:
    """Return the schedule for rows of given sizes on a machine.

    There are as many accumulators as additions are under way at a time. If a row gives
    one number (`is_reduced`) and is short, they are of as many rows as a vector has
    lanes, which makes a vector of results; else all of them are of one row.

    Args:
        sizes: of the rows, each of which is a matrix of one column.
        machine: that computes them.
        is_reduced: whether a row gives one number.
    """
    needed = -(-sizes.length // machine.lanes)
    count = typical_size(sizes.count, ROWS)
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


def plan(op: GraphOp, machine: Machine) -> RowTile | None:
    """Return the schedule of an op along its last axes; None if it gets no kernel.

    The length of a row is static, elements are floats but of a softmax of bytes, and
    somebody reads more of a norm than its statistics.
    """
    types = [Tensor.of(value) for value in (*op.operands, *op.results)]
    of_bytes = isinstance(op, ByteSoftmax)
    known = (*machine.dtypes, *NARROW) if of_bytes else machine.dtypes
    if not all(x.dtype in known and 0 not in x.shape for x in types):
        return None
    axes, sizes = reduced_axes(op), MatrixBatch.of(op)
    if sizes is None or axes[-1] != types[0].rank - 1:
        return None
    if of_bytes and sizes.length > MOST_SHARES:
        return None
    if len(op.results) > 1 and not any(True for _ in op.results[0].uses):
        return None
    if isinstance(op, Reduction) and not is_in_memory(op.x, axes, machine.dtypes):
        return None
    is_reduced = isinstance(op, Reduction)
    least = grain.elements(grain.LEAST if is_reduced else grain.LEAST_OF_NORM)
    if typical_size(sizes.count, ROWS) * sizes.length < least:
        return None
    if not machine.half_fills(sizes.length):
        return None
    return choose_tile(sizes, machine, is_reduced=is_reduced)


def fits_stack(length: int) -> bool:
    """Return whether a row of `length` f32 elements fits the stack."""
    return 4 * length <= _MOST_KEPT


def column_axes(op: GraphOp) -> int:
    """Return how many of the result's last axes a row has; 0 for a reduction."""
    return 0 if isinstance(op, Reduction) else row_axes(op)


def row_axes(op: GraphOp) -> int:
    """Return the number of the operand's last axes that a row has."""
    return len(reduced_axes(op))


def workgroups(op: GraphOp, tile: RowTile) -> tuple[Size, Size]:
    """Return the numbers of workgroups: one for each block of rows, and 1."""
    return ceil_divide(known_matrices(op).count, tile.block), 1
