"""Work of one workgroup of an attention, and its places in memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from aotc.dialects.lowering.scalars import int_compare
from aotc.dialects.ops.attention import Attention
from aotc.dialects.types import Size, Tensor
from aotc.kernels.cpu import vectors
from aotc.kernels.cpu.arguments import KernelArguments
from aotc.kernels.cpu.vectors import Values, add, index, scale
from aotc.kernels.cpu.walks import (
    Group,
    branch_at_rest,
    parts,
    row_groups,
    visit_groups,
)
from aotc.kernels.planning.attention import (
    Attends,
    AttentionSizes,
    AttentionTile,
    bias_strides,
)
from aotc.kernels.planning.tile import split_groups
from aotc.mlir import Function, Value, arith


@dataclass(frozen=True)
class Queries:
    """The offsets of a workgroup's queries and of their operands in memory.

    Args:
        first: the number of the first one.
        query: its elements.
        key: the first key of its head.
        value: the first value.
        bias: the first score's bias.
        result: its result.
        logsum: the logarithm of its sum of exponentials.
    """

    first: Value
    query: Value
    key: Value
    value: Value
    bias: Value
    result: Value
    logsum: Value


def queries_of(
    op: Attends, arguments: KernelArguments, number: Value, first: Value
) -> Queries:
    """Emit the offsets of a head's queries, from query `first` on.

    Args:
        op: what is computed.
        arguments: the sizes.
        number: of the head, over all batches.
        first: the number of the first query.
    """
    sizes, strides = AttentionSizes.of(op), bias_strides(op)
    batch = arith.divui(number, index(sizes.heads))
    head = arith.remui(number, index(sizes.heads))
    shared = arith.divui(head, index(sizes.heads // sizes.shared))
    query = arguments.scale(batch, sizes.length * sizes.heads)
    query = add(query, scale(head, sizes.head_step))
    query = add(query, scale(first, sizes.row_step))
    key = add(arguments.scale(batch, sizes.positions * sizes.shared), shared)
    bias = add(
        arguments.scale(batch, strides.batch), arguments.scale(head, strides.head)
    )
    return Queries(
        first=first,
        query=scale(query, sizes.depth),
        key=scale(key, sizes.depth),
        value=scale(key, sizes.width),
        bias=add(bias, arguments.scale(first, strides.query)),
        result=scale(query, sizes.width),
        logsum=add(arguments.scale(number, sizes.length), first),
    )


@dataclass(frozen=True)
class KeyBlock:
    """A block of keys, and how many of them any query sees.

    Args:
        start: the number of the first one.
        count: of them; None if only a call decides it.
        seen: how many of them any query sees.
    """

    start: Value
    count: int | None
    seen: Value | int

    def tiles(self, most: int) -> list[Group]:
        """Group the block's keys that queries see into tiles of at most `most`."""
        if self.count is None:
            return row_groups(self.seen, most)
        found: list[Group] = []
        for first, count, tiles in split_groups(self.count, most):
            last: Value | int = tiles
            if not isinstance(self.seen, int):
                rest = arith.maxsi(add(self.seen, -first), index(0))
                needed = arith.divui(add(rest, count - 1), index(count))
                last = arith.minsi(needed, index(tiles))
            found.append((first, count, last))
        return found


@dataclass(frozen=True)
class OnlineSoftmax:
    """The state of an online softmax: running maxima and sums of exponentials.

    Args:
        highest: score so far.
        total: of the exponentials of scores so far, less the highest.
    """

    highest: Values
    total: Values


@dataclass(frozen=True)
class RowsInMemory:
    """Rows at one stride in memory, one for each query or key.

    Args:
        memory: that holds them.
        begin: of the first one.
        step: from one to the next.
        length: of each.
    """

    memory: Value
    begin: Value
    step: Size
    length: int | Value

    @property
    def known_step(self) -> int:
        """The stride between rows, asserted to be static."""
        assert isinstance(self.step, int)
        return self.step

    def at(self, arguments: KernelArguments, number: Value) -> Value:
        """Emit the offset of a row."""
        return add(self.begin, arguments.scale(number, self.step))


@dataclass(frozen=True)
class AttentionScratch:
    """The memory of a workgroup: one column for each of its queries.

    Args:
        queries: scaled, one element of all of them after the other.
        scores: of a block; then their exponentials.
    """

    queries: Value
    scores: Value


