"""Regions as kernels of GPUs, and as what IREE dispatches.

The kernel of a region (`aotc.kernels.lowered`) is written beside the functions of the
module, and the function that takes the place of the region dispatches it, told how many
programs there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from itertools import chain

from aotc.dialects import iree_text
from aotc.dialects.function_table import name_of, note_symbol, table_of
from aotc.dialects.functions import current_module, signature
from aotc.dialects.iree_text import bodies
from aotc.dialects.lowering import Lowering
from aotc.dialects.plain import attribute_of
from aotc.dialects.types import lowered_type
from aotc.errors import CompileError
from aotc.kernels.facts import facts_of
from aotc.kernels.family import PlannedKernel
from aotc.kernels.gpu.emitter import NoKernel
from aotc.kernels.gpu.families import FAMILIES, kernel_of_region
from aotc.kernels.gpu.kernel import GpuKernel
from aotc.kernels.lowered import CALL, KERNEL, LAUNCH, Launch
from aotc.mlir import Function, Module, Value, arith, ir

_BITS = 32  # of a number that a kernel takes


def call_kernel(
    function: Function, operands: Sequence[Value], lowering: Lowering
) -> list[Value]:
    """The lowered results of a region for lowered operands, by its kernel.

    The kernel is written at the end of the module, unless it is there.

    Args:
        function: the region.
        operands: of the call.
        lowering: knows the symbols of the function that calls, which are the region's.

    Raises:
        CompileError: `no-kernel`: there is no code for the region, which was edited.
    """
    module, kernel = current_module(), kernel_of_region(function)
    if isinstance(kernel, NoKernel):
        raise CompileError(
            "no-kernel",
            f"there is no kernel for the region '{name_of(function)}': {kernel.why}",
            hint="let the pass 'fuse-regions' form the regions",
        )
    name = f"{name_of(function)}.kernel"
    taken, made = signature(function)
    if not table_of(module).has_symbol(name):
        _write_kernel(module, name, function, kernel)
    sizes = [lowering.dynamic_sizes(kind.shape) for kind in (*taken, *made)]
    numbers = _numbers(kernel, lowering.symbols[: kernel.symbols])
    programs = lowering.size(kernel.programs)
    given = [*operands, *numbers, programs, *chain.from_iterable(sizes)]
    results = [lowered_type(kind) for kind in made]
    body = bodies.dispatch(
        name,
        [value.type for value in operands],
        len(numbers),
        results,
        function=kernel.name,
        number=f"i{_BITS}",
    )
    return iree_text.call(f"{name}{CALL}", given, results, body)


def _numbers(kernel: GpuKernel, symbols: Sequence[Value]) -> list[Value]:
    """Return what a kernel takes for its symbols, as `GpuKernel.numbers` says."""
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
) -> None:
    planned = PlannedKernel.of(function, FAMILIES)
    assert planned is not None
    taken, made = signature(function)
    launch = Launch(
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
    with ir.InsertionPoint(module.body), function.location:
        holder = ir.Operation.create("builtin.module", regions=1)
        holder.attributes["sym_name"] = ir.StringAttr.get(name)
        note_symbol(holder)
        holder.regions[0].blocks.append()
        holder.attributes[KERNEL] = attribute_of(facts)
        holder.attributes[LAUNCH] = attribute_of(asdict(launch))
