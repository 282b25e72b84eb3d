"""Memory and launches of no size, on GPUs.

A size that a call gives may be 0, and so may what is computed of it, as that of
`x[1:]`. IREE 3.13 asks a GPU for 0 bytes then, which CUDA gives and does not take back
(memory_pools.c), and launches grids of no workgroups, which CUDA refuses
(stream_command_buffer.c). So a byte is allocated at least, and such a grid is not
launched: whether code guards itself by its sizes does not matter then. Fills and copies
of 0 bytes IREE's runtime leaves out itself (command_buffer.c).
"""

from __future__ import annotations

from typing import Any

_ALLOCATIONS = ("hal.allocator.allocate", "hal.device.queue.alloca")
_DISPATCH = "hal.command_buffer.dispatch"
_COUNTS = slice(3, 6)  # of the operands of a dispatch: workgroups along each axis
_NOT_EQUAL = 1  # predicate of arith.cmpi


def leave_out_empty_work(module: Any) -> bool:
    """Allocate a byte at least, and launch no empty grids; whether any might be.

    Args:
        module: what IREE has made of a module up to its phase `hal`.
    """
    from iree.compiler import ir

    found: list[Any] = []

    def visit(op: Any) -> Any:
        if op.name in (*_ALLOCATIONS, _DISPATCH):
            found.append(op)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    with module.context:
        changes = [
            _launch_if_any(op) if op.name == _DISPATCH else _allocate_some(op)
            for op in found
        ]
    return any(changes)


def _allocate_some(op: Any) -> bool:
    """Let an allocation be of one byte at least; whether it might have been of none."""
    from iree.compiler import ir

    number = len(op.operands) - 1
    size = op.operands[number]
    if _is_positive(size):
        return False
    with ir.InsertionPoint(op), op.location:
        one = _index(1)
        larger = ir.Operation.create("arith.maxui", [size.type], [size, one])
    op.operands[number] = larger.result
    return True


def _launch_if_any(op: Any) -> bool:
    """Launch a grid if it has workgroups; whether it might have had none."""
    from iree.compiler import ir

    counts = [x for x in [*op.operands][_COUNTS] if not _is_positive(x)]
    if not counts:
        return False
    flag = ir.IntegerType.get_signless(1)
    predicate = {"predicate": ir.IntegerAttr.get(_signless(64), _NOT_EQUAL)}
    with ir.InsertionPoint(op), op.location:
        zero = _index(0)
        all_are = None
        for count in counts:
            some = ir.Operation.create(
                "arith.cmpi", [flag], [count, zero], attributes=predicate
            ).result
            both = [all_are, some]
            all_are = (
                ir.Operation.create("arith.andi", [flag], both).result
                if all_are is not None
                else some
            )
        choice = ir.Operation.create("scf.if", operands=[all_are], regions=2)
        block = choice.regions[0].blocks.append()
        with ir.InsertionPoint(block):
            end = ir.Operation.create("scf.yield")
        op.move_before(end)
    return True


def _is_positive(size: Any) -> bool:
    """Whether a size is known not to be 0."""
    op = size.owner
    return getattr(op, "name", "") == "arith.constant" and (
        int(op.attributes["value"].value) > 0
    )


def _index(number: int) -> Any:
    """A constant, at the insertion point."""
    from iree.compiler import ir

    kind = ir.IndexType.get()
    value = {"value": ir.IntegerAttr.get(kind, number)}
    return ir.Operation.create("arith.constant", [kind], attributes=value).result


def _signless(bits: int) -> Any:
    from iree.compiler import ir

    return ir.IntegerType.get_signless(bits)
