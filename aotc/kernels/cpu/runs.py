"""Elements that lie side by side, by vectors."""

from __future__ import annotations

from collections.abc import Callable

from aotc.kernels.cpu import loops
from aotc.kernels.cpu.vectors import add, index
from aotc.kernels.cpu.walks import parts
from aotc.mlir import Value

_UNROLLED = 8  # vectors


def write_run(length: int, lanes: int, write: Callable[[Value, int], None]) -> None:
    """Emit code for a contiguous run of elements, vector by vector, unrolled.

    Args:
        length: of the run.
        lanes: of a vector.
        write: writes a vector, given where it begins and how many elements it has.
    """
    step = lanes * _UNROLLED
    whole = length // step if length > 2 * step else 0

    def write_some(first: Value, count: int) -> None:
        for offset, there in parts(count, lanes):
            write(add(first, offset), there)

    if whole:
        loops.repeat_for(0, whole * step, step, lambda n: write_some(n, step))
    write_some(index(whole * step), length - whole * step)
