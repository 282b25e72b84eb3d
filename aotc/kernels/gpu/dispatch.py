"""Regions as kernels of GPUs, and as dispatches of IREE.

The kernel of a region (`aotc.kernels.lowered`) is written beside the functions of the
module, and the function that takes the place of the region dispatches it, told how many
programs there are. Beside the kernel are the lowered ops of the region, for IREE to
compile where Triton does not compile the kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import TypeAlias

from aotc.dialects import iree_text
from aotc.dialects.functions.function_table import name_of, note_symbol, table_of
from aotc.dialects.functions.functions import current_module, signature
from aotc.dialects.iree_text import bodies
from aotc.dialects.lowering import Lowering
from aotc.dialects.plain import attribute_of
from aotc.dialects.sizes.symbols import contracts_of
from aotc.dialects.types import Size, SymbolicDim, lowered_type
from aotc.errors import CompileError
from aotc.kernels.facts import facts_of
from aotc.kernels.family import PlannedKernel
from aotc.kernels.gpu.emitter import NoTermKernel
from aotc.kernels.gpu.families import FAMILIES, kernel_of_region
from aotc.kernels.gpu.kernel import GpuKernel
from aotc.kernels.lowered import CALL, KERNEL, LAUNCH, GpuLaunch
from aotc.mlir import Function, Module, Operation, Value, arith, func, ir

_BITS = 32  # of a number that a kernel takes

# lowers the ops of a region, given its arguments and the values of its symbols
LowerOps: TypeAlias = Callable[
    [Function, Sequence[Value], Sequence[Value | None]], list[Value]
]


@dataclass(frozen=True)
class _GpuDispatch:
    """The function that dispatches a region's GPU kernel, and the sizes it takes.

    Args:
        function: that calls it.
        kernel: what is dispatched.
        sizes: of operands and results, those that are not static.
    """

    function: Function
    kernel: GpuKernel
    sizes: Sequence[Size]


@dataclass(frozen=True)
class GpuKernelCalls:
    """A lowering of calls of regions to dispatches of GPU kernels, for one function.

    Args:
        lowering: of the function, whose symbols are those of its regions.
        lower_ops: lowers the ops of a region.
        known: the dispatches of regions so far, by name.
    """

    lowering: Lowering
    lower_ops: LowerOps
    known: dict[str, _GpuDispatch] = field(default_factory=dict)

    def __call__(self, region: Function, operands: Sequence[Value]) -> list[Value]:
        """Emit the dispatch of a region's kernel; return its lowered results.

        The kernel is written at the end of the module, unless it is there.

        Raises:
            CompileError: `no-kernel`: there is no code for the region, which was
                edited.
        """
        name, lowering = name_of(region), self.lowering
        if name not in self.known:
            self.known[name] = _dispatch_of(region, self.lower_ops)
        dispatch = self.known[name]

        def write_numbers() -> list[Value]:
            kernel = dispatch.kernel
            sizes = [lowering.size(size) for size in dispatch.sizes]
            numbers = _numbers(kernel, lowering.symbols[: kernel.symbols])
            return [*numbers, lowering.size(kernel.programs), *sizes]

        given = [*operands, *lowering.once(name, write_numbers)]
        return iree_text.call_declared(dispatch.function, given)


def _dispatch_of(region: Function, lower_ops: LowerOps) -> _GpuDispatch:
    """Write a region's kernel and fallback if new; return its dispatch function."""
    module, kernel = current_module(), kernel_of_region(region)
    if isinstance(kernel, NoTermKernel):
        raise CompileError(
            "no-kernel",
            f"there is no kernel for the region '{name_of(region)}': {kernel.why}",
            hint="let the pass 'fuse-regions' form the regions",
        )
    name = f"{name_of(region)}.kernel"
    taken, made = signature(region)
    if not table_of(module).has_symbol(name):
        holder = _write_kernel(module, name, region, kernel)
        _write_ops(holder, region, kernel, lower_ops)
    sizes = [
        n for kind in (*taken, *made) for n in kind.shape if isinstance(n, SymbolicDim)
    ]
    operands, results = ([lowered_type(x) for x in side] for side in (taken, made))
    numbers = len(kernel.numbers([0] * kernel.symbols))
    given = [
        *operands,
        *[ir.IntegerType.get_signless(_BITS)] * numbers,
        *[ir.IndexType.get()] * (1 + len(sizes)),
    ]
    body = bodies.dispatch(
        name,
        operands,
        numbers,
        results,
        function=kernel.name,
        number=f"i{_BITS}",
    )
    function = iree_text.declare(f"{name}{CALL}", given, results, body)
    return _GpuDispatch(function, kernel, sizes)


