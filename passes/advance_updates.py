"""Compute the new values of states as soon as what they are computed from is there.

    %g = …                           %g = …
    %h = …                           %p1 = linalg.generic … %p, %g    // a new state
    %p1 = linalg.generic … %p, %g    %h = …
    return %p1                  →    return %p1

An optimizer comes after all gradients, which would all be kept until then.

Requires: linalg (lower-to-linalg). Ensures: an elementwise op of which only results are
computed stands behind the last of its operands; numbers that depend on no gradient,
such as the rates of a step, come first.
"""

from collections.abc import Sequence

from aotc.dialects.functions import functions_of
from aotc.dialects.lowering.regions import is_loop
from aotc.dialects.lowering.sources import operands_of
from aotc.mlir import Function, Operation, Value, func
from aotc.passes.base import Pass, Unit


class AdvanceUpdates(Pass):
    """Advance the updates of every function."""

    name = "advance-updates"
    keeps_graph = False
    level = 2

    def run(self, unit: Unit) -> bool:
        """Whether anything changed."""
        changed = False
        for function in functions_of(unit.module).values():
            if not function.is_external:
                before = [*function.entry_block.operations]
                _hoist_numbers(function)
                _advance(function)
                changed |= before != [*function.entry_block.operations]
        return changed


def _hoist_numbers(function: Function) -> None:
    """Move what is computed from arguments and has no axes to the start, and splats."""
    block = function.entry_block
    known, last = set(block.arguments), None
    for op in list(block.operations)[:-1]:
        small = all(getattr(value.type, "rank", 0) == 0 for value in op.results)
        is_splat = op.operation.name in ("tensor.empty", "linalg.fill")
        fits = bool(op.results) and (small or is_splat) and not _has_call(op)
        if fits and known.issuperset(operands_of(op)):
            known.update(op.results)
            last = _move(op, last)


def _has_call(op: Operation) -> bool:
    """Whether an op is or holds a call, which may write what another one reads."""
    blocks = (block for region in op.regions for block in region)
    return isinstance(op, func.CallOp) or any(
        _has_call(each) for block in blocks for each in block.operations
    )


def _advance(function: Function) -> None:
    """Sort the ops by the place of the last operand, where only results need them."""
    ops = list(function.entry_block.operations)
    places: dict[Value, int] = {}
    order = []
    read = list(map(operands_of, ops))
    late = _only_for_results(ops, read)
    for place, op in enumerate(ops):
        if place in late:
            place = max((places.get(x, -1) for x in read[place]), default=place)
        places.update(dict.fromkeys(op.results, place))
        order.append(place)
    last = None
    for place in sorted(range(len(ops)), key=lambda number: order[number]):
        last = _move(ops[place], last)


def _only_for_results(
    ops: Sequence[Operation], read: Sequence[Sequence[Value]]
) -> set[int]:
    """The places of elementwise ops that nothing needs but such ops and the return.

    Args:
        ops: of a function.
        read: what each of them reads.
    """
    needed: set[Value] = set()
    found = set()
    for place, op in reversed([*enumerate(ops)]):
        is_needed = any(value in needed for value in op.results)
        if not is_needed and is_loop(op):
            found.add(place)
        elif not isinstance(op, func.ReturnOp):
            needed.update(read[place])
    return found


def _move(op: Operation, last: Operation | None) -> Operation:
    """Put an op behind another, or at the start; returns it."""
    if last is not None:
        op.operation.move_after(last)
    elif (first := op.operation.block.operations[0]) != op:
        op.operation.move_before(first)
    return op.operation
