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

from math import inf

from aotc.dialects.ops.attention import Attention
from aotc.dialects.types import Size
from aotc.kernels.cpu import loops, vectors
from aotc.kernels.cpu.arguments import KernelArguments
from aotc.kernels.cpu.attention.scores import (
    ScoreWriter,
    logarithm_of_sum,
    rescale_factors,
)
from aotc.kernels.cpu.attention.sums import WeightedSums, reciprocal
from aotc.kernels.cpu.attention.work import (
    AttentionMemories,
    OnlineSoftmax,
    SoftmaxScratch,
    queries_of,
)
from aotc.kernels.cpu.vectors import Values, add, index, scale
from aotc.kernels.planning.attention import AttentionSizes, AttentionTile
from aotc.mlir import Function, Value, arith


def write(
    function: Function,
    anchor: Attention,
    tile: AttentionTile,
    arguments: KernelArguments,
) -> None:
    """Emit the body of an attention's kernel for many queries; `anchor` is its op."""
    head, part = arguments.workgroup
    scratch = SoftmaxScratch.allocate(tile, AttentionSizes.of(anchor))
    queries = queries_of(anchor, arguments, head, scale(part, tile.columns))
    memories = AttentionMemories.of(function, anchor, arguments)
    known = arguments.operands_of(function)
    keys = known[anchor.key], known[anchor.value]
    _AttentionKernel(anchor, arguments, memories, queries, tile, scratch, *keys).write()


class _AttentionKernel(WeightedSums, ScoreWriter):
    """An emitter of one workgroup's attention, by online softmax."""

    def write(self) -> None:
        """Emit the attention of one workgroup's queries."""
        self.transpose_queries()
        if self.sizes.positions == self.tile.keys:
            self._write_only_block()
        else:
            self._write_blocks()

    def _write_only_block(self) -> None:
        """Emit attention over a single block of keys, without rescaling."""
        block = self.block(index(0), self.tile.keys)
        softmax = self.weigh(block, self._empty_softmax())
        self._finish_softmax(softmax)
        self.write_sums(block)

    def _write_blocks(self) -> None:
        """Emit attention over blocks of keys, rescaling sums after each block."""
        count, keys = self.tile.vectors, self.tile.keys
        positions = self.sizes.positions
        whole = positions // keys * keys
        last = end = self.given.size(whole)

        def write_block(start: Value, size: Size, carried: Values) -> Values:
            before = OnlineSoftmax(carried[:count], carried[count:])
            block = self.block(start, size)
            softmax = self.weigh(block, before)
            self._store_factors(rescale_factors(before.highest, softmax.highest))
            self.accumulate(block)
            return [*softmax.highest, *softmax.total]

        if self.op.causal:
            last = arith.minsi(self.end_of_seen(), end)
        start = self._empty_softmax()
        self.clear()
        carried = loops.loop(
            0,
            last,
            keys,
            [*start.highest, *start.total],
            lambda start, some: write_block(start, keys, some),
        )
        if whole != positions:
            carried = write_block(end, positions - whole, carried)
        self._finish_softmax(OnlineSoftmax(carried[:count], carried[count:]))
        self.rescale()

    def _empty_softmax(self) -> OnlineSoftmax:
        """Emit the online softmax's state before all keys."""
        count, lanes = self.tile.vectors, self.tile.lanes
        lowest, zero = vectors.splat(-inf, lanes), vectors.splat(0.0, lanes)
        return OnlineSoftmax([lowest] * count, [zero] * count)

    def _finish_softmax(self, softmax: OnlineSoftmax) -> None:
        """Emit stores of the log-sum-exp, if read, and of 1 / total as factors."""
        memory = self.memories.logsum
        if memory is not None:
            self._store_factors(logarithm_of_sum(softmax))
            rest = arith.subi(self.given.size(self.sizes.length), self.queries.first)
            last = arith.minsi(rest, index(self.tile.columns))

            def copy(query: Value) -> None:
                found = vectors.load(self.scratch.factors, query, 1)
                vectors.store(found, memory, add(self.queries.logsum, query), 1)

            loops.repeat_for(0, last, 1, copy)
        self._store_factors([reciprocal(x, safe=self.op.safe) for x in softmax.total])

    def _store_factors(self, factors: Values) -> None:
        """Emit the store of each query's factor to scratch memory."""
        lanes = self.tile.lanes
        for number, factor in enumerate(factors):
            vectors.store(factor, self.scratch.factors, index(number * lanes), lanes)
