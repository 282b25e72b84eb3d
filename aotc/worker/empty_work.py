"""Memory and launches of no size, on GPUs.

A size that a call gives may be 0, and so may what is computed of it, as that of
`x[1:]`. IREE 3.13 then asks a GPU for 0 bytes, which CUDA gives and does not take back
(memory_pools.c), launches grids of no workgroups, which CUDA refuses
(stream_command_buffer.c), and binds memory of no bytes to what sums over nothing, which
Vulkan refuses (vulkan/command_buffer.c). So a byte is allocated at least, an empty grid
is not launched, and what reads nothing is bound to other memory of its launch. Fills
and copies of 0 bytes IREE's runtime leaves out itself (command_buffer.c).
"""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING

from aotc.worker.ops import make, ops_in

if TYPE_CHECKING:
    from iree.compiler import ir

_ALLOCATIONS = ("hal.allocator.allocate", "hal.device.queue.alloca")
_DISPATCH = "hal.command_buffer.dispatch"
_COUNTS = slice(3, 6)  # of the operands of a dispatch: workgroups along each axis
_NOT_EQUAL = 1  # predicate of arith.cmpi


def leave_out_empty_work(module: ir.Module) -> bool:
    """Avoid empty allocations, launches and bindings; return whether any may occur.

    Args:
        module: what IREE has made of a module up to its phase `hal`.
    """
    found = [*ops_in(module.operation, *_ALLOCATIONS, _DISPATCH)]
    changes = []
    with module.context:
        for op in found:
            if op.name == _DISPATCH:
                changes += [_replace_empty_bindings(op), _guard_launch(op)]
            else:
                changes.append(_allocate_nonempty(op))
    return any(changes)


def _allocate_nonempty(op: ir.Operation) -> bool:
    """Make an allocation at least one byte; return whether its size may have been 0."""
    from iree.compiler import ir

    number = len(op.operands) - 1
    size = op.operands[number]
    if _is_positive(size):
        return False
    with ir.InsertionPoint(op), op.location:
        op.operands[number] = make("arith.maxui", size.type, size, _index(1))
    return True


def _guard_launch(op: ir.Operation) -> bool:
    """Guard a launch by an `scf.if` on its grid; return whether the grid may be
    empty.
    """
    from iree.compiler import ir

    counts = [x for x in [*op.operands][_COUNTS] if not _is_positive(x)]
    if not counts:
        return False
    with ir.InsertionPoint(op), op.location:
        *_, has_all = accumulate(
            map(_emit_nonzero_test, counts),
            lambda x, y: make("arith.andi", x.type, x, y),
        )
        choice = ir.Operation.create("scf.if", operands=[has_all], regions=2)
        block = choice.regions[0].blocks.append()
        with ir.InsertionPoint(block):
            end = ir.Operation.create("scf.yield")
        op.move_before(end)
    return True


def _replace_empty_bindings(op: ir.Operation) -> bool:
    """Bind other memory in place of empty bindings; return whether any may be empty."""
    from iree.compiler import ir

    *_, count = op.attributes["operandSegmentSizes"]
    first = len(op.operands) - 3 * count
    ranges = [[first + n + part * count for part in range(3)] for n in range(count)]
    empty = [each for each in ranges if not _is_positive(op.operands[each[-1]])]
    if not empty or any(str(op.operands[x].type) == "index" for x, *_ in empty):
        return False  # those of a recording are bound when that is replayed
    with ir.InsertionPoint(op), op.location:
        conditions = {
            each[-1]: _emit_nonzero_test(op.operands[each[-1]]) for each in empty
        }
        some = [op.operands[x] for x in ranges[0]]
        for each in ranges[1:]:
            given = [op.operands[x] for x in each]
            some = (
                _choose(conditions[each[-1]], given, some) if each in empty else given
            )
        for each in empty:
            given = [op.operands[x] for x in each]
            chosen = _choose(conditions[each[-1]], given, some)
            for place, value in zip(each, chosen, strict=True):
                op.operands[place] = value
    return True


def _choose(
    condition: ir.Value, values: list[ir.Value], others: list[ir.Value]
) -> list[ir.Value]:
    """Emit a select between each pair of values; return the results."""
    return [
        make("arith.select", x.type, condition, x, y)
        for x, y in zip(values, others, strict=True)
    ]


def _emit_nonzero_test(size: ir.Value) -> ir.Value:
    """Emit the comparison of a size with 0 at the insertion point; return its
    result.
    """
    from iree.compiler import ir

    predicate = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), _NOT_EQUAL)
    flag = ir.IntegerType.get_signless(1)
    return make("arith.cmpi", flag, size, _index(0), predicate=predicate)


def _is_positive(size: ir.Value) -> bool:
    """Return whether a size is a constant above 0."""
    op = size.owner
    return getattr(op, "name", "") == "arith.constant" and (
        int(op.attributes["value"].value) > 0
    )


def _index(number: int) -> ir.Value:
    """Emit an index constant at the insertion point; return it."""
    from iree.compiler import ir

    kind = ir.IndexType.get()
    return make("arith.constant", kind, value=ir.IntegerAttr.get(kind, number))
