"""Table of the emitters that write each family's kernels for CPUs.

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
    elementwise,
    movement,
    nests,
    rows,
    scan,
    sorting,
    transposing,
    updates,
    winograd,
)
from aotc.kernels.cpu.arguments import KernelArguments
from aotc.kernels.cpu.attention import decoder, gradient
from aotc.mlir import Function

# writes the kernel of a region at the insertion point, given the region, its anchor
# and the schedule, both of the classes that its family names
Emitter = Callable[[Function, Any, Any, KernelArguments], None]

EMITTERS: Mapping[str, Emitter] = {
    "winograd": winograd.write,
    "chain": chain.write,
    "contraction": contraction.write,
    "decoder": decoder.write,
    "attention": attention.write,
    "attention_gradient": gradient.write,
    "depthwise": depthwise.write,
    "pooling": depthwise.write,
    "rows": rows.write,
    "columns": columns.write,
    "sort": sorting.write,
    "movement": movement.write,
    "quantization": elementwise.write,
    "elementwise": elementwise.write,
    "transpose": transposing.write,
    "nests": nests.write,
    "scan": scan.write,
    "updates": updates.write,
}
