"""Sums that may be long, split into blocks that are added up.

A sum whose additions may be reassociated is split: one dispatch adds up each block, in
parallel, and another one the blocks' sums. IREE has passes for this, and an attribute
that asks for it, but forgets the attribute where it merges what computes the elements
into a sum. So the merging is done first, and then the splitting, before IREE forms all
other dispatches. See Note [sums in blocks] in `dialects/lowering/summation.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from iree.compiler import ir

_MERGE = """
    iree-dispatch-creation-elementwise-op-fusion,iree-flow-canonicalize,cse,
    iree-dispatch-creation-fold-reshapes-into-tensor-barriers,
    iree-dispatch-creation-bubble-up-expand-shapes,iree-flow-canonicalize,cse,
    iree-dispatch-creation-elementwise-op-fusion,iree-flow-canonicalize,cse
"""
_SPLIT = "iree-dispatch-creation-form-split-reduction-dispatches"
_MOST_SUMMED_LOOPS = 2
_SIZES = "iree_linalg_ext.split_reduction"  # how much of each summed loop a block takes


def split_long_sums(module: ir.Module, block: int) -> bool:
    """Split marked reductions into dispatches of blocks; return whether any are marked.

    Args:
        module: what IREE has made of a module up to its phase `global-optimization`.
        block: how many numbers are added in series.
    """
    from iree.compiler import ir

    if not _marked_sums(module):
        return False
    _run(_MERGE, module)
    with module.context:
        for op in filter(_can_be_split, _marked_sums(module)):
            sizes = _block_sizes(op, block)
            attributes = [ir.IntegerAttr.get(ir.IndexType.get(), n) for n in sizes]
            op.attributes[_SIZES] = ir.ArrayAttr.get(attributes)
    _run(_SPLIT, module)
    for op in _marked_sums(module):
        if _SIZES in op.attributes:
            del op.attributes[_SIZES]  # a block's sum, not to be split again
            _give_own_zeros(op)
    return True


def _give_own_zeros(op: ir.Operation) -> None:
    """Initialize the reduction of a block from an empty tensor of its own.

    They start in their part of all blocks' sums, and IREE 3.13, which cannot tell that
    nobody else reads that part, would copy it to the stack, however large it is.
    """
    from iree.compiler import ir

    zeros = op.operands[len(op.operands) - 1].owner
    part = zeros.operands[1].owner
    _, offsets, sizes, _ = part.attributes["operandSegmentSizes"]
    dynamic = list(part.operands)[1 + offsets : 1 + offsets + sizes]
    with ir.InsertionPoint(zeros), op.location:
        kind = zeros.results[0].type
        empty = ir.Operation.create("tensor.empty", results=[kind], operands=dynamic)
    zeros.operands[1] = empty.results[0]


def _run(passes: str, module: ir.Module) -> None:
    """Run a pipeline of IREE passes on the functions of a module, in place."""
    from iree.compiler.passmanager import PassManager

    with module.context:
        pipeline = PassManager.parse(
            f"builtin.module(util.func({passes}),util.initializer({passes}))"
        )
        pipeline.run(module.operation)


def _marked_sums(module: ir.Module) -> list[ir.Operation]:
    """Return the linalg ops whose additions may be reassociated."""
    from iree.compiler import ir

    found: list[ir.Operation] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name == "linalg.generic" and any(map(_is_mark, op.regions[0].blocks[0])):
            found.append(op)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    return found


def _can_be_split(op: ir.Operation) -> bool:
    """Return whether IREE 3.13 can compile the split: at most two reduction loops.

    Of the derivatives of filters, which sum over rows and windows, it does not: blocks
    of the strided ones fail with "offset 0 is out-of-bounds: 0 >= 0".
    """
    kinds = [str(kind) for kind in op.attributes["iterator_types"]]
    return sum("reduction" in kind for kind in kinds) <= _MOST_SUMMED_LOOPS


def _is_mark(op: ir.Operation) -> bool:
    """Return whether an op in a linalg body is an addition that may be reassociated."""
    flags = str(op.attributes["fastmath"]) if "fastmath" in op.attributes else ""
    return op.operation.name == "arith.addf" and "reassoc" in flags


def _block_sizes(op: ir.Operation, block: int) -> list[int]:
    """Return how many steps of each reduction loop a block has; inner ones first fill
    it.

    Loops of unknown length share what there is room for.
    """
    kinds = map(str, op.attributes["iterator_types"])
    loops = [loop for loop, kind in enumerate(kinds) if "reduction" in kind]
    lengths = [_static_size(op, loop) for loop in loops]
    unknown = lengths.count(None)
    sizes: list[int] = []
    for length in reversed(lengths):
        share = block if length is not None else round(block ** (1 / unknown))
        unknown -= length is None
        sizes.insert(0, min(length or share, share))
        block = max(block // sizes[0], 1)
    return sizes


def _static_size(op: ir.Operation, loop: int) -> int | None:
    """Return the static length of a loop by the operands' shapes; None if unknown."""
    from iree.compiler import ir

    maps = [ir.AffineMapAttr(each).value for each in op.attributes["indexing_maps"]]
    for value, axes in zip(op.operands, maps, strict=True):
        for axis, expr in enumerate(axes.results):
            kind = ir.RankedTensorType(value.type)
            if str(expr) == f"d{loop}" and not kind.is_dynamic_dim(axis):
                return int(kind.shape[axis])
    return None
