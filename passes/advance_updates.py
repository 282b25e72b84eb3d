"""Compute the new values of states as soon as their operands are there.

    %g = …                           %g = …
    %h = …                           %p1 = linalg.generic … %p, %g    // a new state
    %p1 = linalg.generic … %p, %g    %h = …
    return %p1                  →    return %p1

An optimizer comes after all gradients, which would all be kept until then. A kernel of
several states is moved as a whole.

Ensures: an elementwise op of which only results are
computed stands behind the last of its operands; numbers that depend on no gradient,
such as the rates of a step, come first.
"""

from aotc.dialects.functions.walking import control_regions
from aotc.dialects.lowering.regions import is_loop
from aotc.dialects.lowering.sources import operands_of
from aotc.kernels.in_place import InPlaceKernels
from aotc.mlir import Block, Function, Operation, Value, func
from aotc.passes.base import FunctionPass
from aotc.passes.properties import LOWERED


class AdvanceUpdates(FunctionPass):
    """Move state updates of every function to right after their operands are
    computed.
    """

    name = "advance-updates"
    level = 2
    keeps_graph = False
    requires = (LOWERED,)

    def change(self, function: Function) -> bool:
        """Reorder the ops of a function in place; return whether any op moved."""
        before = [*function.entry_block.operations]
        _hoist_numbers(function)
        _advance(function)
        return before != [*function.entry_block.operations]


def _hoist_numbers(function: Function) -> None:
    """Move scalars computed from arguments alone, and splats, to the start of the
    function.
    """
    block = function.entry_block
    known, last = set(block.arguments), None
    for op in list(block.operations)[:-1]:
        small = all(getattr(value.type, "rank", 0) == 0 for value in op.results)
        is_splat = op.operation.name in ("tensor.empty", "linalg.fill")
        fits = bool(op.results) and (small or is_splat)
        if fits and known.issuperset(operands_of(op)) and not _has_call(op):
            known.update(op.results)
            last = _move(op, last)


def _has_call(op: Operation) -> bool:
    """Return whether an op is or contains a call, whose callee may write a buffer
    another op reads.
    """
    blocks = (block for region in control_regions(op) for block in region)
    return isinstance(op, func.CallOp) or any(
        _has_call(each) for block in blocks for each in block.operations
    )


def _advance(function: Function) -> None:
    """Move each elementwise op whose result only the return needs right after its
    operands.
    """
    late = _only_for_results(function)
    if not late:
        return
    ops = list(function.entry_block.operations)
    places: dict[Value, int] = {}
    order, moved = [], set()
    for place, op in enumerate(ops):
        if any(value in late for value in op.results):
            moved.add(place)
            place = max((places.get(x, -1) for x in operands_of(op)), default=place)
        places.update(dict.fromkeys(op.results, place))
        order.append(place)
    last = None
    for place in sorted(range(len(ops)), key=lambda number: order[number]):
        last = _move(ops[place], last) if place in moved else ops[place].operation


def _only_for_results(function: Function) -> set[Value]:
    """Return results of elementwise ops used by nothing but the return and each other.

    Looked for from the ends backwards: most functions have none, and cost little.
    """
    *ops, returned = function.entry_block.operations
    kernels = InPlaceKernels.of(function.operation.parent.opview)
    unused = [op for op in ops if not _is_used(op) and is_loop(op)]
    found = {op.results[0] for op in unused}
    rest = [value for op in (*unused, returned) for value in op.operands]
    unseen: dict[Value, int] = {}  # uses that are not known to be for results only
    lacking: dict[Value, int] = {}  # results of an op that are not, by its first one
    while rest:
        value = rest.pop()
        if value not in unseen:
            unseen[value] = sum(1 for _ in value.uses)
        unseen[value] -= 1
        if unseen[value] == 0 and _is_update(value.owner, kernels):
            found.add(value)
            made = value.owner.results
            count = lacking.setdefault(made[0], len(made)) - 1
            lacking[made[0]] = count
            if count == 0:
                rest += value.owner.operands
    return {x for x in found if not lacking.get(x.owner.results[0])}


def _is_update(owner: Operation | Block, kernels: InPlaceKernels) -> bool:
    """Return whether the op that owns a value is an elementwise loop or in-place
    kernel.
    """
    if isinstance(owner, Block):
        return False
    return is_loop(owner) or kernels.kernel_of(owner.opview) is not None


def _is_used(op: Operation) -> bool:
    """Return whether any result of an op has a use."""
    return any(True for value in op.results for _ in value.uses)


def _move(op: Operation, last: Operation | None) -> Operation:
    """Move an op after `last`, or to the start of its block for None; return it."""
    if last is not None:
        op.operation.move_after(last)
    elif (first := op.operation.block.operations[0]) != op:
        op.operation.move_before(first)
    return op.operation
