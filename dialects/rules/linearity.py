"""`linear`: the `jvp` rule of ops that are linear in each of their operands."""

from collections.abc import Callable
from functools import reduce
from typing import Any

from aotc.dialects.builder import Builder
from aotc.dialects.graph import GraphOp, Tangent


def _linear(b: Builder, op: GraphOp, *tangents: Tangent) -> Any:
    """Emit the sum of the op applied to the tangent of each operand in turn."""
    operands = list(op.operands)
    terms = [
        op.rebuild(*operands[:n], tangent, *operands[n + 1 :])
        for n, tangent in enumerate(tangents)
        if tangent is not None
    ]
    return reduce(b.add, terms)


linear: Callable[..., Any] = staticmethod(_linear)
