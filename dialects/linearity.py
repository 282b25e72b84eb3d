"""`linear`: the `jvp` rule of ops that are linear in each of their operands."""

from functools import reduce

from aotc.dialects.builder import Builder
from aotc.dialects.graph import GraphOp, Tangent
from aotc.mlir import Value


@staticmethod
def linear(b: Builder, op: GraphOp, *tangents: Tangent) -> Value:
    """The same op on the tangent of each operand, added up."""
    cls, operands = type(op), list(op.operands)
    attributes = cls.attributes_of(op)
    terms = [
        cls.build(*operands[:n], tangent, *operands[n + 1 :], **attributes)
        for n, tangent in enumerate(tangents)
        if tangent is not None
    ]
    return reduce(b.add, terms)
