"""Exchange between devices as soon as what is sent is there.

    %g2 = …                         %g2 = …
    %g1 = … %g2                     %y2 = graph.all_reduce(%g2)
    %y1 = graph.all_reduce(%g1)     %g1 = … %g2
    %y2 = graph.all_reduce(%g2)  →  %y1 = graph.all_reduce(%g1)

A step reduces its gradients after the backward pass, whose first gradients are long
there. What only moves elements for collectives, such as a bucket's concatenation, goes
with them.
All devices run one program, so they meet in the same order. Waiting for the results is
put off by `delay-exchanges`.
"""

from __future__ import annotations

from collections.abc import Sequence

from aotc.dialects.graph import GraphOp
from aotc.dialects.ops.collective import Collective
from aotc.mlir import Function, Operation, Value
from aotc.passes.base import FunctionPass
from aotc.passes.properties import IS_GRAPH


class AdvanceCollectives(FunctionPass):
    """Move each collective over several devices right after the last of its
    operands.
    """

    name = "advance-collectives"
    level = 2
    keeps_graph = True
    requires = (IS_GRAPH,)

    def change(self, function: Function) -> bool:
        """Reorder the ops of a function in place; return whether any op moved."""
        ops = [op.operation for op in function.entry_block.operations]
        moved = _moved_ops(ops)
        if not moved:
            return False
        places: dict[Value, int] = {}
        order = []
        for place, op in enumerate(ops):
            if op in moved:
                place = max((places.get(x, -1) for x in op.operands), default=-1)
            places.update(dict.fromkeys(op.results, place))
            order.append(place)
        numbers = sorted(range(len(ops)), key=lambda number: order[number])
        if numbers == [*range(len(ops))]:
            return False
        for before, number in zip(numbers, numbers[1:], strict=False):
            if ops[number] in moved:
                ops[number].move_after(ops[before])
        return True


def _only_moves(op: Operation) -> bool:
    """Return whether an op computes nothing, but moves or joins elements."""
    kind = type(op.opview)
    return issubclass(kind, GraphOp) and (kind.rearranges or kind.selects)


def _moved_ops(ops: Sequence[Operation]) -> set[Operation]:
    """Return the collectives over several devices, and data movement that only they
    read.
    """
    found: set[Operation] = set()
    for op in reversed(ops):
        if isinstance(op.opview, Collective):
            if op.opview.axis_size > 1:
                found.add(op)
        elif found and op.results and _only_moves(op):
            users = [use.owner.operation for value in op.results for use in value.uses]
            if users and all(user in found for user in users):
                found.add(op)
    return found
