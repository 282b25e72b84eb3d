"""Where the elements of a reduction come from."""

from __future__ import annotations

from collections.abc import Sequence

from aotc.dialects.graph import GraphOp
from aotc.dialects.ops.creation import Constant
from aotc.dialects.ops.shape import Broadcast
from aotc.dialects.walking import backward_slice, defining_op
from aotc.kernels.elementwise import ALIKE, Elementwise
from aotc.kernels.operands import Whole
from aotc.mlir import Value


def is_in_memory(value: Value, columns: Sequence[int]) -> bool:
    """Whether a kernel can read the elements of a reduction, or compute them.

    Else IREE's code computes them with the sum, where the kernel would have them
    written to memory first.
    """

    def is_computed(value: Value) -> bool:
        op = defining_op(value)
        is_repeated = isinstance(op, (Broadcast, Constant))
        return isinstance(op, GraphOp) and op.on_vectors and not is_repeated

    return all(
        is_computed(each) or _is_written(each, columns)
        for each in backward_slice([value], is_computed)
    )


def _is_written(value: Value, columns: Sequence[int]) -> bool:
    """Whether a value is in memory before a reduction begins, or can be read there."""
    op = defining_op(value)
    if not isinstance(op, GraphOp) or type(op).in_memory:
        return True
    if not isinstance(op, (Broadcast, Constant)):
        return False
    read = Elementwise(ALIKE, columns).operand(value)
    return read is not None and not isinstance(read, Whole)
