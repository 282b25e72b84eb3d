"""Where the elements of a tensor come from: neighbours in memory, others, or none."""

from typing import Any

from aotc.mlir import ir

# ops whose results have elements of no more than their operands
_PLAIN = (
    "arith.",
    "linalg.",
    "tensor.cast",
    "tensor.collapse_shape",
    "tensor.empty",
    "tensor.expand_shape",
    "tensor.extract_slice",
    "tensor.pad",
    "tensor.splat",
)


def reads_memory(value: Any) -> bool:
    """Whether an input or an array that is stored goes into a lowered tensor.

    Note [reductions of nothing]: IREE 3.13 adds up too few elements of a tensor that is
    computed from no memory at all, such as a repeated constant: 25 of 125 ones. Such a
    tensor is put into memory first.
    """
    rest, seen = [value], set()
    while rest:
        op = rest.pop().owner
        if isinstance(op, ir.Block) or not op.name.startswith(_PLAIN):
            return True
        if op.name == "arith.constant" and not _is_one_number(op):
            return True
        if op not in seen:
            seen.add(op)
            rest += op.operands
    return False


def leaves_gaps(value: Any) -> bool:
    """Whether neighbours along the last axis of a lowered tensor are none in memory.

    Note [reads with gaps]: IREE 3.13 fuses a slice, and a plain copy of one, into what
    reads it, and cannot compile a tensor.extract from a buffer whose last axis has a
    stride. Such a slice is put into memory first.
    """
    while not isinstance(value.owner, ir.Block):
        op = value.owner
        if op.name == "tensor.extract_slice":
            return _has_gaps(op) or leaves_gaps(op.operands[0])
        if not op.name.startswith(_VIEWS) and not _is_copy(op):
            return False
        value = op.operands[0]
    return False


# ops that only change the shape
_VIEWS = ("tensor.cast", "tensor.collapse_shape", "tensor.expand_shape")


def _is_copy(op: Any) -> bool:
    """Whether an op is a linalg.generic that gives its one input as it is."""
    if op.name != "linalg.generic" or len(op.operands) != 2:
        return False
    body = list(op.regions[0].blocks[0].operations)
    maps = {ir.AffineMapAttr(each).value for each in op.attributes["indexing_maps"]}
    argument = op.regions[0].blocks[0].arguments[0]
    return len(body) == 1 and body[0].operands[0] == argument and len(maps) == 1


def _has_gaps(slice_op: Any) -> bool:
    """Whether a slice leaves elements out along, or below, its last axis."""
    source = ir.RankedTensorType(slice_op.operands[0].type).shape
    sizes = list(ir.DenseI64ArrayAttr(slice_op.attributes["static_sizes"]))
    strides = list(ir.DenseI64ArrayAttr(slice_op.attributes["static_strides"]))
    last = max((axis for axis, n in enumerate(sizes) if n != 1), default=-1)
    return last >= 0 and (strides[last] != 1 or any(n != 1 for n in source[last + 1 :]))


def _is_one_number(constant: Any) -> bool:
    value = constant.attributes["value"]
    return not isinstance(value, ir.DenseElementsAttr) or value.is_splat
