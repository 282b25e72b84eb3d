"""Slices of one element in a shape of higher rank.

IREE 3.13 moves the tensor.expand_shape of such a slice into the slice, whose result
then has a higher rank than its source ("expected rank to be smaller or equal to the
other rank", BubbleUpExpandShapes). So the source is expanded, and then sliced.
"""

from typing import Any

from aotc.dialects.types import Tensor, lowered_type
from aotc.mlir import arith, ir, tensor


def element_slice(x: Any) -> Any:
    """The slice of one element that a lowered tensor is a view of, or None."""
    while not isinstance(x.owner, ir.Block):
        if x.owner.name == "tensor.extract_slice":
            sizes = ir.DenseI64ArrayAttr(x.owner.attributes["static_sizes"])
            return x.owner if all(size == 1 for size in sizes) else None
        if x.owner.name not in ("tensor.collapse_shape", "tensor.expand_shape"):
            return None
        x = x.owner.operands[0]
    return None


def sliced_element(slice_op: Any, result: Tensor) -> Any:
    """The element that `slice_op` gives, as a tensor of type `result`."""
    source, *dynamic = slice_op.operands
    static = list(ir.DenseI64ArrayAttr(slice_op.attributes["static_offsets"]))
    more = max(result.rank - source.type.rank, 0)
    rank = source.type.rank + more
    return tensor.extract_slice(
        lowered_type(result),
        _with_unit_axes(source, more),
        dynamic,
        [],
        [],
        [*static, *[0] * more],
        [1] * rank,
        [1] * rank,
    )


def _with_unit_axes(x: Any, count: int) -> Any:
    """`x` with `count` axes of size 1 after its own."""
    if count == 0:
        return x
    shape, last = list(x.type.shape), x.type.rank - 1
    sizes = [
        tensor.dim(x, arith.ConstantOp(ir.IndexType.get(), axis).result)
        for axis in range(x.type.rank)
        if x.type.is_dynamic_dim(axis)
    ]
    expanded = ir.RankedTensorType.get([*shape, *[1] * count], x.type.element_type)
    axes = [[axis] for axis in range(last)] + [list(range(last, last + count + 1))]
    return tensor.expand_shape(expanded, x, axes, sizes, expanded.shape)
