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
    """Replace composite ops by what their `decompose` rules emit, until none is
    left.
    """

    name = "decompose"
    level = 0
    keeps_graph = True
    requires = (DERIVATIVES_WRITTEN,)
    ensures = (OPS_DECOMPOSED,)

    def run(self, unit: Unit) -> bool:
        """Rewrite the unit's module in place; return whether anything changed."""
        changed = False
        while any([decompose_ops(each) for each in _unfused(unit.module)]):
            changed = True  # new functions, too, may have such ops
        return changed


def _unfused(module: Module) -> list[Function]:
    """Return the module's functions with a body that are no fused regions."""
    functions = functions_of(module).values()
    return [x for x in functions if not x.is_external and not is_region(x)]


def decompose_ops(function: Function) -> bool:
    """Replace the composite ops of a function in place; return whether there were
    any.
    """
    changed = False
    while composed := _composed_ops(function):
        for op in composed:
            replace_op(op, type(op).decompose)
        changed = True
    return changed


def _composed_ops(function: Function) -> list[GraphOp]:
    """Return the ops of a function that have a `decompose` rule."""
    return [
        op
        for op in function.entry_block.operations
        if isinstance(op, GraphOp) and hasattr(type(op), "decompose")
    ]
