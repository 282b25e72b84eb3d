"""Crossing to IREE: the graph functions in upstream dialects, and a frame around them.

Only upstream dialects cross, as bytecode. What only IREE knows is written as text:
globals for weights and state, and the exported functions around the graph functions.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from aotc.backend.state_exports import reader_name, writer_name
from aotc.dialects import iree_text
from aotc.dialects.functions.entries import strip_program
from aotc.dialects.functions.functions import functions_of, is_private
from aotc.dialects.iree_text import frame
from aotc.errors import CompileError
from aotc.kernels.lowered import kernels_of, strip_kernels, use_fallbacks
from aotc.mlir import Module, Operation, bytecode, ir
from aotc.programs.program import Program

_CROSSING = {
    "affine",
    "arith",
    "builtin",
    "cf",
    "func",
    "linalg",
    "llvm",
    "math",
    "memref",
    "scf",
    "tensor",
    "vector",
}


def require_upstream_only(module: Module) -> None:
    """Refuse a module with ops of dialects that IREE does not know."""
    names: set[str] = set()

    def visit(op: Operation) -> ir.WalkResult:  # an error here would lose its type
        names.add(op.name)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    for name in sorted(names):
        if name.partition(".")[0] not in _CROSSING:
            raise CompileError(
                "not-lowered",
                f"op '{name}' is left in the module that goes to IREE",
                hint="run the pass 'lower-to-linalg' first",
            )


def crossing(program: Program, uncompiled: Collection[str] = ()) -> tuple[bytes, str]:
    """Return the graph functions as bytecode, and IREE's frame around them as text.

    Args:
        program: lowered.
        uncompiled: the kernels for GPUs that there is no code of: IREE computes the ops
            of their regions.
    """
    if uncompiled:
        program = program.copy()
        with program.module.context:
            use_fallbacks(program.module, uncompiled)
    with program.module.context, ir.Location.unknown():
        # Bytecode also tells in which order values came to be used, by which IREE might
        # go, and which no reader of a dump could know. In a copy, that is the order of
        # the ops, whatever passes have done. The runner has verified it.
        copy: Module = program.module.operation.clone()
        strip_program(copy)
        require_upstream_only(copy)
        entries = {entry.name for entry in program.entries}
        for name, function in functions_of(copy).items():
            is_called = is_private(function) and name not in entries
            if not function.is_external and not is_called:
                function.attributes["sym_name"] = ir.StringAttr.get(inner_name(name))
                function.attributes["sym_visibility"] = ir.StringAttr.get("private")
        strip_kernels(copy)
        return bytecode(copy), frame_text(program)


def inner_name(entry: str) -> str:
    """Return the name of the graph function behind an entry."""
    return f"{entry}.graph"


def frame_text(program: Program) -> str:
    """Return IREE's part of the module as text: globals, entries and access to States.

    The functions behind the entries are declared here and defined by the bytecode; for
    the bodies that only IREE can read it is the other way round.
    """
    mutable = {leaf for state in program.states for leaf in state.leaves}
    types = {
        port.name: port.type
        for entry in program.entries
        for port in entry.arguments
        if port.kind != "input"
    }
    lines = [
        frame.parameter(name, kind, is_mutable=name in mutable)
        for name, kind in types.items()
    ]
    for entry in program.entries:
        graph = inner_name(entry.name)
        lines += frame.declaration(entry, graph)
        lines += frame.public_function(entry, graph)
    for state in program.states:
        leaves = [*zip(state.leaves, state.types, strict=True)]
        lines += frame.reader(reader_name(state.name), leaves)
        lines += frame.writer(writer_name(state.name), leaves)
    functions = functions_of(program.module).values()
    if any(map(iree_text.calls_loader, functions)):
        lines += frame.loader_declarations()
    for function in functions:
        if iree_text.body_of(function) is not None:
            lines += iree_text.definition(function)
    for kernel in kernels_of(program.module):
        if kernel.launch is not None:  # whose code is yet to be compiled
            continue
        lines += frame.executable(
            kernel.name,
            f"{kernel.name}.body",
            kernel.memories,
            kernel.results,
            kernel.elements,
            kernel.symbols,
            kernel.tied,
            kernel.awaited,
        )
    return _module_text(lines)


def with_executables(frame_text: str, lines: Sequence[str]) -> str:
    """Return the frame's text with lines added at the beginning of its module."""
    head, *rest = frame_text.splitlines()
    return "\n".join([head, *(f"  {line}" for line in lines), *rest]) + "\n"


def _module_text(lines: Sequence[str]) -> str:
    """Return lines as the text of a module."""
    body = "\n".join(f"  {line}" for line in lines)
    return f"module @aotc {{\n{body}\n}}\n"
