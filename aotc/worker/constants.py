"""The numbers that a dispatch is given: sizes, and where its operands are in memory.

IREE packs the intermediates of one size into one buffer and hands a dispatch the place
of each; places of symbolic sizes are computed in the call. What runs on a CPU takes
`LIMIT` numbers of 32 bits, and refuses to load a module with a dispatch that has more.
(To hand over each operand as a buffer of its own is no way out: a call takes 32.)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from iree.compiler import ir

LIMIT = 64  # what IREE 3.13 says when it refuses to load one that has more


def excess_message(module: ir.Module) -> str | None:
    """Return an error text for a dispatch with more than `LIMIT` integer operands, or
    None.

    Args:
        module: what IREE has made of a module up to its phase `stream`.
    """
    from iree.compiler import ir

    found: list[str] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name == "stream.cmd.dispatch":
            count = sum(isinstance(each.type, ir.IntegerType) for each in op.operands)
            if count > LIMIT:
                found.append(_message(op, count))
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    return found[0] if found else None


def _message(op: ir.Operation, count: int) -> str:
    """Return the error text for a dispatch with `count` integer operands."""
    return (
        f"{op.location}: error: IREE computes this in one step that takes {count} "
        f"sizes and offsets, and a CPU takes {LIMIT}; fix some symbolic sizes, or "
        "split this up"
    )
