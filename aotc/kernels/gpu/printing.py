"""Prints a module in the generic form that Triton's parser reads.

The bindings do not know Triton's ops, whose attributes they would print as if they were
no part of them.
"""

from __future__ import annotations

from collections.abc import Sequence

from aotc.mlir import Block, Module, Operation, Value


def print_module(module: Module) -> str:
    """Return a module's text in the generic form that Triton parses."""
    return "\n".join(_TritonPrinter().op(module.operation, "")) + "\n"


class _TritonPrinter:
    """A printer of MLIR in generic form, which numbers values."""

    def __init__(self) -> None:
        self._names: dict[Value, str] = {}

    def op(self, op: Operation, indent: str) -> list[str]:
        """Return the lines of an op with its regions, each of one block."""
        op = op.operation
        given = ", ".join(self._names[value] for value in op.operands)
        results = self._define(op.results)
        assigned = f"{', '.join(results)} = " if results else ""
        stated = ", ".join(f"{k} = {op.attributes[k]}" for k in op.attributes)
        held = f" <{{{stated}}}>" if stated else ""
        types = ", ".join(str(value.type) for value in op.operands)
        made = ", ".join(str(value.type) for value in op.results)
        head = f'{indent}{assigned}"{op.name}"({given}){held}'
        tail = f" : ({types}) -> ({made})"
        if not len(op.regions):
            return [head + tail]
        lines = [f"{head} ({{"]
        for number, region in enumerate(op.regions):
            lines += [f"{indent}}}, {{"] if number else []
            lines += [line for block in region for line in self._block(block, indent)]
        return [*lines, f"{indent}}}){tail}"]

    def _define(self, values: Sequence[Value]) -> list[str]:
        """Assign the next names to new values; return the names."""
        for value in values:
            self._names[value] = f"%{len(self._names)}"
        return [self._names[value] for value in values]

    def _block(self, block: Block, indent: str) -> list[str]:
        """Return the lines of a block, its head indented less than its ops."""
        names = self._define(block.arguments)
        taken = (
            f"{name}: {value.type}"
            for name, value in zip(names, block.arguments, strict=True)
        )
        head = [f"{indent}^bb0({', '.join(taken)}):"] if names else []
        inner = indent + "  "
        return head + [line for op in block.operations for line in self.op(op, inner)]
