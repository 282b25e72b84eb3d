"""What writes the kernels of each family, as one table: the emitter for processors.

What a kernel takes is said by its family, which passes ask for it
(`aotc.kernels.capabilities`); they import nothing of what is here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from aotc.kernels.cpu import (
    attention,
    chain,
    columns,
    contraction,
    depthwise,
    movement,
    quantization,
    rows,
    sorting,
    transposing,
    updates,
    winograd,
)
from aotc.kernels.cpu.arguments import Arguments
from aotc.kernels.cpu.attention import decoder
from aotc.mlir import Function

# writes the kernel of a region at the insertion point, given the region, its anchor
# and the schedule, both of the classes that its family names
Emitter = Callable[[Function, Any, Any, Arguments], None]

EMITTERS: Mapping[str, Emitter] = {
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
    "quantization": quantization.write,
    "transpose": transposing.write,
    "updates": updates.write,
}
