"""Where keys and values lie: in a cache by positions, or by heads.

    by positions: batch, positions, heads, depth
    by heads: batch, heads, positions, depth

The op takes them by positions. Modules of PyTorch keep them by heads, so that what it
takes is a transpose, which a kernel reads through.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from aotc.dialects.graph import GraphOp
from aotc.dialects.ops.attention import Attention
from aotc.dialects.ops.shape import Transpose
from aotc.dialects.patterns.values import made_by
from aotc.kernels.arguments import Arguments
from aotc.kernels.attention.tile import Sizes
from aotc.kernels.attention.work import Queries
from aotc.kernels.vectors import add, index, scale
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


def caches_by_heads(op: GraphOp) -> Mapping[Value, Value]:
    """The keys and values of an attention that are transposes of caches by heads.

    None of them that is another operand as well, which is read by positions.

    Returns:
        The cache of each.
    """
    assert isinstance(op, Attention)
    makers = {
        value: made_by(value, Transpose)
        for value in (op.key, op.value)
        if value not in (op.query, op.bias)
    }
    return {
        value: maker.x
        for value, maker in makers.items()
        if maker is not None and tuple(maker.permutation) == (0, 2, 1, 3)
    }


def rows_of(
    op: Attention, given: Arguments, queries: Queries, memories: Sequence[Value]
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

    key, value = memories
    return (
        rows(op.key, key, queries.key, sizes.depth),
        rows(op.value, value, queries.value, sizes.width),
    )
