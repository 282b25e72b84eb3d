"""Search and creation of ops of IREE's IR, shared by the passes over it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from iree.compiler import ir


def ops_in(op: ir.Operation, *names: str) -> Iterator[ir.Operation]:
    """Yield the ops nested in an op at any depth: all, or those with these names."""
    for region in op.regions:
        for block in region.blocks:
            for inner in block.operations:
                if not names or inner.operation.name in names:
                    yield inner.operation
                yield from ops_in(inner.operation, *names)


def make(
    name: str, kind: ir.Type, *operands: ir.Value, **attributes: ir.Attribute
) -> ir.Value:
    """Create an op at the insertion point; return its only result."""
    from iree.compiler import ir

    made = ir.Operation.create(name, [kind], operands, attributes=attributes)
    return made.result


def insert(text: str, point: ir.InsertionPoint) -> None:
    """Parse a text of ops, and insert them at an insertion point."""
    from iree.compiler import ir

    written = ir.Module.parse(text)  # which holds its ops as long as it lives
    for each in written.body.operations:
        each.operation.clone(ip=point)
