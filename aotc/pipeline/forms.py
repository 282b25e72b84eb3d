"""IR as text: for a build to go on with, or for people."""

from __future__ import annotations

from aotc.dialects.printer import format_module
from aotc.errors import InputError
from aotc.mlir import Module, Operation, ir
from aotc.program_files import ir_text


def text_of(module: Module, readable: bool = False) -> str:
    """A module as text that can be fed back in, or in the form for people.

    Raises:
        InputError: `not-graph-ir`: a module that is lowered has no such form.
    """
    if not readable:
        return ir_text(module)
    if not is_graph(module):
        raise InputError(
            "not-graph-ir",
            "only graph IR has a form for people; this is lowered",
            hint="leave out --readable",
        )
    return format_module(module)


def is_graph(module: Module) -> bool:
    """Whether functions hold ops of the graph dialect and calls alone."""
    names: set[str] = set()

    def visit(op: Operation) -> ir.WalkResult:
        names.add(op.name.partition(".")[0])
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    return names <= {"graph", "func", "builtin", "ml_program"}
