"""What one workgroup of an attention has to do, and where that lies in memory."""

from __future__ import annotations

from dataclasses import dataclass

from aotc.dialects.ops.attention import Attention
from aotc.kernels import vectors
from aotc.kernels.attention.tile import AttentionTile, Sizes, bias_strides
from aotc.kernels.vectors import Values, add, index, scale
from aotc.mlir import Value, arith


@dataclass(frozen=True)
class Queries:
    """The queries of a workgroup, and where what belongs to them begins in memory.

    Args:
        first: the number of the first one.
        query: its elements.
        key: the first key of its head.
        value: the first value.
        bias: the first score's bias.
        result: its result.
    """

    first: Value
    query: Value
    key: Value
    value: Value
    bias: Value
    result: Value


def queries_of(op: Attention, number: Value, first: Value) -> Queries:
    """The queries of a head from one on.

    Args:
        op: what is computed.
        number: of the head, over all batches.
        first: the number of the first query.
    """
    sizes, strides = Sizes.of(op), bias_strides(op)
    batch = arith.divui(number, index(sizes.heads))
    head = arith.remui(number, index(sizes.heads))
    shared = arith.divui(head, index(sizes.heads // sizes.shared))
    query = scale(batch, sizes.length * sizes.heads)
    query = add(query, scale(head, sizes.head_step))
    query = add(query, scale(first, sizes.row_step))
    key = add(scale(batch, sizes.positions * sizes.shared), shared)
    bias = add(scale(batch, strides.batch), scale(head, strides.head))
    return Queries(
        first=first,
        query=scale(query, sizes.depth),
        key=scale(key, sizes.depth),
        value=scale(key, sizes.width),
        bias=add(bias, scale(first, strides.query)),
        result=scale(query, sizes.width),
    )


@dataclass(frozen=True)
class Block:
    """Some keys.

    Args:
        start: the number of the first one.
        count: of them.
        seen: how many of them any query sees.
    """

    start: Value
    count: int
    seen: Value | int


@dataclass(frozen=True)
class Softmax:
    """For each vector of queries.

    Args:
        highest: score so far.
        total: of the exponentials of scores so far, less the highest.
    """

    highest: Values
    total: Values


@dataclass(frozen=True)
class Scratch:
    """The memory of a workgroup: one column for each of its queries.

    Args:
        queries: scaled, one element of all of them after the other.
        scores: of a block; then their exponentials.
        factors: of results.
    """

    queries: Value
    scores: Value
    factors: Value

    @classmethod
    def allocate(cls, tile: AttentionTile, sizes: Sizes) -> Scratch:
        """Allocate it on the stack."""
        rows = sizes.depth, tile.keys, 1
        return cls(*(vectors.allocate(count * tile.columns) for count in rows))
