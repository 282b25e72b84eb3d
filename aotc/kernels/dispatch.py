"""Regions as kernels of the module, and as what IREE dispatches.

    module @contraction.kernel attributes {graph.kernel = {
        workgroups = [16, 4], ops = ["dot_general", "add"], …}} {
      func.func @contraction.kernel(%x: memref<98304xf32>, …, %panel: index, …)
    }

The kernel is a function of memrefs in upstream dialects, one axis each, and of the
numbers of a workgroup. It stands in a module of its own, so passes over functions on
tensors do not meet it. `aotc.backend` wraps it into an executable of IREE's, which the
function that takes the place of the region dispatches.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aotc.dialects.function_table import name_of
from aotc.dialects.functions import current_module, types_of
from aotc.dialects.fusion import TARGET, Fused, fused_of
from aotc.dialects.lowering import foreign
from aotc.dialects.plain import attribute_of, plain_of
from aotc.dialects.types import Tensor, lowered_type
from aotc.kernels import families
from aotc.kernels.facts import facts_of
from aotc.kernels.machine import Machine, machine_of
from aotc.mlir import Function, Module, Value, func, ir
from aotc.target import Target

KERNEL = "graph.kernel"


@dataclass(frozen=True)
class Kernel:
    """A kernel as IREE is to dispatch it.

    Args:
        name: of the module that holds it, and of its function.
        memories: types of the memrefs that it takes.
        workgroups: how many there are, along two axes.
        facts: what is to be told of it, see `aotc.kernels.facts`.
    """

    name: str
    memories: tuple[str, ...]
    workgroups: tuple[int, int]
    facts: Mapping[str, Any]


def call_kernel(function: Function, operands: Sequence[Value]) -> list[Value]:
    """The lowered results of a region for lowered operands, by its kernel.

    The kernel is written at the end of the module, unless it is there.
    """
    fused = fused_of(function)
    assert fused is not None
    name = f"{name_of(function)}.kernel"
    module = current_module()
    if all(kernel.name != name for kernel in kernels_of(module)):
        _write_kernel(module, name, function, fused)
    results = [lowered_type(kind) for kind in types_of(_returned(function))]
    inputs = ", ".join(f"%{number}" for number in range(len(operands)))
    given = ", ".join(str(value.type) for value in operands)
    made = ", ".join(map(str, results))
    named = [f"%r#{number}" for number in range(len(results))]
    dispatched = f'%r:{len(results)} = flow.dispatch @"{name}"::@"{name}"'
    return foreign.call(
        f"{name}.dispatch",
        operands,
        results,
        [f"{dispatched}({inputs}) : ({given}) -> ({made})"]
        + [f"return {', '.join(named)} : {made}"],
    )


def kernels_of(module: Module) -> Iterator[Kernel]:
    """The kernels that a lowered module holds."""
    for op in module.body.operations:
        if KERNEL in op.attributes:
            (function,) = op.regions[0].blocks[0].operations
            kind = ir.FunctionType(
                ir.TypeAttr(function.attributes["function_type"]).value
            )
            memories = tuple(str(each) for each in kind.inputs[:-2])
            stated = plain_of(op.attributes[KERNEL])
            workgroups = tuple(stated.pop("workgroups"))
            yield Kernel(name_of(op), memories, workgroups, stated)


def strip_kernels(module: Module) -> None:
    """Leave nothing but the function of each kernel, as `NAME.body`."""
    for op in module.body.operations:
        if KERNEL in op.attributes:
            del op.attributes[KERNEL]
            (function,) = op.regions[0].blocks[0].operations
            name = f"{name_of(op)}.body"
            function.attributes["sym_name"] = ir.StringAttr.get(name)
            function.attributes["sym_visibility"] = ir.StringAttr.get("private")


def _returned(function: Function) -> list[Value]:
    *_, end = function.entry_block.operations
    return list(end.operands)


def _write_kernel(module: Module, name: str, function: Function, fused: Fused) -> None:
    values = [*function.entry_block.arguments, *_returned(function)]
    kinds = [_memory_type(Tensor.of(value)) for value in values]
    indices = [ir.IndexType.get()] * 2
    with ir.InsertionPoint(module.body), function.location:
        holder = ir.Operation.create("builtin.module", regions=1)
        holder.attributes["sym_name"] = ir.StringAttr.get(name)
        with ir.InsertionPoint(holder.regions[0].blocks.append()):
            kernel = func.FuncOp(name, ([*kinds, *indices], []))
        with ir.InsertionPoint(kernel.add_entry_block()):
            *memories, x, y = kernel.arguments
            workgroups = families.write(fused, function, memories, (x, y))
            func.ReturnOp([])
        facts = facts_of(function, fused, _machine_of(module))
        stated = {**facts, "workgroups": list(workgroups)}
        holder.attributes[KERNEL] = attribute_of(stated)


def _machine_of(module: Module) -> Machine | None:
    """That of the target that a module is for; None if it does not say which."""
    attributes = module.operation.attributes
    if TARGET not in attributes:
        return None
    return machine_of(Target.parse(plain_of(attributes[TARGET])))


def _memory_type(kind: Tensor) -> Any:
    sizes: Any = kind.shape
    count = math.prod(sizes)
    return ir.MemRefType.get([count], lowered_type(kind).element_type)
