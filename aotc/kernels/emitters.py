"""Who writes the kernels of each family: the emitters, by the backend they are for.

What a kernel takes is not said here but by its family, which passes ask
(`aotc.kernels.capabilities`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from aotc.dialects.fusion import Fused
from aotc.dialects.graph import GraphOp
from aotc.kernels import (
    attention,
    chain,
    columns,
    contraction,
    depthwise,
    movement,
    rows,
    sorting,
    winograd,
)
from aotc.kernels.arguments import Arguments
from aotc.kernels.attention import decoder
from aotc.kernels.families import anchor_of
from aotc.kernels.family import Schedule
from aotc.kernels.movement import transposing
from aotc.mlir import Function

# writes the kernel of a region at the insertion point, given the region, its anchor
# and the schedule
Emitter = Callable[[Function, GraphOp, Schedule, Arguments], None]

EMITTERS: Mapping[str, Mapping[str, Emitter]] = {
    "llvm-cpu": {
        "winograd": winograd.write,
        "chain": chain.write,
        "contraction": contraction.write,
        "decoder": decoder.write,
        "attention": attention.write,
        "depthwise": depthwise.write,
        "pooling": depthwise.write,
        "rows": rows.write,
        "columns": columns.write,
        "sort": sorting.write,
        "movement": movement.write,
        "transpose": transposing.write,
    }
}


def write(fused: Fused, function: Function, arguments: Arguments) -> None:
    """Write the kernel of a region at the insertion point."""
    emit = EMITTERS["llvm-cpu"][fused.kernel]
    emit(function, anchor_of(fused, function), fused.tile, arguments)
