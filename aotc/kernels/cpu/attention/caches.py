"""Where keys and values lie: in a cache by positions, or by heads.

    by positions: batch, positions, heads, depth
    by heads: batch, heads, positions, depth

The op takes them by positions. Modules of PyTorch keep them by heads, so that what it
takes is a transpose, which a kernel reads through.
"""

from __future__ import annotations

from dataclasses import dataclass

from aotc.dialects.ops.attention import Attention
from aotc.kernels.cpu.arguments import Arguments
from aotc.kernels.cpu.attention.work import Memories, Queries
from aotc.kernels.cpu.vectors import add, index, scale
from aotc.kernels.planning.attention import Sizes
from aotc.kernels.planning.decoder import caches_by_heads
from aotc.mlir import Value, arith


@dataclass(frozen=True)
class Rows:
    """The keys or the values of a head.

    Args:
        memory: of those of all heads.
        begin: of the first one.
        step: from one to the next.
    """

    memory: Value
    begin: Value
    step: int

    def at(self, position: Value) -> Value:
        """Where that of a position begins."""
        return add(self.begin, scale(position, self.step))


def rows_of(
    op: Attention, given: Arguments, queries: Queries, memories: Memories
) -> tuple[Rows, Rows]:
    """The keys and the values of the head that a workgroup has.

    Args:
        op: what is computed.
        given: the sizes, and the number of the workgroup.
        queries: of the head.
        memories: of keys and values, or of the caches that they are transposes of.
    """
    sizes, views = Sizes.of(op), caches_by_heads(op)
    head = arith.divui(given.workgroup[0], index(sizes.heads // sizes.shared))

    def rows(value: Value, memory: Value, begin: Value, size: int) -> Rows:
        if value not in views:
            return Rows(memory, begin, sizes.shared * size)
        return Rows(memory, scale(given.scale(head, sizes.positions), size), size)

    return (
        rows(op.key, memories.key, queries.key, sizes.depth),
        rows(op.value, memories.value, queries.value, sizes.width),
    )
