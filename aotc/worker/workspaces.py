"""Large workspaces of entries, kept between calls.

What an entry computes on the way lies in one block of memory as a rule, which IREE's
stream phase allocates in each call and gives back at its end. The pool of local-task
keeps blocks of up to 64 MiB for later calls (IREE 3.13, task_device.c); a larger one
goes back to the system, and the next call pays for every page again, which took a tenth
of a call of a U-Net. So a module allocates such a block when it is loaded, and holds it
in a global that all of its entries share: a module runs one call at a time
(`aotc.runtime.lifetime`). Where IREE would give the block back, the call waits until it
is no longer used, so that no work of one call is left when the next begins.

Blocks whose size depends on a call, and those inside of loops, stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

_POOLED_AT_MOST = 64 << 20  # bytes
_KIND = "!stream.resource<transient>"


class _Block(NamedTuple):
    """A block of memory that an entry allocates in every call.

    Args:
        size: in bytes.
        alloca: the op that allocates it.
        dealloca: the op that gives it back.
    """

    size: int
    alloca: Any
    dealloca: Any


def keep_workspaces(module: Any) -> None:
    """Let a module hold the large blocks that its entries need in every call.

    Args:
        module: what IREE has made of a module up to its phase `stream`.
    """
    from iree.compiler import ir

    entries = [[*_large_blocks(op)] for op in module.body.operations if _is_entry(op)]
    with module.context, ir.Location.unknown():
        for number in range(max(map(len, entries), default=0)):
            blocks = [blocks[number] for blocks in entries if number < len(blocks)]
            name = f"workspace.{number}"
            _define(module, name, blocks)
            for block in blocks:
                _use(block, name)


def _is_entry(op: Any) -> bool:
    """Whether an op is a function that callers call, and no other function does."""
    if op.operation.name != "util.func":
        return False
    attributes = op.operation.attributes
    if "sym_visibility" not in attributes:
        return True
    return bool(attributes["sym_visibility"].value == "public")


def _large_blocks(function: Any) -> Iterator[_Block]:
    """The blocks that a function allocates once in a call and gives back, in order."""
    ops = [op.operation for op in function.operation.regions[0].blocks[0].operations]
    ends = {op.operands[0]: op for op in ops if op.name == "stream.resource.dealloca"}
    for op in ops:
        if op.name != "stream.resource.alloca" or str(op.results[0].type) != _KIND:
            continue
        size, end = _constant(op.operands[0]) or 0, ends.get(op.results[0])
        is_freed = end is not None and len(end.operands) == 3  # after a timepoint
        if is_freed and size > _POOLED_AT_MOST:
            yield _Block(size, op, end)


def _constant(value: Any) -> int | None:
    """The number that a value is, if that is known."""
    from iree.compiler import ir

    owner = value.owner
    if isinstance(owner, ir.Block) or owner.name != "arith.constant":
        return None
    return int(owner.attributes["value"].value)


def _define(module: Any, name: str, blocks: list[_Block]) -> None:
    """Write a global that holds a block as large as the largest, from the start."""
    from iree.compiler import ir

    kind = ir.Type.parse(_KIND)
    body = ir.InsertionPoint(module.body)
    attributes = {
        "sym_name": ir.StringAttr.get(name),
        "sym_visibility": ir.StringAttr.get("private"),
        "type": ir.TypeAttr.get(kind),
        "is_mutable": ir.UnitAttr.get(),
    }
    ir.Operation.create("util.global", attributes=attributes, ip=body)
    function = ir.TypeAttr.get(ir.FunctionType.get([], []))
    initializer = ir.Operation.create(
        "util.initializer", attributes={"function_type": function}, regions=1, ip=body
    )
    index, largest = ir.IndexType.get(), max(block.size for block in blocks)
    with ir.InsertionPoint(initializer.regions[0].blocks.append()):
        value = {"value": ir.IntegerAttr.get(index, largest)}
        size = ir.Operation.create("arith.constant", [index], attributes=value)
        buffer = ir.Operation.create(
            "stream.resource.alloc",
            results=[kind],
            operands=[size.result],
            attributes={
                "uninitialized": ir.UnitAttr.get(),
                "affinity": blocks[0].alloca.attributes["affinity"],
            },
        )
        ir.Operation.create(
            "util.global.store",
            operands=[buffer.result],
            attributes={"global": ir.FlatSymbolRefAttr.get(name)},
        )
        ir.Operation.create("util.return")


def _use(block: _Block, name: str) -> None:
    """Take a block from a global, where it was allocated; wait where it was freed."""
    from iree.compiler import ir

    kind, point = ir.Type.parse(_KIND), ir.Type.parse("!stream.timepoint")
    at = {"global": ir.FlatSymbolRefAttr.get(name)}
    _, size, end = block.dealloca.operands
    with ir.InsertionPoint(block.alloca), block.alloca.location:
        buffer = ir.Operation.create("util.global.load", [kind], attributes=at)
        begin = [*block.alloca.operands][1:] or [
            ir.Operation.create("stream.timepoint.immediate", [point]).result
        ]
    with ir.InsertionPoint(block.dealloca), block.dealloca.location:
        ones = ir.DenseI32ArrayAttr.get([1, 1, 1])
        free = ir.Operation.create(
            "stream.timepoint.await",
            results=[kind],
            operands=[buffer.result, size, end],
            attributes={"operandSegmentSizes": ones},
        )
        # as IREE drops a wait for what nothing uses
        ir.Operation.create("util.global.store", operands=[free.result], attributes=at)
    block.dealloca.results[0].replace_all_uses_with(end)
    block.dealloca.erase()
    block.alloca.results[0].replace_all_uses_with(buffer.result)
    block.alloca.results[1].replace_all_uses_with(begin[0])
    block.alloca.erase()
