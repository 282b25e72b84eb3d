"""`linear`: the `jvp` rule of ops that are linear in each of their operands."""

from functools import reduce

from aotc.dialects.builder import Builder
from aotc.dialects.graph import GraphOp, Tangent
from aotc.mlir import Value


@staticmethod
def linear(b: Builder, op: GraphOp, *tangents: Tangent) -> Value:
    """The same op on the tangent of each operand, added up."""
    operands = list(op.operands)
    terms = [
        op.rebuild(*operands[:n], tangent, *operands[n + 1 :])
        for n, tangent in enumerate(tangents)
        if tangent is not None
    ]
    return reduce(b.add, terms)
