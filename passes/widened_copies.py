"""Give each reader of dequantised bytes a copy of the ops that dequantise them.

Each kernel can then read the bytes, which are fewer, and do that itself; what none does
becomes one again (`cse`).
"""

from __future__ import annotations

from collections.abc import Container

from aotc.dialects.functions import before
from aotc.dialects.ops.binary import Multiply, Subtract
from aotc.dialects.ops.selection import Cast
from aotc.dialects.types import Tensor
from aotc.dialects.walking import clone
from aotc.kernels.elementwise import NARROW
from aotc.kernels.operands import is_repeated
from aotc.mlir import Function, Operation, Value


def copy_widened(function: Function, weights: Container[Value]) -> None:
    """Copy the ops of a function that dequantise bytes, for each reader but the first.

    Args:
        function: of any ops.
        weights: values that the build computes, which stay as they are.
    """
    found, values = list[Operation](), set[Value]()
    for op in function.entry_block.operations:
        if _widens(op, values) and op.results[0] not in weights:
            found.append(op)
            values.add(op.results[0])
    for op in reversed(found):
        for use in [*op.results[0].uses][1:]:
            with before(op):
                (copy,) = clone(op, list(op.operands))
            use.owner.operands[use.operand_number] = copy


def _widens(op: Operation, widened: Container[Value]) -> bool:
    """Return whether an op is a step from bytes to the numbers that they stand for."""
    if not isinstance(op, (Cast, Multiply, Subtract)):
        return False
    if Tensor.of(op.results[0]).dtype in NARROW:
        return False
    if isinstance(op, Cast) and Tensor.of(op.x).dtype in NARROW:
        return True
    own = [value for value in op.operands if value in widened]
    others = [value for value in op.operands if value not in widened]
    return len(own) == 1 and all(map(is_repeated, others))