def _numbers(kernel: GpuKernel, symbols: Sequence[Value]) -> list[Value]:
    """Emit the 32-bit arguments of a kernel from the values of its symbols."""
    number = ir.IntegerType.get_signless(_BITS)
    if not kernel.is_large:
        return [arith.index_cast(number, each) for each in symbols]
    whole = ir.IntegerType.get_signless(2 * _BITS)
    by = arith.constant(whole, _BITS)
    wide = [arith.index_cast(whole, each) for each in symbols]
    return [
        arith.trunci(number, half)
        for each in wide
        for half in (each, arith.shrui(each, by))
    ]


def _write_kernel(
    module: Module, name: str, function: Function, kernel: GpuKernel
) -> Operation:
    """Write the nested module that holds a kernel's text and facts; return it."""
    planned = PlannedKernel.of(function, FAMILIES)
    assert planned is not None
    taken, made = signature(function)
    launch = GpuLaunch(
        kernel.name,
        kernel.text,
        kernel.warps,
        kernel.stages,
        len(taken),
        len(made),
        len(kernel.numbers([0] * kernel.symbols)),
    )
    facts = facts_of(planned, None)
    del facts["shares"]  # of threads: GPUs have none that claim work
    if kernel.multiplies:
        facts["precision"] = kernel.precision
    if planned.family.memory_parts is not None:
        facts["parts"] = planned.family.memory_parts(function)
    with ir.InsertionPoint(module.body), function.location:
        holder: Operation = ir.Operation.create("builtin.module", regions=1)
        holder.attributes["sym_name"] = ir.StringAttr.get(name)
        note_symbol(holder)
        holder.regions[0].blocks.append()
        holder.attributes[KERNEL] = attribute_of(facts)
        holder.attributes[LAUNCH] = attribute_of(asdict(launch))
    return holder


def _write_ops(
    holder: Operation, function: Function, kernel: GpuKernel, lower_ops: LowerOps
) -> None:
    """Write a region's lowered ops beside its kernel, as a fallback function."""
    taken, made = (
        [lowered_type(kind) for kind in side] for side in signature(function)
    )
    number = ir.IntegerType.get_signless(_BITS)
    count = len(kernel.numbers([0] * kernel.symbols))
    kind = ir.FunctionType.get([*taken, *[number] * count], made)
    block = holder.regions[0].blocks[0]
    with ir.InsertionPoint(block), function.location:
        written = func.FuncOp(name_of(holder), kind)
        with ir.InsertionPoint(written.add_entry_block()):
            given = [*written.arguments]
            symbols = _symbols(kernel, given[len(taken) :])
            unused = len(contracts_of(function)) - len(symbols)
            known = [*symbols, *[None] * unused]
            func.ReturnOp(lower_ops(function, given[: len(taken)], known))


def _symbols(kernel: GpuKernel, numbers: Sequence[Value]) -> list[Value]:
    """Emit the values of symbols from a kernel's 32-bit arguments; see `_numbers`."""
    index = ir.IndexType.get()
    if not kernel.is_large:
        return [arith.index_cast(index, each) for each in numbers]
    whole = ir.IntegerType.get_signless(2 * _BITS)
    by = arith.constant(whole, _BITS)
    pairs = zip(numbers[::2], numbers[1::2], strict=True)
    found = []
    for low, high in pairs:
        upper = arith.shli(arith.extui(whole, high), by)
        found.append(arith.index_cast(index, arith.ori(arith.extui(whole, low), upper)))
    return found
