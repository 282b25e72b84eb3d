"""Layout of keys and values: in a cache by positions, or by heads.

    by positions: batch, positions, heads, depth
    by heads: batch, heads, positions, depth

The op takes them by positions. Modules of PyTorch keep them by heads, so that what it
takes is a transpose, which a kernel reads through. What a cache holds may be narrower
than what the op takes, which elementwise ops make of it in registers: of bf16, or of
bytes with a scale for each row.
"""

from __future__ import annotations

from dataclasses import dataclass

from aotc.dialects.ops.attention import Attention
from aotc.kernels.cpu.arguments import KernelArguments
from aotc.kernels.cpu.attention.work import Queries
from aotc.kernels.cpu.epilogue import Epilogue, VectorPosition
from aotc.kernels.cpu.vectors import add, index, scale
from aotc.kernels.operands import is_repeated
from aotc.kernels.planning.attention import AttentionSizes
from aotc.kernels.planning.decoder import caches_by_heads
from aotc.mlir import Function, Value, arith


@dataclass(frozen=True)
class HeadRows:
    """The keys or the values of one head, as rows in memory.

    Args:
        value: those of all heads, or the cache that they are a transpose of.
        epilogue: reads vectors of it, or computes them of what the cache holds.
        memory: what is read to make them, element by element.
        begin: of the first one.
        step: from one to the next.
    """

    value: Value
    epilogue: Epilogue
    memory: Value
    begin: Value
    step: int

    def at(self, position: Value) -> Value:
        """Emit the offset of the row of a position."""
        return add(self.begin, scale(position, self.step))

    def load(self, row: Value, column: Value, count: int) -> Value:
        """Emit a vector of a row from element `column` on, dequantised if needed."""
        place = VectorPosition(add(row, column), column, key=0, count=count)
        return self.epilogue.compute(self.value, place)


def rows_of(
    function: Function,
    op: Attention,
    arguments: KernelArguments,
    queries: Queries,
    lanes: int,
) -> tuple[HeadRows, HeadRows]:
    """Return readers of the keys and of the values of a workgroup's head.

    Args:
        function: the region.
        op: what is computed.
        arguments: the sizes, and the number of the workgroup.
        queries: of the head.
        lanes: of a vector.
    """
    sizes, views = AttentionSizes.of(op), caches_by_heads(op)
    head = arith.divui(arguments.workgroup[0], index(sizes.heads // sizes.shared))
    epilogue = Epilogue.of(function, op, arguments, lanes)

    def rows(operand: Value, begin: Value, size: int) -> HeadRows:
        value, step = views.get(operand, operand), sizes.shared * size
        if operand in views:
            begin, step = scale(arguments.scale(head, sizes.positions), size), size
        memory = epilogue.memories[_argument_behind(value, epilogue)]
        return HeadRows(value, epilogue, memory, begin, step)

    return (
        rows(op.key, queries.key, sizes.depth),
        rows(op.value, queries.value, sizes.width),
    )


def _argument_behind(value: Value, epilogue: Epilogue) -> Value:
    """Return the region's argument from which a key or value is computed."""
    made = [value]
    while not epilogue.is_read(value):
        made += [x for x in made.pop(0).owner.operands if not is_repeated(x)]
        value = made[0]
    return value
