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
        function = "rows", text = "…", warps = 4, reads = 1, writes = 1, …}} {
      func.func @rows.kernel(%x: tensor<?x64xf32>, …, %n: i32) -> tensor<?x64xf32> {…}
    }

It takes the memory that it reads, that of its results, and numbers; how many programs
there are, the dispatch says. `aotc.backend` compiles it, and IREE gets what it is then.
In the module beside it are the ops of its region, of tensors and the same numbers: what
IREE compiles where the kernel cannot be compiled (`use_fallbacks`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from aotc.dialects.functions.function_table import name_of
from aotc.dialects.functions.functions import callee_of, functions_of
from aotc.dialects.plain import plain_of
from aotc.mlir import Function, Module, Operation, func, ir

KERNEL = "graph.kernel"
LAUNCH = "graph.launch"
CALL = ".dispatch"  # what the function that dispatches a kernel is called after it
_CALLED = re.compile(rf"iree\.(.+\.kernel){re.escape(CALL)}(_\d+)?")


@dataclass(frozen=True)
class GpuLaunch:
    """The Triton IR of a GPU kernel and the parameters of its launch.

    Args:
        function: the name of the kernel's function.
        text: of a module of Triton's IR that has it.
        warps: of a program.
        stages: of what is loaded ahead.
        reads: how many tensors it reads, which come first.
        writes: how many it writes.
        numbers: how many numbers of 32 bits follow.
        tied: where results are written over what is read, see `LoweredKernel`.
        awaited: tensors that are computed before, see `LoweredKernel`.
    """

    function: str
    text: str
    warps: int
    stages: int
    reads: int
    writes: int
    numbers: int
    tied: tuple[int, ...] = ()
    awaited: int = 0


@dataclass(frozen=True)
class LoweredKernel:
    """A lowered kernel's signature and facts, by which IREE dispatches it.

    Args:
        name: of the module that holds it, and of its function.
        memories: types of the memrefs that it takes.
        results: how many of them, the last ones, are results, or scratch.
        elements: of each memory, as a map of the symbols and the number of shares.
        symbols: how many of them it takes.
        facts: what is to be told of it, see `aotc.kernels.facts`.
        launch: how a GPU runs it; None for a kernel of processors, which alone has
            memories, results, elements and symbols.
        parts: of what it reads and of its results, see `KernelFamily.memory_parts`;
            None where it must not write over what it reads.
        tied: the number of what it reads that each result is written over, or -1; none
            of them if that is empty.
        awaited: tensors that follow what it reads, and which it does not look at: they
            are computed before it is run.
    """

    name: str
    memories: tuple[str, ...]
    results: int
    elements: tuple[str, ...]
    symbols: int
    facts: Mapping[str, Any]
    launch: GpuLaunch | None = None
    parts: tuple[tuple[int, ...], tuple[int, ...]] | None = None
    tied: tuple[int, ...] = ()
    awaited: int = 0


def kernels_of(module: Module) -> Iterator[LoweredKernel]:
    """Yield the lowered kernels of a module."""
    for op in module.body.operations:
        if KERNEL in op.attributes:
            yield kernel_in(op)


def kernel_in(holder: Operation) -> LoweredKernel:
    """Parse the lowered kernel that a nested module (`holder`) holds."""
    name, stated = name_of(holder), plain_of(holder.attributes[KERNEL])
    found = stated.pop("parts", None)
    parts = None if found is None else (tuple(found[0]), tuple(found[1]))
    if LAUNCH in holder.attributes:
        told = plain_of(holder.attributes[LAUNCH])
        launch = GpuLaunch(**{**told, "tied": tuple(told.get("tied", ()))})
        return LoweredKernel(name, (), 0, (), 0, stated, launch, parts)
    (function,) = holder.regions[0].blocks[0].operations
    kind = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
    taken = [str(each) for each in kind.inputs[:-2]]
    memories = [each for each in taken if each != "index"]
    return LoweredKernel(
        name,
        tuple(memories),
        stated.pop("results"),
        tuple(stated.pop("elements")),
        len(taken) - len(memories),
        stated,
        None,
        parts,
        tuple(stated.pop("tied", ())),
        stated.pop("awaited", 0),
    )


def called_kernel(op: Operation) -> str | None:
    """Return the name of the kernel that a lowered call dispatches; None otherwise."""
    return dispatched_kernel(callee_of(op)) if isinstance(op, func.CallOp) else None


def dispatched_kernel(name: str) -> str | None:
    """Return the kernel that a function of this name dispatches, by name, or None."""
    found = _CALLED.fullmatch(name)
    return found and found[1]


def strip_kernels(module: Module) -> None:
    """Rename each CPU kernel's function to a private `NAME.body`; erase GPU kernels.

    The fallback functions beside the text of GPU kernels are erased as well.
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


# ---- ops in the place of kernels for GPUs -------------------------------------------


def use_fallbacks(module: Module, names: Collection[str]) -> None:
    """Replace calls of some GPU kernels by calls of functions with their regions' ops.

    Args:
        module: lowered; is changed.
        names: of the kernels.
    """
    fallbacks, launches = {}, {}
    for op in [*module.body.operations]:
        if LAUNCH in op.attributes and name_of(op) in names:
            launches[name_of(op)] = kernel_in(op).launch
            fallbacks[name_of(op)] = _move_out(op, module)
            op.operation.erase()
    for function in functions_of(module).values():
        if function.is_external:
            continue
        for call in _calls_in(function):
            kernel = called_kernel(call)
            if kernel is not None and kernel in fallbacks:
                _call_instead(call, fallbacks[kernel], launches[kernel])
    for function in [*functions_of(module).values()]:
        found = _CALLED.fullmatch(name_of(function))
        if found and found[1] in fallbacks:
            function.operation.erase()


def _calls_in(function: Function) -> list[func.CallOp]:
    """Return the calls of a function, those in loops and branches too."""
    found: list[func.CallOp] = []

    def visit(op: Operation) -> ir.WalkResult:
        call = op.opview
        if isinstance(call, func.CallOp):
            found.append(call)
        return ir.WalkResult.ADVANCE

    function.operation.walk(visit)
    return found


def _move_out(holder: Operation, module: Module) -> Function:
    """Move a GPU kernel's fallback functions out to `module`; return the main one."""
    kernel, made = name_of(holder), dict[str, str]()
    inside = holder.regions[0].blocks[0].operations
    functions = [op for op in inside if isinstance(op, func.FuncOp)]
    for function in functions:
        old = name_of(function)
        made[old] = f"{kernel}.body" if old == kernel else f"{kernel}.{old}"
        function.attributes["sym_name"] = ir.StringAttr.get(made[old])
        function.attributes["sym_visibility"] = ir.StringAttr.get("private")
    for function in functions:
        for call in _calls_in(function):
            callee = made[callee_of(call)]
            call.attributes["callee"] = ir.FlatSymbolRefAttr.get(callee)
    *_, last = module.body.operations
    for function in functions:
        function.operation.move_after(last)
    return next(x for x in functions if name_of(x) == made[kernel])


def _call_instead(
    call: Operation, function: Function, launch: GpuLaunch | None
) -> None:
    """Replace a call of a GPU kernel by a call of its fallback function."""
    assert launch is not None
    count, given = len(function.type.inputs), [*call.operands]
    del given[launch.reads : launch.reads + launch.awaited]
    with ir.InsertionPoint(call), call.location:
        made = func.CallOp(function, given[:count])
    for old, new in zip(call.results, made.results, strict=True):
        old.replace_all_uses_with(new)
    call.operation.erase()
