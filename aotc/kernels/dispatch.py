"""Regions as kernels of the module, and as what IREE dispatches.

    module @contraction.kernel attributes {graph.kernel = {
        workgroups = [16, 4], ops = ["dot_general", "add"], …}} {
      func.func @contraction.kernel(%x: memref<98304xf32>, …, %share: index, …)
    }

The kernel is a function of memrefs in upstream dialects, one axis each, of the symbols
that their sizes depend on, of the number of a share of the workgroups (`sharing`), and
of how many shares there are. Where its family asks for scratch, that is one more result
of the dispatch, which nothing reads: IREE gives it memory with the other tensors of the
call. The function stands in a module of its own, so passes over functions on tensors do
not meet it. `aotc.backend` wraps it into an executable of IREE's, which
the function that takes the place of the region dispatches, told how many shares there
are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, count
from typing import Any

from aotc.dialects.function_table import name_of, note_symbol, table_of
from aotc.dialects.functions import callee_of, current_module, signature
from aotc.dialects.fusion import TARGET, Fused, fused_of
from aotc.dialects.lowering import Lowering, foreign
from aotc.dialects.plain import attribute_of, plain_of
from aotc.dialects.types import Dim, Tensor, element_count, lowered_type, symbols_of
from aotc.kernels import emitters, families, sharing, vectors
from aotc.kernels.arguments import Arguments, Scratch
from aotc.kernels.facts import facts_of, work_of
from aotc.kernels.machine import Machine, machine_of
from aotc.mlir import Function, Module, Operation, Value, arith, func, ir
from aotc.target import Target

KERNEL = "graph.kernel"

_CALL = ".dispatch"  # what the function that dispatches a kernel is called after it
_CALLED = re.compile(rf"iree\.(.+\.kernel){re.escape(_CALL)}(_\d+)?")


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
    """

    name: str
    memories: tuple[str, ...]
    results: int
    elements: tuple[str, ...]
    symbols: int
    facts: Mapping[str, Any]


def call_kernel(
    function: Function, operands: Sequence[Value], lowering: Lowering
) -> list[Value]:
    """The lowered results of a region for lowered operands, by its kernel.

    The kernel is written at the end of the module, unless it is there.

    Args:
        function: the region.
        operands: of the call.
        lowering: knows the symbols of the function that calls, which are the region's.
    """
    fused = fused_of(function)
    assert fused is not None
    name = f"{name_of(function)}.kernel"
    module = current_module()
    if not table_of(module).has_symbol(name):
        _write_kernel(module, name, function, fused)
    taken, made = signature(function)
    symbols = lowering.symbols[: _symbol_count(function)]
    sizes = [lowering.dynamic_sizes(kind.shape) for kind in (*taken, *made)]
    most = _most_shares(function, fused, lowering)
    has_runs = families.FAMILIES[fused.kernel].has_runs
    shares = arith.minui(most, _thread_count()) if has_runs else most
    given = [*operands, *symbols, shares, *chain.from_iterable(sizes)]
    results = [lowered_type(kind) for kind in made]
    scratch = families.scratch(fused, function)
    if scratch:
        # for as many as there may be: how much memory a call takes is known then
        given.append(vectors.scale(most, scratch))
    types = [value.type for value in operands]
    body = _dispatch(name, types, len(symbols), results, has_scratch=scratch > 0)
    return foreign.call(f"{name}{_CALL}", given, results, body)


def _dispatch(
    name: str,
    operands: Sequence[ir.RankedTensorType],
    symbols: int,
    results: Sequence[ir.RankedTensorType],
    *,
    has_scratch: bool,
) -> list[str]:
    """The body of a function that dispatches a kernel, for IREE.

    Its arguments are the operands, the symbols, how many shares there are, the sizes of
    operands and results that are not static, in order, and that of the scratch.
    """
    shares = len(operands) + symbols
    numbers = count(shares + 1)

    def sized(kind: ir.RankedTensorType) -> str:
        axes = filter(kind.is_dynamic_dim, range(kind.rank))
        names = [f"%{next(numbers)}" for _ in axes]
        return f"{kind}{{{', '.join(names)}}}" if names else str(kind)

    given = ", ".join(f"%{number}" for number in range(shares))
    taken = ", ".join([*map(sized, operands), *["index"] * symbols])
    scratch = [_any_size()] if has_scratch else []
    made = ", ".join(map(sized, [*results, *scratch]))
    named = ", ".join(f"%r#{number}" for number in range(len(results)))
    results_in_all = len(results) + len(scratch)
    return [
        f'%r:{results_in_all} = flow.dispatch @"{name}"::@"{name}"[%{shares}]'
        f"({given}) : ({taken}) -> ({made})",
        f"return {named} : {', '.join(map(str, results))}",
    ]


