"""Regions as kernels of the module, and as what IREE dispatches.

The kernel of a region (`aotc.kernels.lowered`) is written beside the functions of the
module, and the function that takes the place of the region dispatches it, told how many
shares of the workgroups there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from aotc.dialects import iree_text
from aotc.dialects.function_table import name_of, note_symbol, table_of
from aotc.dialects.functions import current_module, signature
from aotc.dialects.fusion import TARGET
from aotc.dialects.iree_text import bodies
from aotc.dialects.lowering import Lowering
from aotc.dialects.plain import attribute_of, plain_of
from aotc.dialects.types import (
    Dim,
    Size,
    Tensor,
    element_count,
    lowered_type,
    symbols_of,
)
from aotc.kernels.cpu import elementary, sharing, vectors
from aotc.kernels.cpu.arguments import Arguments, Scratch
from aotc.kernels.cpu.emitters import EMITTERS
from aotc.kernels.facts import facts_of, work_of
from aotc.kernels.families import FAMILIES
from aotc.kernels.family import PlannedKernel
from aotc.kernels.lowered import CALL, KERNEL
from aotc.kernels.machine import Machine, machine_of
from aotc.mlir import Function, Module, Value, arith, func, ir
from aotc.target import Target


@dataclass(frozen=True)
class _Dispatch:
    """The dispatch of the kernel of a region.

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
        """Whether there are no more shares than threads."""
        return self.kernel.family.has_runs

    def most_shares(self, lowering: Lowering) -> Value:
        """Write how many shares there are at most, as an index value."""
        (x, y), work = self.workgroups, self.work
        if isinstance(work, int) and isinstance(x, int) and isinstance(y, int):
            return lowering.size(self.kernel.most_shares(work, x * y))
        workgroups = arith.muli(lowering.size(x), lowering.size(y))
        count = sharing.run_count_value if self.has_runs else sharing.share_count_value
        return count(lowering.size(work), workgroups)


@dataclass(frozen=True)
class KernelCalls:
    """Calls the kernels of regions in a function.

    Args:
        lowering: of the function, whose symbols are those of its regions.
        known: the dispatches of regions so far, by name.
    """

    lowering: Lowering
    known: dict[str, _Dispatch] = field(default_factory=dict)

    def __call__(self, region: Function, operands: Sequence[Value]) -> list[Value]:
        """Return the lowered results of a region for lowered operands.

        Its kernel is written at the end of the module, unless it is there.
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
        if dispatch.kernel.scratch:
            # for as many as there may be: how much memory a call takes is known then
            given.append(vectors.scale(most, dispatch.kernel.scratch))
        return iree_text.call_declared(dispatch.function, given)


def _dispatch_of(region: Function) -> _Dispatch:
    """Return the dispatch of the kernel of a region, which is written unless it is."""
    kernel = PlannedKernel.of(region, FAMILIES)
    assert kernel is not None
    name = f"{name_of(region)}.kernel"
    module = current_module()
    if not table_of(module).has_symbol(name):
        _write_kernel(module, name, kernel)
    taken, made = signature(region)
    symbols = _symbol_count(region)
    sizes = [n for kind in (*taken, *made) for n in kind.shape if isinstance(n, Dim)]
    operands, results = ([lowered_type(x) for x in side] for side in (taken, made))
    scratches = [any_size()] if kernel.scratch else []
    numbers = symbols + 1 + len(sizes) + len(scratches)
    function = iree_text.declare(
        f"{name}{CALL}",
        [*operands, *[ir.IndexType.get()] * numbers],
        results,
        bodies.dispatch(name, operands, symbols, results, scratches),
    )
    groups, work = kernel.workgroups, work_of(kernel)
    return _Dispatch(function, symbols, sizes, kernel, groups, work)


def _write_kernel(module: Module, name: str, kernel: PlannedKernel[Any, Any]) -> None:
    function, emit = kernel.function, EMITTERS[kernel.name]
    taken, made = signature(function)
    symbols = _symbol_count(function)
    kinds = [_memory_type(kind) for kind in (*taken, *made)]
    scratch = kernel.scratch
    if scratch:
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
                if scratch:
                    own = Scratch(memories[-1], vectors.scale(share, scratch))
                given = memories[: len(taken) + len(made)]
                arguments = Arguments(given, numbers, (x, y), machine, own)
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
        if scratch:
            stated["elements"].append(_scratch_elements(scratch, symbols))
        if kernel.family.memory_parts is not None:
            stated["parts"] = kernel.family.memory_parts(function)
        holder.attributes[KERNEL] = attribute_of(stated)


def _thread_count() -> Value:
    """Return how many threads compute a call, as an index value: of IREE's device."""
    kinds = [ir.IndexType.get()]
    (found,) = iree_text.call("thread_count", [], kinds, bodies.thread_count())
    return found


def _symbol_count(function: Function) -> int:
    """How many symbols there are up to the last one that a region's types mention."""
    taken, made = signature(function)
    sizes = [size for kind in (*taken, *made) for size in kind.shape]
    return max((number + 1 for size in sizes for number in symbols_of(size)), default=0)


def _elements(kind: Tensor, symbols: int) -> str:
    """How many elements a tensor has: see `Kernel.elements`."""
    size = element_count(kind.shape)
    expr = size.expr if isinstance(size, Dim) else ir.AffineConstantExpr.get(size)
    return str(ir.AffineMap.get(0, symbols + 1, [expr]))


def _scratch_elements(count: int, symbols: int) -> str:
    """The same of scratch, of which each share has so many elements."""
    shares = ir.AffineSymbolExpr.get(symbols)
    return str(ir.AffineMap.get(0, symbols + 1, [shares * count]))


def _machine_of(module: Module) -> Machine | None:
    """That of the target that a module is for; None if it does not say which."""
    attributes = module.operation.attributes
    if TARGET not in attributes:
        return None
    return machine_of(Target.parse(plain_of(attributes[TARGET])))


def _memory_type(kind: Tensor) -> Any:
    elements = element_count(kind.shape)
    size = elements if isinstance(elements, int) else ir.ShapedType.get_dynamic_size()
    return _memref(size, lowered_type(kind).element_type)


def _memref(size: int, element: Any) -> Any:
    return ir.MemRefType.get([size], element)


def any_size() -> ir.RankedTensorType:
    """The type of all scratch, whose size goes with the number of shares."""
    return ir.RankedTensorType.get([ir.ShapedType.get_dynamic_size()], ir.F32Type.get())
