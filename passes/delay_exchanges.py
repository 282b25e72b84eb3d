"""Wait for what other devices send only where it is read.

    %t = call @iree.start(%g)           %t = call @iree.start(%g)
    %y = call @iree.finish(%t)          %h = …
    %h = …                          →   %y = call @iree.finish(%t)
    %p = … %y                           %p = … %y

Between the two calls the loader exchanges, in a thread of its own, while the device
computes. IREE keeps the order of calls and of what is computed between them.
"""

from __future__ import annotations

from aotc.dialects import iree_text
from aotc.dialects.functions.functions import callee_of, functions_of, name_of
from aotc.mlir import Operation, ir
from aotc.passes.base import Pass, Unit
from aotc.passes.properties import LOWERED


class DelayExchanges(Pass):
    """Move each wait for a device exchange right before the first reader of its
    result.
    """

    name = "delay-exchanges"
    level = 2
    keeps_graph = False
    requires = (LOWERED,)

    def run(self, unit: Unit) -> bool:
        """Rewrite the unit's module in place; return whether anything changed."""
        functions = functions_of(unit.module).values()
        waits = {name_of(each) for each in functions if iree_text.waits(each)}
        if not waits:
            return False
        found: list[Operation] = []

        def visit(op: Operation) -> ir.WalkResult:
            if op.name == "func.call" and callee_of(op.opview) in waits:
                found.append(op)
            return ir.WalkResult.ADVANCE

        for function in functions:
            function.operation.walk(visit)
        return any([_delay(op) for op in reversed(found)])


def _delay(op: Operation) -> bool:
    """Move a call right before the first reader of its results; return whether it
    moved.
    """
    block = op.operation.block
    places: dict[Operation, int] = {
        each.operation: number for number, each in enumerate(block.operations)
    }
    readers = [
        places[_ancestor_in(block, use.owner.operation)]
        for value in op.results
        for use in value.uses
    ]
    first = min(readers, default=places[op] + 1)
    if first == places[op] + 1:
        return False
    op.move_before(block.operations[first].operation)
    return True


def _ancestor_in(block: ir.Block, op: Operation) -> Operation:
    """Return the op of `block` that is `op` or contains it in a region."""
    while op.operation.block != block:
        op = op.parent.operation
    return op
