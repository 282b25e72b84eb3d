"""Where the elements of a reduction come from."""

from __future__ import annotations

from collections.abc import Sequence

from aotc.dialects.graph import GraphOp
from aotc.dialects.ops.creation import Constant
from aotc.dialects.ops.shape import Broadcast
from aotc.kernels.epilogue import defining_op, readable_source
from aotc.mlir import Value

# families of ops whose results IREE computes by themselves
_FAMILIES_IN_MEMORY = {
    "attention", "contraction", "convolution", "cumulative", "factorization", "fourier",
    "normalization", "ordering", "pooling", "reduction", "scattering",
}  # fmt: skip


def is_in_memory(value: Value, columns: Sequence[int]) -> bool:
    """Whether a kernel can read the elements of a reduction, or compute them.

    Else IREE's code computes them with the sum, where the kernel would have them
    written to memory first.
    """
    rest, seen = [value], set[Value]()
    while rest:
        each = rest.pop()
        op = defining_op(each)
        if each in seen or not isinstance(op, GraphOp):
            continue
        seen.add(each)
        if type(op).family in _FAMILIES_IN_MEMORY:
            continue
        if isinstance(op, (Broadcast, Constant)):
            source = readable_source(each, columns)
            if source is None or source == each:
                return False
        elif type(op).on_vectors:
            rest += op.operands
        else:
            return False
    return True
