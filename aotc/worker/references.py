"""Branches of the virtual machine that pass one reference several times.

IREE 3.13 moves a reference with the last use of it. Where that is a branch which
passes it several times, the register allocation may order the copies so that the move
comes first, and the others pass null: a buffer that is missing, or a fence that nobody
waits for. So all but one pass a reference of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from iree.compiler import ir


def separate_references(module: ir.Module) -> bool:
    """Let no branch of a module (VM dialect) pass a reference twice; return whether any
    did.

    Returns:
        Whether any did.
    """
    from iree.compiler import ir

    with module.context, ir.Location.unknown():
        blocks = [list(block.operations) for block in _blocks(module.operation)]
        ends = [operations[-1] for operations in blocks if operations]
        branches = [op for op in ends if op.name in ("vm.br", "vm.cond_br")]
        return any([_separate_references(branch) for branch in branches])


def _blocks(op: ir.Operation) -> Iterator[ir.Block]:
    """Yield the blocks nested in an op at any depth."""
    for region in op.regions:
        for block in region.blocks:
            yield block
            for inner in block.operations:
                yield from _blocks(inner.operation)


def _separate_references(branch: ir.Operation) -> bool:
    """Replace the repeated references of a branch by distinct ones; return whether
    any.
    """
    from iree.compiler import ir

    latest: dict[ir.Value, ir.Value] = {}
    changed = False
    with ir.InsertionPoint(branch):
        for index, value in enumerate(branch.operands):
            if not str(value.type).startswith("!vm.ref"):
                continue
            if value in latest:
                latest[value] = _distinct_reference(value, latest[value])
                branch.operation.operands[index] = latest[value]
                changed = True
            else:
                latest[value] = value
    return changed


def _distinct_reference(value: ir.Value, latest: ir.Value) -> ir.Value:
    """Emit a select that yields `latest`, equal to `value`, and that does not fold.

    Each is chosen from the one before, so that no two of them are the same op.
    """
    from iree.compiler import ir

    exists = ir.Operation.create(
        "vm.cmp.nz.ref", [ir.IntegerType.get_signless(32)], [value]
    )
    none = ir.Operation.create("vm.const.ref.zero", [value.type])
    return ir.Operation.create(
        "vm.select.ref", [value.type], [exists.result, latest, none.result]
    ).result