def kernels_of(module: Module) -> Iterator[Kernel]:
    """The kernels that a lowered module holds."""
    for op in module.body.operations:
        if KERNEL in op.attributes:
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
    """Leave nothing but the function of each kernel, as `NAME.body`."""
    for op in module.body.operations:
        if KERNEL in op.attributes:
            del op.attributes[KERNEL]
            (function,) = op.regions[0].blocks[0].operations
            name = f"{name_of(op)}.body"
            function.attributes["sym_name"] = ir.StringAttr.get(name)
            function.attributes["sym_visibility"] = ir.StringAttr.get("private")


def _write_kernel(module: Module, name: str, function: Function, fused: Fused) -> None:
    taken, made = signature(function)
    symbols = _symbol_count(function)
    kinds = [_memory_type(kind) for kind in (*taken, *made)]
    scratch = families.scratch(fused, function)
    if scratch:
        kinds.append(_memref(ir.ShapedType.get_dynamic_size(), ir.F32Type.get()))
    indices = [ir.IndexType.get()] * (symbols + 2)
    with ir.InsertionPoint(module.body), function.location:
        holder = ir.Operation.create("builtin.module", regions=1)
        holder.attributes["sym_name"] = ir.StringAttr.get(name)
        note_symbol(holder)
        with ir.InsertionPoint(holder.regions[0].blocks.append()):
            kernel = func.FuncOp(name, ([*kinds, *indices], []))
        with ir.InsertionPoint(kernel.add_entry_block()):
            *given, share, shares = kernel.arguments
            memories, numbers = given[: len(kinds)], given[len(kinds) :]
            columns, rows = families.workgroups(fused, function)
            size, machine = Lowering(numbers).size, _machine_of(module)

            def write(x: Value, y: Value) -> None:
                own = None
                if scratch:
                    own = Scratch(memories[-1], vectors.scale(share, scratch))
                given = memories[: len(taken) + len(made)]
                arguments = Arguments(given, numbers, (x, y), machine, own)
                emitters.write(fused, function, arguments)

            workgroups = size(columns), size(rows)
            if families.FAMILIES[fused.kernel].has_runs:
                write(*sharing.run_of_share(share, shares, workgroups))
            else:
                sharing.write_share(share, shares, workgroups, write)
            func.ReturnOp([])
        stated = {
            **facts_of(function, fused, machine),
            "results": len(kinds) - len(taken),
            "elements": [_elements(kind, symbols) for kind in (*taken, *made)],
        }
        if scratch:
            stated["elements"].append(_scratch_elements(scratch, symbols))
        holder.attributes[KERNEL] = attribute_of(stated)


def _most_shares(function: Function, fused: Fused, lowering: Lowering) -> Value:
    """How many shares a dispatch of a region has at most, as an index value."""
    x, y = families.workgroups(fused, function)
    work = work_of(function)
    if isinstance(work, int) and isinstance(x, int) and isinstance(y, int):
        return lowering.size(families.most_shares(fused, work, x * y))
    workgroups = arith.muli(lowering.size(x), lowering.size(y))
    has_runs = families.FAMILIES[fused.kernel].has_runs
    count = sharing.run_count_value if has_runs else sharing.share_count_value
    return count(lowering.size(work), workgroups)


def _thread_count() -> Value:
    """How many threads compute a call, as an index value: of IREE's device."""
    body = [
        "%first = arith.constant 0 : index",
        "%device = hal.devices.get %first : !hal.device",
        "%known, %count = hal.device.query<%device : !hal.device> "
        'key("hal.dispatch" :: "concurrency") : i1, i64 = 1 : i64',
        "%threads = arith.index_cast %count : i64 to index",
        "return %threads : index",
    ]
    (count,) = foreign.call("thread_count", [], [ir.IndexType.get()], body)
    return count


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


def _any_size() -> ir.RankedTensorType:
    """The type of all scratch, whose size goes with the number of shares."""
    return ir.RankedTensorType.get([ir.ShapedType.get_dynamic_size()], ir.F32Type.get())
