"""Regions as kernels of the module, and as dispatches of IREE.

The kernel of a region (`aotc.kernels.lowered`) is written beside the functions of the
module, and the function that takes the place of the region dispatches it, told how many
shares of the workgroups there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from aotc.dialects import iree_text
from aotc.dialects.functions.function_table import name_of, note_symbol, table_of
from aotc.dialects.functions.functions import current_module, signature
from aotc.dialects.functions.fusion import TARGET
from aotc.dialects.iree_text import bodies
from aotc.dialects.lowering import Lowering
from aotc.dialects.plain import attribute_of, plain_of
from aotc.dialects.types import (
    Size,
    SymbolicDim,
    Tensor,
    element_count,
    lowered_type,
    symbols_of,
)
from aotc.kernels.cpu import elementary, loops, sharing, vectors
from aotc.kernels.cpu.arguments import KernelArguments, ScratchMemory
from aotc.kernels.cpu.emitters import EMITTERS
from aotc.kernels.facts import facts_of, work_of
from aotc.kernels.families import FAMILIES
from aotc.kernels.family import PlannedKernel
from aotc.kernels.lowered import CALL, KERNEL
from aotc.kernels.machine import Machine, machine_of
from aotc.machine.target import Target
from aotc.mlir import Function, Module, Value, arith, func, ir


@dataclass(frozen=True)
class _CpuDispatch:
    """The function that dispatches a region's kernel, and the sizes it takes.

    Args:
        function: that calls it.
        symbols: how many of them it takes.
        sizes: of operands and results, those that are not static.
        kernel: that is dispatched.
        workgroups: of the kernel, along two axes.
        work: of the kernel.
    """

    function: Function
    symbols: int
    sizes: Sequence[Size]
    kernel: PlannedKernel[Any, Any]
    workgroups: tuple[Size, Size]
    work: Size

    @property
    def has_runs(self) -> bool:
        """Return whether a kernel takes runs of workgroups, at most one per thread."""
        return self.kernel.family.has_runs

    def most_shares(self, lowering: Lowering) -> Value:
        """Emit how many shares a dispatch is split into at most, as an index."""
        (x, y), work = self.workgroups, self.work
        if isinstance(work, int) and isinstance(x, int) and isinstance(y, int):
            return lowering.size(self.kernel.most_shares(work, x * y))
        workgroups = arith.muli(lowering.size(x), lowering.size(y))
        count = sharing.run_count_value if self.has_runs else sharing.share_count_value
        return count(lowering.size(work), workgroups)


@dataclass(frozen=True)
class CpuKernelCalls:
    """A lowering of calls of regions to dispatches of CPU kernels, for one function.

    Args:
        lowering: of the function, whose symbols are those of its regions.
        known: the dispatches of regions so far, by name.
    """

    lowering: Lowering
    known: dict[str, _CpuDispatch] = field(default_factory=dict)

    def __call__(self, region: Function, operands: Sequence[Value]) -> list[Value]:
        """Emit the dispatch of a region's kernel; return its lowered results.

        The kernel is written at the end of the module, unless it is there.
        """
        name, lowering = name_of(region), self.lowering
        if name not in self.known:
            self.known[name] = _dispatch_of(region)
        dispatch = self.known[name]

        def write_sizes() -> tuple[list[Value], Value]:
            sizes = [lowering.size(size) for size in dispatch.sizes]
            return sizes, dispatch.most_shares(lowering)

        sizes, most = lowering.once(name, write_sizes)
        shares = arith.minui(most, _thread_count()) if dispatch.has_runs else most
        given = [*operands, *lowering.symbols[: dispatch.symbols], shares, *sizes]
        if dispatch.kernel.has_scratch:
            # for as many as there may be: how much memory a call takes is known then
            scratch = lowering.size(dispatch.kernel.scratch)
            given.append(arith.muli(most, scratch))
        return iree_text.call_declared(dispatch.function, given)


def _dispatch_of(region: Function) -> _CpuDispatch:
    """Write a region's kernel if new; return its dispatch function and sizes."""
    kernel = PlannedKernel.of(region, FAMILIES)
    assert kernel is not None
    name = f"{name_of(region)}.kernel"
    module = current_module()
    if not table_of(module).has_symbol(name):
        _write_kernel(module, name, kernel)
    taken, made = signature(region)
    symbols = _symbol_count(region)
    sizes = [
        n for kind in (*taken, *made) for n in kind.shape if isinstance(n, SymbolicDim)
    ]
    operands, results = ([lowered_type(x) for x in side] for side in (taken, made))
    scratches = [any_size()] if kernel.has_scratch else []
    numbers = symbols + 1 + len(sizes) + len(scratches)
    function = iree_text.declare(
        f"{name}{CALL}",
        [*operands, *[ir.IndexType.get()] * numbers],
        results,
        bodies.dispatch(name, operands, symbols, results, scratches),
    )
    groups, work = kernel.workgroups, work_of(kernel)
    return _CpuDispatch(function, symbols, sizes, kernel, groups, work)


