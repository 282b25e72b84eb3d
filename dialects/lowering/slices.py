"""Slices of one element, which IREE cannot give a higher rank.

Note [slices of one element]: IREE 3.13 reduces such a slice to a scalar, and merges a
tensor.expand_shape of it into the slice, whose result then has a higher rank than its
source ("expected rank to be smaller or equal to the other rank", BubbleUpExpandShapes).
It moves a tensor.expand_shape up through tensor.concat, too. So where such a slice
takes a higher rank, or is a part of a tensor.concat, its element is read by position.
IREE turns a read at position 0 into a slice again, unless a barrier hides the 0.
"""

from aotc.dialects import iree_text
from aotc.mlir import Operation, Value, arith, ir


def element_slice(x: Value) -> Operation | None:
    """Return the slice op of one element that a tensor is a view of, or None."""
    while not isinstance(x.owner, ir.Block):
        if x.owner.name == "tensor.extract_slice":
            sizes = ir.DenseI64ArrayAttr(x.owner.attributes["static_sizes"])
            return x.owner if all(size == 1 for size in sizes) else None
        if x.owner.name not in ("tensor.collapse_shape", "tensor.expand_shape"):
            return None
        x = x.owner.operands[0]
    return None


def element_position(slice_op: Operation) -> list[Value]:
    """Emit the position that a slice of one element reads, as index values."""
    static = list(ir.DenseI64ArrayAttr(slice_op.attributes["static_offsets"]))
    dynamic = iter(list(slice_op.operands)[1:])
    index, given = ir.IndexType.get(), ir.ShapedType.get_dynamic_stride_or_offset()
    position = [
        next(dynamic) if offset == given else arith.ConstantOp(index, offset).result
        for offset in static
    ]
    return position if any(static) else list(map(iree_text.scalar_barrier, position))
