"""Add up the integers of dequantised values, and scale the sums.

    %1 = graph.subtract(graph.cast(%q), %z)      %1 = … the same
    %2 = graph.multiply(%1, %s)             →    %2 = graph.reduce_sum(%1)
    %3 = graph.reduce_sum(%2)                    %3 = graph.multiply(%2, %s)

and so of the windows of a `sum_pool`, where %q is of i8 or u8, and %s and %z are one
number each: the mean of an image, average pooling. The sums are those of whole numbers
below 2**24, which f32 has all of: they are exact in any order, on every target the
same. Those of the dequantised numbers were rounded.

Left as they are: sums of more than 65,793 elements.

Ensures: no op is added but for the products after sums in the place of those before.
"""

from __future__ import annotations

from math import prod

from aotc.dialects.builder import Builder
from aotc.dialects.functions.functions import before
from aotc.dialects.ops.pooling import SumPool
from aotc.dialects.ops.reduction import ReduceSum
from aotc.dialects.patterns.values import repeated_scalar
from aotc.dialects.types import Tensor
from aotc.dialects.weight_values import weight_values
from aotc.mlir import Function, Operation
from aotc.passes.base import FunctionPass
from aotc.passes.dequantized import as_dequantized
from aotc.passes.properties import CALLS_INLINED

_MOST = (2**24 - 1) // 255  # differences of bytes, whose sum f32 has


class IntegerSums(FunctionPass):
    """Sum integers and scale the sum where the operand of a sum is dequantised."""

    name = "integer-sums"
    level = 2
    keeps_graph = True
    requires = (CALLS_INLINED,)

    def change(self, function: Function) -> bool:
        """Rewrite the matching sums of a function in place; return whether there were
        any.
        """
        weights = weight_values(function)
        ops = [*function.entry_block.operations]
        return any([_change(op) for op in ops if not {*op.results} & weights])


def _change(op: Operation) -> bool:
    """Replace a sum of dequantised values by a scaled integer sum; return whether it
    matched.
    """
    if not isinstance(op, (ReduceSum, SumPool)) or Tensor.of(op.y).dtype != "f32":
        return False
    count = _count(op)
    found = as_dequantized(op.x)
    if found is None or count is None or count > _MOST:
        return False
    if found.scale is None or not found.has_own_zero or not found.has_one_zero:
        return False
    b = Builder()
    with before(op):
        scale = repeated_scalar(b, found.scale)
        if scale is None:
            return False
        total = op.rebuild(found.difference(b, "f32"))
        kind = Tensor.of(op.y)
        scales = b.broadcast(scale, shape=kind.shape, axes=())
        scaled = b.multiply(total, scales)
    op.y.replace_all_uses_with(scaled)
    op.operation.erase()
    return True


def _count(op: ReduceSum | SumPool) -> int | None:
    """Return how many elements each sum adds up; None if a size is symbolic."""
    if isinstance(op, SumPool):
        return prod(op.window)
    sizes = [Tensor.of(op.x).shape[axis] for axis in op.axes]
    static = [size for size in sizes if isinstance(size, int)]
    return prod(static) if len(static) == len(sizes) else None
