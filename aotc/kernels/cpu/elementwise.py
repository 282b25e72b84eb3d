"""Elementwise ops by themselves, row by row: those that end with bytes, and others."""

from __future__ import annotations

from aotc.dialects.graph import GraphOp
from aotc.dialects.types import Tensor, element_count, static_size
from aotc.kernels.cpu import loops, vectors
from aotc.kernels.cpu.arguments import KernelArguments
from aotc.kernels.cpu.epilogue import Epilogue, VectorPosition
from aotc.kernels.cpu.vectors import add, scale
from aotc.kernels.cpu.walks import block_bounds, visit_parts
from aotc.kernels.planning.movement import MovementBlocks
from aotc.mlir import Function, Value


def write(
    function: Function,
    anchor: GraphOp,
    schedule: MovementBlocks,
    arguments: KernelArguments,
) -> None:
    """Emit the body of a kernel of elementwise ops, row by row."""
    *outer, last = Tensor.of(anchor.results[0]).shape
    width, lanes = static_size(last), schedule.lanes
    epilogue = Epilogue.of(function, anchor, arguments, lanes)
    ((value, memory),) = epilogue.results

    def write_row(row: Value) -> None:
        begin = scale(row, width)

        def write_vector(column: Value, count: int) -> None:
            place = VectorPosition(add(begin, column), column, key=0, count=count)
            found = epilogue.compute(value, place)
            vectors.store(found, memory, place.at, lanes, count)

        visit_parts(width, lanes, write_vector)

    rows = arguments.size(element_count(tuple(outer)))
    bounds = block_bounds(arguments.workgroup[0], schedule.block, rows)
    loops.repeat_for(*bounds, 1, write_row)