@dataclass(frozen=True)
class SoftmaxScratch(AttentionScratch):
    """The scratch memory of a workgroup of the forward attention.

    Args:
        factors: of results.
        sums: that narrower results are made of, by queries; None where the sums are in
            the memory of results.
    """

    factors: Value
    sums: Value | None

    @classmethod
    def allocate(cls, tile: AttentionTile, sizes: AttentionSizes) -> SoftmaxScratch:
        """Emit the allocation of the scratch memory on the stack."""
        columns = tile.columns
        return cls(
            queries=vectors.allocate(sizes.depth * columns),
            scores=vectors.allocate(tile.keys * columns),
            factors=vectors.allocate(columns),
            sums=allocate_sums(sizes, columns),
        )


def allocate_sums(sizes: AttentionSizes, queries: int) -> Value | None:
    """Emit the allocation of sums on the stack; None where results hold them."""
    return vectors.allocate(queries * sizes.width) if sizes.is_narrow else None


class AttentionMemories(NamedTuple):
    """The memrefs of queries, bias, result and log-sum-exp (None if not read).

    In the place of the result, a gradient reads the cotangent, which lies alike.
    """

    query: Value
    bias: Value
    result: Value
    logsum: Value | None

    @classmethod
    def of(
        cls, function: Function, op: Attention, arguments: KernelArguments
    ) -> AttentionMemories:
        """Return the memrefs of the operands and results of a region's attention."""
        known, results = (
            arguments.operands_of(function),
            dict(arguments.results_of(function)),
        )
        return cls(
            known[op.query], known[op.bias], results[op.y], results.get(op.logsum)
        )


@dataclass(frozen=True)
class WorkgroupAttention:
    """An attention op with the part of it that one workgroup computes.

    Args:
        op: what is computed.
        given: the sizes.
        memories: of operands and result.
        queries: of the workgroup.
    """

    op: Attends
    given: KernelArguments
    memories: AttentionMemories
    queries: Queries

    @cached_property
    def sizes(self) -> AttentionSizes:
        """The sizes of the attention."""
        return AttentionSizes.of(self.op)

    @property
    def dtype(self) -> str:
        """The dtype of the results."""
        return Tensor.of(self.op.results[0]).dtype


@dataclass(frozen=True)
class TiledWork(WorkgroupAttention):
    """A workgroup's part of an attention of many queries, with its tile.

    Args:
        tile: how it is cut up.
        scratch: of the workgroup.
        key: memory of the keys.
        value: likewise.
    """

    tile: AttentionTile
    scratch: AttentionScratch
    key: Value
    value: Value

    @property
    def keys(self) -> RowsInMemory:
        """The rows of keys of the head."""
        step = self.sizes.shared * self.sizes.depth
        return RowsInMemory(self.key, self.queries.key, step, self.sizes.depth)

    def block(self, start: Value, size: Size) -> KeyBlock:
        """Emit the block of `size` keys from `start` on."""
        count = size if isinstance(size, int) else None
        there = self.given.size(size)
        if not self.op.causal:
            return KeyBlock(start, count, there if count is None else count)
        seen = arith.minsi(arith.subi(self.end_of_seen(), start), there)
        return KeyBlock(start, count, arith.maxsi(seen, index(0)))

    def end_of_seen(self) -> Value:
        """Emit the first position that a causal mask hides from all queries here."""
        return add(self.queries.first, self.tile.columns)

    def visit_queries(self, write: Callable[[Value, int], None]) -> None:
        """Emit code for all queries of the workgroup, a tile at a time.

        Args:
            write: it, given the number of the first query, and how many there are.
        """
        columns, length = self.tile.columns, self.sizes.length
        whole, rest = length // columns * columns, length % columns

        def write_rows(count: int | Value) -> None:
            visit_groups(row_groups(count, self.tile.queries), write)

        branch_at_rest(
            (whole, rest),
            lambda: int_compare("slt", self.queries.first, self.given.size(whole)),
            lambda: write_rows(columns),
            lambda: write_rows(
                rest if isinstance(rest, int) else self.given.size(rest)
            ),
        )

    def panels(self, length: int) -> list[list[tuple[int, int]]]:
        """Return the (start, length) of a row's vectors, grouped to fit registers."""
        found, step = parts(length, self.tile.lanes), self.tile.width
        return [found[n : n + step] for n in range(0, len(found), step)]
