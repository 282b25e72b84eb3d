"""Where the elements of a tensor come from: from memory, or from nothing but code."""

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


def _is_one_number(constant: Any) -> bool:
    value = constant.attributes["value"]
    return not isinstance(value, ir.DenseElementsAttr) or value.is_splat
