"""Attention on vectors: scores, softmax and weighted sums, without scores in memory.

One workgroup has some queries of one head, which are the lanes of its vectors; they are
transposed into memory of its own. Keys come in blocks. The scores of a block are
products of keys with the transposed queries, made in registers; highest scores and sums
of exponentials are vectors, too, so nothing is summed across lanes (`scores`). The
weighted sums of values go on from those of the blocks before, scaled to the highest
score so far (`sums`): the online softmax of Milakov and Gimelshein (2018,
arXiv:1805.02867), as Dao et al. use it ("FlashAttention", NeurIPS 2022).

A position that all queries of a workgroup hide (`causal`) is not read: what is not
finite there is not seen, while the reference multiplies it by 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from aotc.dialects.ops.attention import Attention
from aotc.dialects.types import Size
from aotc.kernels.cpu import vectors
from aotc.kernels.cpu.arguments import Arguments
from aotc.kernels.cpu.attention.scores import Scores, rescale_factors
from aotc.kernels.cpu.attention.sums import WeightedSums, reciprocal
from aotc.kernels.cpu.attention.work import Block, Queries, Scratch, Softmax, queries_of
from aotc.kernels.cpu.vectors import Values, add, index, scale
from aotc.kernels.planning.attention import (
    AttentionTile,
    Sizes,
)
from aotc.mlir import Function, Value, arith


def write(
    function: Function, anchor: Attention, tile: AttentionTile, given: Arguments
) -> None:
    """Write the kernel of a region."""
    *taken, result = given.memories
    known = dict(zip(function.entry_block.arguments, taken, strict=True))
    operands = [known[value] for value in anchor.operands]
    kernel = _Kernel(anchor, tile, given, operands, result)
    head, part = given.workgroup
    kernel.write(head, part)


class _Kernel:
    """Writes a kernel at the insertion point.

    Args:
        op: what is computed.
        tile: how it is cut up.
        given: the sizes.
        operands: memories of query, key, value and bias.
        result: memory of the result.
    """

    def __init__(
        self,
        op: Attention,
        tile: AttentionTile,
        given: Arguments,
        operands: Sequence[Value],
        result: Value,
    ) -> None:
        self._op, self._tile, self._sizes, self._given = op, tile, Sizes.of(op), given
        self._scratch = Scratch.allocate(tile, self._sizes)
        query, key, value, bias = operands
        self._scores = Scores(op, tile, given, query, key, bias, self._scratch)
        self._sums = WeightedSums(
            self._sizes, tile, given, value, result, self._scratch
        )

    def write(self, head: Value, part: Value) -> None:
        """Write the work of one workgroup.

        Args:
            head: its number, over all batches.
            part: the number of its part of the queries.
        """
        first = scale(part, self._tile.columns)
        queries = queries_of(self._op, self._given, head, first)
        self._scores.transpose_queries(queries)
        if self._sizes.positions == self._tile.keys:
            self._write_only_block(queries)
        else:
            self._write_blocks(queries)

    def _write_only_block(self, queries: Queries) -> None:
        """All keys are one block: nothing is scaled to a later one."""
        block = self._block(queries, index(0), self._tile.keys)
        softmax = self._scores.weigh(queries, block, self._empty_softmax())
        self._store_factors([reciprocal(x, safe=self._op.safe) for x in softmax.total])
        self._sums.write(queries, block)

    def _write_blocks(self, queries: Queries) -> None:
        count, keys = self._tile.vectors, self._tile.keys
        positions = self._sizes.positions
        whole = positions // keys * keys
        last = end = self._given.size(whole)

        def write_block(start: Value, size: Size, carried: Values) -> Values:
            before = Softmax(carried[:count], carried[count:])
            block = self._block(queries, start, size)
            softmax = self._scores.weigh(queries, block, before)
            self._store_factors(rescale_factors(before.highest, softmax.highest))
            self._sums.accumulate(queries, block)
            return [*softmax.highest, *softmax.total]

        if self._op.causal:
            last = arith.minsi(self._end_of_seen(queries), end)
        start = self._empty_softmax()
        self._sums.clear(queries)
        carried = vectors.loop(
            0,
            last,
            keys,
            [*start.highest, *start.total],
            lambda start, some: write_block(start, keys, some),
        )
        if whole != positions:
            carried = write_block(end, positions - whole, carried)
        self._store_factors(
            [reciprocal(x, safe=self._op.safe) for x in carried[count:]]
        )
        self._sums.rescale(queries)

    def _end_of_seen(self, queries: Queries) -> Value:
        """The first position that none of some queries sees, if they are causal."""
        return add(queries.first, self._tile.columns)

    def _block(self, queries: Queries, start: Value, size: Size) -> Block:
        count = size if isinstance(size, int) else None
        there = self._given.size(size)
        if not self._op.causal:
            return Block(start, count, there if count is None else count)
        seen = arith.minsi(arith.subi(self._end_of_seen(queries), start), there)
        return Block(start, count, arith.maxsi(seen, index(0)))

    def _empty_softmax(self) -> Softmax:
        """The softmax before all keys."""
        count, lanes = self._tile.vectors, self._tile.lanes
        lowest, zero = vectors.splat(-inf, lanes), vectors.splat(0.0, lanes)
        return Softmax([lowest] * count, [zero] * count)

    def _store_factors(self, factors: Values) -> None:
        lanes = self._tile.lanes
        for number, factor in enumerate(factors):
            vectors.store(factor, self._scratch.factors, index(number * lanes), lanes)
