"""Large workspaces of entries, kept between calls.

What an entry computes on the way lies in one block of memory as a rule, which IREE's
stream phase allocates in each call and gives back at its end. The pool of local-task
keeps blocks of up to 64 MiB for later calls (IREE 3.13, task_device.c); a larger one
goes back to the system, and the next call pays for every page again, which took a tenth
of a call of a U-Net. So the module keeps the block in a global that all of its entries
share: a module runs one call at a time (`aotc.runtime.lifetime`). Where IREE would give
the block back, the call waits until it is no longer used, so that no work of one call
is left when the next begins.

The first call that needs a block allocates it, and a later one that needs more another
in its place: an entry that needs more memory than there is keeps no other from running.
Blocks that an entry needs one after the other lie in one place, too.

Blocks whose size depends on a call, and those inside of loops, stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any, NamedTuple

_POOLED_AT_MOST = 64 << 20  # bytes
_BUFFER = "!stream.resource<transient>"

_KEPT = """
util.global private mutable @{name} : {buffer}
util.global private mutable @{name}.size = 0 : index

util.func private @{name}.of(%size: index) -> {buffer} {{
  %held = util.global.load @{name}.size : index
  %is_enough = arith.cmpi uge, %held, %size : index
  cf.cond_br %is_enough, ^held, ^larger
^held:
  %old = util.global.load @{name} : {buffer}
  util.return %old : {buffer}
^larger:
  %zero = arith.constant 0 : index
  %none = util.null : {buffer}
  util.global.store %zero, @{name}.size : index
  util.global.store %none, @{name} : {buffer}
  %new = stream.resource.alloc uninitialized on({affinity}) : {buffer}{{%size}}
  util.global.store %new, @{name} : {buffer}
  util.global.store %size, @{name}.size : index
  util.return %new : {buffer}
}}
"""


class _Block(NamedTuple):
    """A block of memory that an entry allocates in every call.

    Args:
        place: the number of the global that is to hold it.
        alloca: the op that allocates it.
        dealloca: the op that gives it back.
    """

    place: int
    alloca: Any
    dealloca: Any


def keep_workspaces(module: Any) -> None:
    """Let a module hold the large blocks that its entries need.

    Args:
        module: what IREE has made of a module up to its phase `stream`.
    """
    from iree.compiler import ir

    with module.context, ir.Location.unknown():
        prefix = _unused_prefix(module)
        defined: set[str] = set()
        for block in [block for e in _entries(module) for block in _large_blocks(e)]:
            name = f"{prefix}.{block.place}"
            if name not in defined:
                _define(module, name, block.alloca.attributes["affinity"])
                defined.add(name)
            _use(block, name)


def _unused_prefix(module: Any) -> str:
    """What no name of a module begins with: users name its states."""
    every = [op.attributes for op in module.body.operations]
    names = [each["sym_name"].value for each in every if "sym_name" in each]
    prefix = "workspace"
    while any(name.startswith(prefix) for name in names):
        prefix += "_"
    return prefix


def _entries(module: Any) -> list[Any]:
    """The functions that callers call, and no other function does."""
    from iree.compiler import ir

    called: set[str] = set()

    def note(op: Any) -> Any:
        if op.name == "util.call":
            called.add(op.attributes["callee"].value)
        return ir.WalkResult.ADVANCE

    module.operation.walk(note)
    functions = [
        op for op in module.body.operations if op.operation.name == "util.func"
    ]
    return [
        function
        for function in functions
        if _is_public(function) and function.attributes["sym_name"].value not in called
    ]


def _is_public(function: Any) -> bool:
    attributes = function.attributes
    if "sym_visibility" not in attributes:
        return True
    return bool(attributes["sym_visibility"].value == "public")


def _large_blocks(function: Any) -> Iterator[_Block]:
    """The blocks that a function allocates once in a call and gives back, in order.

    Each has the first place that no other holds at that time.
    """
    ops = [op.operation for op in function.regions[0].blocks[0].operations]
    ends = {
        op.operands[0]: (at, op)
        for at, op in enumerate(ops)
        if op.name == "stream.resource.dealloca"
    }
    free_from: dict[int, int] = {}  # of each place, the number of an op
    for at, op in enumerate(ops):
        if op.name != "stream.resource.alloca" or str(op.results[0].type) != _BUFFER:
            continue
        size = _constant(op.operands[0]) or 0
        freed_at, end = ends.get(op.results[0], (0, None))
        is_freed = end is not None and len(end.operands) == 3  # after a timepoint
        if is_freed and size > _POOLED_AT_MOST:
            place = next(n for n in count() if free_from.get(n, 0) <= at)
            free_from[place] = freed_at
            yield _Block(place, op, end)


def _constant(value: Any) -> int | None:
    """The number that a value is, if that is known."""
    from iree.compiler import ir

    owner = value.owner
    if isinstance(owner, ir.Block) or owner.name != "arith.constant":
        return None
    return int(owner.attributes["value"].value)


def _define(module: Any, name: str, affinity: Any) -> None:
    """Write a global that holds a block, and the function that gives it."""
    from iree.compiler import ir

    kept = ir.Module.parse(_KEPT.format(name=name, buffer=_BUFFER, affinity=affinity))
    for op in kept.body.operations:
        op.operation.clone(ip=ir.InsertionPoint(module.body))


def _use(block: _Block, name: str) -> None:
    """Take a block from a global, where it was allocated; wait where it was freed."""
    from iree.compiler import ir

    kind, point = ir.Type.parse(_BUFFER), ir.Type.parse("!stream.timepoint")
    size = block.alloca.operands[0]
    with ir.InsertionPoint(block.alloca), block.alloca.location:
        callee = {"callee": ir.FlatSymbolRefAttr.get(f"{name}.of")}
        buffer = ir.Operation.create("util.call", [kind], [size], attributes=callee)
        begin = [*block.alloca.operands][1:] or [
            ir.Operation.create("stream.timepoint.immediate", [point]).result
        ]
    with ir.InsertionPoint(block.dealloca), block.dealloca.location:
        ones = ir.DenseI32ArrayAttr.get([1, 1, 1])
        free = ir.Operation.create(
            "stream.timepoint.await",
            results=[kind],
            operands=[buffer.result, size, block.dealloca.operands[2]],
            attributes={"operandSegmentSizes": ones},
        )
        # as IREE drops a wait for what nothing uses
        at = {"global": ir.FlatSymbolRefAttr.get(name)}
        ir.Operation.create("util.global.store", operands=[free.result], attributes=at)
    block.dealloca.results[0].replace_all_uses_with(block.dealloca.operands[2])
    block.dealloca.erase()
    block.alloca.results[0].replace_all_uses_with(buffer.result)
    block.alloca.results[1].replace_all_uses_with(begin[0])
    block.alloca.erase()
