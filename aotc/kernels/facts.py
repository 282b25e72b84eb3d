"""Facts on a kernel for listings: its ops, its work and its schedule."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from aotc.core.dtypes import to_numpy
from aotc.dialects.functions.walking import backward_slice
from aotc.dialects.graph import GraphOp
from aotc.dialects.sizes.symbols import (
    contracts_of,
    known_contracts,
    symbol_bounds,
    symbol_optimum,
)
from aotc.dialects.types import Size, Tensor, evaluate_size
from aotc.kernels import grain
from aotc.kernels.family import PlannedKernel
from aotc.kernels.machine import Machine
from aotc.mlir import Value

Facts = dict[str, Any]


def facts_of(kernel: PlannedKernel[Any, Any], machine: Machine | None) -> Facts:
    """Return the facts that listings give of a region's kernel, as plain data.

    Args:
        kernel: of the region.
        machine: that it is for; None if that is not known.

    Returns:
        `family`, `tile` (as the family reads it), `schedule` (the same in words), `ops`
        (names), `sizes` (of the symbols: those of most calls, or the least, but not 0),
        and for these sizes: `workgroups` along two axes, `shares` of them that threads
        claim (at most, where there are as many as threads), `flops` (float operations
        of its product or window, for all algorithms those of the direct one; one for
        each element of an elementwise op or a reduction, three of a norm or a softmax),
        `bytes_read` and `bytes_written` (each tensor once), and `cycles` on one core,
        where there is a model of them.
    """
    function, schedule = kernel.function, kernel.schedule
    contracts = contracts_of(function)
    with known_contracts(contracts):
        values = [_usual_symbol(n) for n in range(len(contracts))]
    parts = [*_parts_of(kernel)]
    *_, end = function.entry_block.operations
    groups = [evaluate_size(size, values) for size in kernel.workgroups]
    work = evaluate_size(work_of(kernel), values)
    read, written = function.entry_block.arguments, end.operands
    found: Facts = {
        "family": kernel.name,
        "tile": schedule.to_plain(),
        "schedule": str(schedule),
        "ops": [_name_of(op) for _, op in parts],
        "sizes": {
            contract.name: contract.multiple_of * value
            for contract, value in zip(contracts, values, strict=True)
        },
        "workgroups": groups,
        "shares": kernel.most_shares(work, math.prod(groups)),
        "flops": sum(
            evaluate_size(times, values) * evaluate_size(flops_of(op), values)
            for times, op in parts
        ),
        "bytes_read": sum(evaluate_size(bytes_of(x), values) for x in read),
        "bytes_written": sum(evaluate_size(bytes_of(x), values) for x in written),
    }
    cycles = kernel.family.cycles
    if machine is not None and cycles is not None:
        found["cycles"] = cycles(
            kernel.anchor,
            schedule,
            machine,
            lambda size: evaluate_size(size, values),
        )
    return found


def _usual_symbol(position: int) -> int:
    """Return a symbolic dimension's value in most calls, else its least (not 0)."""
    usual = symbol_optimum(position)
    return max(1, int(symbol_bounds(position)[0]) if usual is None else usual)


def work_of(kernel: PlannedKernel[Any, Any]) -> Size:
    """Return the cost of a region: its float operations plus weighted bytes (`grain`).

    The cost of a loop is that of the regions of all its steps.
    """
    times, inner = kernel.inner()
    if inner:
        return times * sum(map(work_of, inner), start=0)
    block = kernel.function.entry_block
    *_, end = block.operations
    moved = map(bytes_of, (*block.arguments, *end.operands))
    flops = map(flops_of, _computing_ops(kernel))
    return sum(flops, start=0) + grain.BYTE * sum(moved, start=0)


def _parts_of(kernel: PlannedKernel[Any, Any]) -> Iterator[tuple[Size, GraphOp]]:
    """Yield (repetitions, op) of each op that a kernel computes, in loop steps too."""
    times, inner = kernel.inner()
    for each in inner:
        yield from ((times * count, op) for count, op in _parts_of(each))
    if not inner:
        yield from ((1, op) for op in _computing_ops(kernel))


def _computing_ops(kernel: PlannedKernel[Any, Any]) -> list[GraphOp]:
    """Return the ops of a region that count as work: no reordering, no unpacking.

    Not those that bring elements into order, unless that is all it is for, or undo the
    packing of an operand.
    """
    undoing = set[Value]()  # what the second operand is unpacked through
    if kernel.packing is not None:
        undoing = {*backward_slice([kernel.anchor.operands[1]])}
    operations = kernel.function.entry_block.operations
    ops = [op for op in operations if isinstance(op, GraphOp)]
    found = {
        op.results[0]
        for op in ops
        if not type(op).rearranges
        and not type(op).is_free
        and op.results[0] not in undoing
    }
    if not found:
        return ops
    found.add(kernel.anchor.results[0])
    return [op for op in ops if op.results[0] in found]


def _name_of(op: GraphOp) -> str:
    """Return the name of a graph op without its dialect's prefix."""
    return op.operation.name.removeprefix("graph.")


def flops_of(op: GraphOp) -> Size:
    """Return the float operations of an op; one for each element if not known."""
    known = type(op).flops(op)
    return Tensor.of(op.results[0]).elements if known is None else known


def bytes_of(value: Value) -> Size:
    """Return the number of bytes of a tensor value."""
    return Tensor.of(value).elements * int(to_numpy(Tensor.of(value).dtype).itemsize)