def _write_kernel(module: Module, name: str, kernel: PlannedKernel[Any, Any]) -> None:
    """Write the nested module with a kernel's function and facts."""
    function, emit = kernel.function, EMITTERS[kernel.name]
    taken, made = signature(function)
    symbols = _symbol_count(function)
    kinds = [_memory_type(kind) for kind in (*taken, *made)]
    scratch = kernel.scratch
    if kernel.has_scratch:
        kinds.append(_memref(ir.ShapedType.get_dynamic_size(), ir.F32Type.get()))
    indices = [ir.IndexType.get()] * (symbols + 2)
    with ir.InsertionPoint(module.body), function.location:
        holder = ir.Operation.create("builtin.module", regions=1)
        holder.attributes["sym_name"] = ir.StringAttr.get(name)
        note_symbol(holder)
        with ir.InsertionPoint(holder.regions[0].blocks.append()):
            body = func.FuncOp(name, ([*kinds, *indices], [])).add_entry_block()
        with ir.InsertionPoint(body):
            *given, share, shares = body.arguments
            memories, numbers = given[: len(kinds)], given[len(kinds) :]
            columns, rows = kernel.workgroups
            size, machine = Lowering(numbers).size, _machine_of(module)

            def write(x: Value, y: Value) -> None:
                own = None
                if kernel.has_scratch:
                    begin = arith.muli(share, size(scratch))
                    own = ScratchMemory(memories[-1], begin)
                given = memories[: len(taken) + len(made)]
                at = x, y
                arguments = KernelArguments(
                    given, numbers, at, machine, own, _write_inner
                )
                emit(function, kernel.anchor, kernel.schedule, arguments)

            workgroups = size(columns), size(rows)
            if kernel.family.has_runs:
                write(*sharing.run_of_share(share, shares, workgroups))
            else:
                sharing.write_share(share, shares, workgroups, write)
            func.ReturnOp([])
        elementary.round_by_instructions(holder.operation)
        stated = {
            **facts_of(kernel, machine),
            "results": len(kinds) - len(taken),
            "elements": [_elements(kind, symbols) for kind in (*taken, *made)],
        }
        if kernel.has_scratch:
            stated["elements"].append(_scratch_elements(scratch, symbols))
        if kernel.family.memory_parts is not None:
            stated["parts"] = kernel.family.memory_parts(function)
        holder.attributes[KERNEL] = attribute_of(stated)


def _write_inner(region: Function, arguments: KernelArguments) -> None:
    """Emit a region's kernel inline, all workgroups one after the other."""
    kernel = PlannedKernel.of(region, FAMILIES)
    assert kernel is not None
    emit = EMITTERS[kernel.name]
    columns, rows = map(arguments.size, kernel.workgroups)

    def write(x: Value, y: Value) -> None:
        emit(
            region, kernel.anchor, kernel.schedule, replace(arguments, workgroup=(x, y))
        )

    if kernel.family.has_runs:
        write(vectors.index(0), arith.muli(columns, rows))
        return

    def write_row(y: Value) -> None:
        loops.repeat_for(0, columns, 1, lambda x: write(x, y))

    loops.repeat_for(0, rows, 1, write_row)


def _thread_count() -> Value:
    """Emit the number of threads of IREE's device, as an index value."""
    kinds = [ir.IndexType.get()]
    (found,) = iree_text.call("thread_count", [], kinds, bodies.thread_count())
    return found


def _symbol_count(function: Function) -> int:
    """Return how many symbols a region's types mention, up to the last one."""
    taken, made = signature(function)
    sizes = [size for kind in (*taken, *made) for size in kind.shape]
    return max((number + 1 for size in sizes for number in symbols_of(size)), default=0)


def _elements(kind: Tensor, symbols: int) -> str:
    """Return the number of a tensor's elements as the text of an affine map."""
    size = element_count(kind.shape)
    expr = (
        size.expr if isinstance(size, SymbolicDim) else ir.AffineConstantExpr.get(size)
    )
    return str(ir.AffineMap.get(0, symbols + 1, [expr]))


def _scratch_elements(count: Size, symbols: int) -> str:
    """Return the elements of all shares' scratch as the text of an affine map."""
    shares = ir.AffineSymbolExpr.get(symbols)
    if isinstance(count, int):
        return str(ir.AffineMap.get(0, symbols + 1, [shares * count]))
    # a product of symbols is no affine expression; families of such have one share
    return str(ir.AffineMap.get(0, symbols + 1, [count.expr]))


def _machine_of(module: Module) -> Machine | None:
    """Return the CPU model of a module's target; None if the module states none."""
    attributes = module.operation.attributes
    if TARGET not in attributes:
        return None
    return machine_of(Target.parse(plain_of(attributes[TARGET])))


def _memory_type(kind: Tensor) -> object:
    """Return the one-dimensional memref type that holds a tensor."""
    elements = element_count(kind.shape)
    size = elements if isinstance(elements, int) else ir.ShapedType.get_dynamic_size()
    return _memref(size, lowered_type(kind).element_type)


def _memref(size: int, element: object) -> Any:
    """Return a one-dimensional memref type."""
    return ir.MemRefType.get([size], element)


def any_size() -> ir.RankedTensorType:
    """Return the tensor type of scratch memory, of dynamic size."""
    return ir.RankedTensorType.get([ir.ShapedType.get_dynamic_size()], ir.F32Type.get())
