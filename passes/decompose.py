"""Replace ops that are made of other ops by those: each gives its own `decompose`.

    %q, %r = graph.qr(%x)      →      a loop of reflections, in graph ops

An op is differentiated whole, so derivatives are written before. The ops of regions,
which have kernels, stay.
"""

from aotc.dialects.builder import replace_op
from aotc.dialects.fusion import is_region
from aotc.dialects.graph import GraphOp
from aotc.mlir import Module, func
from aotc.passes.base import Pass, Unit
from aotc.passes.properties import DERIVATIVES_WRITTEN, OPS_DECOMPOSED


class Decompose(Pass):
    """Decompose until only ops that can be lowered are left."""

    name = "decompose"
    level = 0
    keeps_graph = True
    requires = (DERIVATIVES_WRITTEN,)
    ensures = (OPS_DECOMPOSED,)

    def run(self, unit: Unit) -> bool:
        """Whether anything changed."""
        changed = False
        while composed := _composed_ops(unit.module):
            for op in composed:
                replace_op(op, type(op).decompose)
            changed = True
        return changed


def _composed_ops(module: Module) -> list[GraphOp]:
    """The ops that are made of others."""
    return [
        op
        for function in module.body.operations
        if isinstance(function, func.FuncOp) and not function.is_external
        if not is_region(function)
        for op in function.entry_block.operations
        if isinstance(op, GraphOp) and hasattr(type(op), "decompose")
    ]
