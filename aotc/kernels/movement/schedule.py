"""How what only moves elements is cut up: concatenations and transposes."""

from __future__ import annotations

from dataclasses import dataclass

from aotc.kernels.schedule import Schedule

DTYPES = ("f32", "i32")  # that vectors are loaded and stored as they are
FEW_ROWS = 8  # long ones, which threads would have too few of to share


@dataclass(frozen=True)
class MovementBlocks(Schedule):
    """The schedule of a concatenation or a transpose.

    Args:
        lanes: elements of a vector.
        block: rows of a workgroup; of a transpose, elements of its long axis.
    """

    lanes: int
    block: int
