"""Elementwise ops alone: a block of elements of one tensor after the other.

The last vector of a part may be smaller. All that is read for some elements is read
before any of them is written, so that results may lie where operands do.
"""

from __future__ import annotations

from collections.abc import Sequence

from aotc.dialects.graph import GraphOp
from aotc.dialects.lowering.scalars import int_compare
from aotc.kernels.cpu import loops
from aotc.kernels.cpu.arguments import KernelArguments
from aotc.kernels.cpu.epilogue import Epilogue
from aotc.kernels.cpu.vectors import add, index, scale
from aotc.kernels.cpu.walks import index_minimum
from aotc.kernels.planning.updates import (
    RegionPart,
    UpdateBlocks,
    block_count,
    parts_of,
)
from aotc.mlir import Function, Value


def write(
    function: Function,
    anchor: GraphOp,
    schedule: UpdateBlocks,
    arguments: KernelArguments,
) -> None:
    """Emit the body of a kernel of elementwise ops alone, which computes one block."""
    known, results = arguments.operands_of(function), arguments.results_of(function)

    def write_part(part: RegionPart, block: Value) -> None:
        own = [results[number] for number in part.results]
        value, _ = own[0]
        epilogue = Epilogue(value, known, own, schedule.lanes, arguments.machine)
        _write_block(epilogue, part, schedule, block)

    def write_from(parts: Sequence[RegionPart], block: Value) -> None:
        first, *others = parts
        if not others:
            write_part(first, block)
            return
        count = block_count(first, schedule.block)
        loops.branch(
            int_compare("ult", block, index(count)),
            lambda: write_part(first, block),
            lambda: write_from(others, add(block, -count)),
        )

    write_from(parts_of(function), arguments.workgroup[0])


def _write_block(
    epilogue: Epilogue, part: RegionPart, schedule: UpdateBlocks, block: Value
) -> None:
    """Emit a block of a part's elements: whole vectors, then a shorter one."""
    rest = part.elements % schedule.lanes
    whole = part.elements - rest
    first = scale(block, schedule.block)
    if whole:
        last = index_minimum(add(first, schedule.block), whole)
        epilogue.write_run(first, last)
    if rest:
        is_last = int_compare("eq", block, index(block_count(part, schedule.block) - 1))
        loops.branch(
            is_last,
            lambda: epilogue.write_elements(index(whole), rest),
            lambda: None,
        )
