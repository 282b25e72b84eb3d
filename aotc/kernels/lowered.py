"""The kernels of a lowered module, as its IR holds them.

    module @contraction.kernel attributes {graph.kernel = {
        workgroups = [16, 4], ops = ["dot_general", "add"], …}} {
      func.func @contraction.kernel(%x: memref<98304xf32>, …, %share: index, …)
    }

A kernel is a function of memrefs in upstream dialects, one axis each, of the symbols
that their sizes depend on, of the number of a share of the workgroups (`sharing`), and
of how many shares there are. Where its family asks for scratch, that is one more result
of the dispatch, which nothing reads: IREE gives it memory with the other tensors of the
call. The function stands in a module of its own, so passes over functions on tensors do
not meet it. `aotc.backend` wraps it into an executable of IREE's.

A kernel for GPUs is text of Triton's IR beside an empty module:

    module @rows.kernel attributes {graph.kernel = {…}, graph.launch = {
        function = "rows", text = "…", warps = 4, stages = 1, reads = 1, writes = 1, …}}

It takes the memory that it reads, that of its results, and numbers; how many programs
there are, the dispatch says. `aotc.backend` compiles it, and IREE gets what it is then.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from aotc.dialects.function_table import name_of
from aotc.dialects.functions import callee_of
from aotc.dialects.plain import plain_of
from aotc.mlir import Module, Operation, func, ir

KERNEL = "graph.kernel"
LAUNCH = "graph.launch"
CALL = ".dispatch"  # what the function that dispatches a kernel is called after it
_CALLED = re.compile(rf"iree\.(.+\.kernel){re.escape(CALL)}(_\d+)?")


@dataclass(frozen=True)
class Launch:
    """How a GPU runs a kernel.

    Args:
        function: the name of the kernel's function.
        text: of a module of Triton's IR that has it.
        warps: of a program.
        stages: of what is loaded ahead.
        reads: how many tensors it reads, which come first.
        writes: how many it writes.
        numbers: how many numbers of 32 bits follow.
    """

    function: str
    text: str
    warps: int
    stages: int
    reads: int
    writes: int
    numbers: int


@dataclass(frozen=True)
class Kernel:
    """A kernel as IREE is to dispatch it.

    Args:
        name: of the module that holds it, and of its function.
        memories: types of the memrefs that it takes.
        results: how many of them, the last ones, are results, or scratch.
        elements: of each memory, as a map of the symbols and the number of shares.
        symbols: how many of them it takes.
        facts: what is to be told of it, see `aotc.kernels.facts`.
        launch: how a GPU runs it; None for a kernel of processors, which alone has
            memories, results, elements and symbols.
    """

    name: str
    memories: tuple[str, ...]
    results: int
    elements: tuple[str, ...]
    symbols: int
    facts: Mapping[str, Any]
    launch: Launch | None = None


def kernels_of(module: Module) -> Iterator[Kernel]:
    """The kernels that a lowered module holds."""
    for op in module.body.operations:
        if LAUNCH in op.attributes:
            launch = Launch(**plain_of(op.attributes[LAUNCH]))
            facts = plain_of(op.attributes[KERNEL])
            yield Kernel(name_of(op), (), 0, (), 0, facts, launch)
        elif KERNEL in op.attributes:
            (function,) = op.regions[0].blocks[0].operations
            kind = ir.FunctionType(
                ir.TypeAttr(function.attributes["function_type"]).value
            )
            taken = [str(each) for each in kind.inputs[:-2]]
            memories = [each for each in taken if each != "index"]
            stated = plain_of(op.attributes[KERNEL])
            yield Kernel(
                name_of(op),
                tuple(memories),
                stated.pop("results"),
                tuple(stated.pop("elements")),
                len(taken) - len(memories),
                stated,
            )


def called_kernel(op: Operation) -> str | None:
    """The name of the kernel that a lowered op calls; None if it calls none."""
    if not isinstance(op, func.CallOp):
        return None
    found = _CALLED.fullmatch(callee_of(op))
    return found and found[1]


def strip_kernels(module: Module) -> None:
    """Leave nothing but the function of each kernel, as `NAME.body`.

    Those for GPUs have none.
    """
    for op in [*module.body.operations]:
        if LAUNCH in op.attributes:
            op.operation.erase()
        elif KERNEL in op.attributes:
            del op.attributes[KERNEL]
            (function,) = op.regions[0].blocks[0].operations
            name = f"{name_of(op)}.body"
            function.attributes["sym_name"] = ir.StringAttr.get(name)
            function.attributes["sym_visibility"] = ir.StringAttr.get("private")
