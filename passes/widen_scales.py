"""Make f32 of narrow scales and offsets that no kernel reads.

    graph.dequantize(%q, %s : f16, …)  →  graph.dequantize(%q, graph.cast(%s), …)

Not all targets convert f16. Those of weights are converted when the model is built
(`fold-parameters`).

Ensures: what is dequantised outside of regions has scales and offsets of f32.
"""

from __future__ import annotations

from aotc.dialects.builder import Builder
from aotc.dialects.functions import before
from aotc.dialects.fusion import is_region
from aotc.dialects.ops.quantization import Dequantize
from aotc.dialects.types import Tensor
from aotc.mlir import Function
from aotc.passes.base import FunctionPass


class WidenScales(FunctionPass):
    """Convert narrow scales and offsets of ops outside of regions."""

    name = "widen-scales"
    level = 2
    keeps_graph = True

    def change(self, function: Function) -> bool:
        """Whether anything changed."""
        if is_region(function):
            return False
        changed, b = False, Builder()
        for op in [*function.entry_block.operations]:
            if not isinstance(op, Dequantize):
                continue
            for place in (1, 2):
                part = op.operands[place]
                if Tensor.of(part).dtype != "f32":
                    with before(op):
                        op.operation.operands[place] = b.cast(part, dtype="f32")
                    changed = True
        return changed
