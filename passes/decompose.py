"""Replace ops that are made of other ops by those: each gives its own `decompose`.

    %q, %r = graph.qr(%x)      →      a loop of reflections, in graph ops

An op is differentiated whole, so derivatives are written before. The ops of regions,
which have kernels, stay.
"""

from aotc.dialects.builder import replace_op
from aotc.dialects.functions.functions import functions_of
from aotc.dialects.functions.fusion import is_region
from aotc.dialects.graph import GraphOp
from aotc.mlir import Function, Module
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
        """Run the pass; return whether anything changed."""
        changed = False
        while any([decompose_ops(each) for each in _unfused(unit.module)]):
            changed = True  # new functions, too, may have such ops
        return changed


def _unfused(module: Module) -> list[Function]:
    functions = functions_of(module).values()
    return [x for x in functions if not x.is_external and not is_region(x)]


def decompose_ops(function: Function) -> bool:
    """Decompose the ops of a function; return whether there were any to decompose."""
    changed = False
    while composed := _composed_ops(function):
        for op in composed:
            replace_op(op, type(op).decompose)
        changed = True
    return changed


def _composed_ops(function: Function) -> list[GraphOp]:
    """The ops that are made of others."""
    return [
        op
        for op in function.entry_block.operations
        if isinstance(op, GraphOp) and hasattr(type(op), "decompose")
    ]
