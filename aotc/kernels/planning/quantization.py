"""Plans of elementwise ops that end with bytes.

Those that no other kernel computes. Code that IREE makes of rounding and of casts to
bytes takes ten times as long.
"""

from __future__ import annotations

from aotc.dialects.ops.selection import Cast
from aotc.dialects.types import Size, Tensor, ceil_divide, element_count
from aotc.kernels import grain
from aotc.kernels.machine import Machine
from aotc.kernels.planning.movement import MovementBlocks
from aotc.kernels.quantization import Quantization
from aotc.kernels.typical import ROWS, typical_size


def plan(op: Cast, machine: Machine) -> MovementBlocks | None:
    """Return the schedule of a quantising cast to bytes; None if it gets no kernel.

    Rows are those of the last axis, whose length is static.
    """
    kind = Tensor.of(op.y)
    if kind.rank == 0 or Quantization.of(op) is None:
        return None
    width = kind.shape[-1]
    if not isinstance(width, int) or not machine.half_fills(width):
        return None
    rows = typical_size(_rows(op), ROWS)
    if rows * width < grain.elements(grain.LEAST):
        return None
    block = max(1, grain.elements(grain.MOVEMENT) // width)
    return MovementBlocks(machine.lanes, min(block, rows))


def workgroups(op: Cast, schedule: MovementBlocks) -> tuple[Size, Size]:
    """Return the numbers of workgroups: one for each block of rows, and 1."""
    return ceil_divide(_rows(op), schedule.block), 1


def _rows(op: Cast) -> Size:
    """Return the number of rows of a cast: all but its last axis."""
    return element_count(Tensor.of(op.y).shape[:-1])
