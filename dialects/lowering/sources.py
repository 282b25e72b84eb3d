"""Where the elements of a tensor come from: neighbours in memory, others, or none."""

from typing import Any

from aotc.mlir import ir

# ops whose results have elements of no more than their operands
_PLAIN = (
    "linalg.",
    "tensor.cast",
    "tensor.collapse_shape",
    "tensor.expand_shape",
    "tensor.extract_slice",
    "tensor.pad",
)

# ops whose results are repeated scalars, or nothing yet
_COMPUTED = ("linalg.fill", "tensor.empty", "tensor.from_elements", "tensor.splat")


def filled_with(value: Any) -> Any:
    """The scalar that a lowered tensor is filled with, or None.

    Note [parts of fills]: what rearranges a fill is written as another fill. IREE 3.13
    makes a step of a fill and of the slice of it that is joined with others, and does
    not compile it where a reader gives that another shape ("write affecting operations
    on global resources are restricted to workgroup distributed contexts").
    """
    op = value.owner
    is_fill = not isinstance(op, ir.Block) and op.name == "linalg.fill"
    return op.operands[0] if is_fill else None


class Sources:
    """Which lowered tensors read memory: an input, or an array that is stored.

    Note [reductions of nothing]: a reduction takes the sizes of its loops from its
    operands. IREE 3.13 folds a repeated scalar into the reduction, and computes a
    counter where it is needed, so that no operand is left that says how long a loop is,
    and too few elements are added up: 25 of 125 ones, one of `ones((batch, 4))`. Such
    an operand is put into memory first.

    Every tensor is looked at once, however many reductions follow it.
    """

    def __init__(self) -> None:
        self._known: dict[Any, bool] = {}

    def reads_memory(self, value: Any) -> bool:
        """Whether the elements of a lowered tensor come from memory, in part at least.

        (What sizes are computed from does not count.)
        """
        rest = [value]
        while rest:
            last = rest[-1]
            if last in self._known:
                rest.pop()
                continue
            sources = _sources(last)
            if sources is None or any(map(self._known.get, sources)):
                self._known[last] = True
                continue
            unknown = [each for each in sources if each not in self._known]
            rest += unknown
            if not unknown:
                self._known[last] = False
        return self._known[value]


def _sources(value: Any) -> list[Any] | None:
    """The tensors that the elements of `value` are computed from; None for memory."""
    op = value.owner
    if isinstance(op, ir.Block):
        return None
    if op.name == "arith.constant":
        return [] if _is_one_number(op) else None
    if op.name in _COMPUTED:
        return []
    if not op.name.startswith(_PLAIN):
        return None
    read = operands_of(op) if len(op.operands) == len(op.results) else op.operands
    return [each for each in read if isinstance(each.type, ir.ShapedType)]


def operands_of(op: Any) -> list[Any]:
    """What an op reads of what is computed outside of it, in its regions too."""
    values, inner = list(op.operands), set()
    for region in op.regions:
        for block in region:
            inner.update(block.arguments)
            for each in block.operations:
                values += operands_of(each)
                inner.update(each.results)
    return [value for value in values if value not in inner] if inner else values


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
