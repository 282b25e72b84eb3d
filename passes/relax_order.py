"""Let recomputation read the arguments of an entry as they are.

    %w2 = graph.after(%w, %dy)            %y2 = graph.dot_general(%x2, %w)
    %y2 = graph.dot_general(%x2, %w2) →

A checkpoint lets all its inputs wait for a cotangent. For weights that costs a copy,
and is of no use where the reader waits for something else that is computed again.

What is left is `graph.after` of an argument only where one of its readers reads nothing
else that waits.
"""

from aotc.dialects.ops.effects import After
from aotc.mlir import Function, Operation, Value, ir
from aotc.passes.base import FunctionPass
from aotc.passes.properties import CALLS_INLINED


class RelaxOrder(FunctionPass):
    """Remove order constraints (`graph.after`) on arguments where another operand
    implies them.
    """

    name = "relax-order"
    level = 1
    keeps_graph = True
    requires = (CALLS_INLINED,)

    def change(self, function: Function) -> bool:
        """Remove the needless `after` ops of a function; return whether there were
        any.
        """
        late: set[Value] = set()  # what waits, but for arguments
        arguments = []
        for op in function.entry_block.operations:
            is_after = isinstance(op, After)
            if is_after and isinstance(op.operands[0].owner, ir.Block):
                arguments.append(op)
            elif is_after or any(value in late for value in op.operands):
                late.update(op.results)
        needless = [op for op in arguments if _is_needless(op, late)]
        for op in needless:
            op.results[0].replace_all_uses_with(op.operands[0])
            op.operation.erase()
        return bool(needless)


def _is_needless(op: Operation, late: set[Value]) -> bool:
    """Return whether every user of an `after` op also reads another delayed value."""
    readers = [use.owner for use in op.results[0].uses]
    return all(any(value in late for value in reader.operands) for reader in readers)
