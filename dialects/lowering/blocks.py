"""Loops and branches of a function as blocks that jump to one another.

IREE 3.13 passes the sizes of a tensor on with it where a function is called, but
forgets calls that stand in a region of `scf`; it finds those in blocks. Upstream's pass
for this also rewrites loops within the bodies of linalg ops, which cannot have blocks.
"""

from collections.abc import Callable, Sequence

from aotc.mlir import Block, Module, Operation, Type, Value, arith, cf, func, ir, scf

# gives the blocks that an op becomes, from it, its block and the block behind
Rewrite = Callable[[Operation, Block, Block], list[Block]]


def to_blocks(module: Module) -> bool:
    """Rewrite loops and branches of functions into basic blocks; return if any were.

    Returns:
        Whether there was anything.
    """
    changed = False
    for function in module.body.operations:
        if isinstance(function, func.FuncOp) and not function.is_external:
            rest = [function.entry_block]
            while rest:
                made = _rewrite_block(rest.pop())
                changed |= bool(made)
                rest += made
    return changed


def _rewrite_block(block: Block) -> list[Block]:
    """Split a block after each loop and branch in it; return the new inner blocks."""
    ops, made = list(block.operations), list[Block]()
    first = next((n for n, op in enumerate(ops) if op.name in _REWRITES), len(ops))
    for op in ops[first + 1 :]:  # a block takes no jump before its end
        op.operation.detach_from_parent()
    here = block
    for place, op in enumerate(ops[first:]):
        if place:
            here.append(op)
        rewrite = _REWRITES.get(op.name)
        if rewrite is not None:
            with op.location:
                behind = _add_block_after(here, [value.type for value in op.results])
                for old, new in zip(op.results, behind.arguments, strict=True):
                    old.replace_all_uses_with(new)
                made += rewrite(op, here, behind)
            op.operation.erase()
            here = behind
    return made


def _add_block_after(block: Block, kinds: Sequence[Type]) -> Block:
    """Insert an empty block with arguments of these types after `block`."""
    return block.create_after(*kinds, arg_locs=[ir.Location.current] * len(kinds))


def _move_ops(source: Block, target: Block, arguments: Sequence[Value]) -> list[Value]:
    """Move a block's ops to `target`; erase the terminator and return its operands."""
    for old, new in zip(source.arguments, arguments, strict=True):
        old.replace_all_uses_with(new)
    *ops, end = source.operations
    for op in ops:
        target.append(op)
    returned = list(end.operands)
    end.operation.erase()
    return returned


def _if(op: Operation, block: Block, behind: Block) -> list[Block]:
    """Rewrite an scf.if as a jump to blocks that join in `behind`; return these."""
    made = []
    for region in op.regions:
        made.append(_add_block_after(block, []) if len(region.blocks) else behind)
        if made[-1] is not behind:
            values = _move_ops(region.blocks[0], made[-1], [])
            with ir.InsertionPoint(made[-1]):
                cf.BranchOp(values, behind)
    with ir.InsertionPoint(block):
        cf.CondBranchOp(op.operands[0], [], [], *made)
    return [each for each in made if each is not behind]


def _while(op: Operation, block: Block, behind: Block) -> list[Block]:
    """Rewrite an scf.while as a head block that tests, and a body that jumps back.
    Return both.
    """
    before, after = (region.blocks[0] for region in op.regions)
    head = _add_block_after(block, [value.type for value in before.arguments])
    body = _add_block_after(head, [value.type for value in after.arguments])
    with ir.InsertionPoint(block):
        cf.BranchOp(list(op.operands), head)
    condition, *values = _move_ops(before, head, head.arguments)
    with ir.InsertionPoint(head):
        cf.CondBranchOp(condition, values, values, body, behind)
    again = _move_ops(after, body, body.arguments)
    with ir.InsertionPoint(body):
        cf.BranchOp(again, head)
    return [head, body]


def _for(op: Operation, block: Block, behind: Block) -> list[Block]:
    """Rewrite an scf.for as a head block that counts, and a body that jumps back.
    Return both.
    """
    start, end, step, *carried = op.operands
    inner = op.regions[0].blocks[0]
    head = _add_block_after(block, [value.type for value in inner.arguments])
    body = _add_block_after(head, [])
    with ir.InsertionPoint(block):
        cf.BranchOp([start, *carried], head)
    index, *values = head.arguments
    with ir.InsertionPoint(head):
        more = arith.cmpi(arith.CmpIPredicate.slt, index, end)
        cf.CondBranchOp(more, [], values, body, behind)
    again = _move_ops(inner, body, head.arguments)
    with ir.InsertionPoint(body):
        cf.BranchOp([arith.addi(index, step), *again], head)
    return [head, body]


_REWRITES: dict[str, Rewrite] = {
    scf.IfOp.OPERATION_NAME: _if,
    scf.WhileOp.OPERATION_NAME: _while,
    scf.ForOp.OPERATION_NAME: _for,
}
