"""The gradient of attention on vectors, block by block, without scores in memory.

One workgroup has one head of keys, and all queries of the heads that share it, in
blocks. The queries of a block are the lanes of its vectors; they and their cotangents
are transposed into memory of the workgroup. For each block of keys, the scores are made
again, as in the forward kernel, and of them the probabilities P and the cotangents dS:

    P = exp(scores - logsum)        dS = P (value dy^T + shift) scale

From these come the sums of the three results, which go on in the memory of these: P dy
and dS query of the keys of the block, dS key of its queries (Dao, "FlashAttention-2",
2023, arXiv:2307.08691, section 3.1; there the workgroups of a head share its keys).
Each sum is added up by one workgroup in an order that sizes alone decide.

As in the forward kernel, a position that all queries of a block hide (`causal`) is not
read; nor is a query, for the sums of keys that all of them are hidden from it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from aotc.dialects.ops.attention_gradient import AttentionGradient
from aotc.dialects.types import Size
from aotc.kernels.cpu import loops, vectors
from aotc.kernels.cpu.arguments import KernelArguments
from aotc.kernels.cpu.attention.scores import ScoreWriter, finite
from aotc.kernels.cpu.attention.work import (
    AttentionMemories,
    AttentionScratch,
    KeyBlock,
    RowsInMemory,
    queries_of,
)
from aotc.kernels.cpu.elementary import exp
from aotc.kernels.cpu.vectors import Values, add, index, scale
from aotc.kernels.cpu.walks import index_minimum, parts, visit_groups
from aotc.kernels.planning.attention import AttentionSizes, AttentionTile
from aotc.mlir import Function, Value, arith


def write(
    function: Function,
    anchor: AttentionGradient,
    tile: AttentionTile,
    arguments: KernelArguments,
) -> None:
    """Emit the body of the kernel of an attention's gradient, the op `anchor`."""
    sizes, known = AttentionSizes.of(anchor), arguments.operands_of(function)
    memories = AttentionMemories(
        *(known[x] for x in (anchor.query, anchor.bias, anchor.dy, anchor.logsum))
    )
    scratch = GradientScratch.allocate(tile, sizes)
    results = dict(arguments.results_of(function))
    dquery, dkey, dvalue = (
        results.get(x) for x in (anchor.dquery, anchor.dkey, anchor.dvalue)
    )
    group = sizes.heads // sizes.shared

    def kernel(head: Value, first: Value) -> _GradientKernel:
        number = add(scale(arguments.workgroup[0], group), head)
        return _GradientKernel(
            anchor,
            arguments,
            memories,
            queries_of(anchor, arguments, number, first),
            tile,
            scratch,
            known[anchor.key],
            known[anchor.value],
            known[anchor.shift],
            dquery,
            dkey,
            dvalue,
        )

    kernel(index(0), index(0)).clear_keys()

    def write_head(head: Value) -> None:
        length = arguments.size(sizes.length)
        loops.repeat_for(
            0, length, tile.columns, lambda first: kernel(head, first).write()
        )

    loops.repeat_for(0, group, 1, write_head)


@dataclass(frozen=True)
class GradientScratch(AttentionScratch):
    """The scratch memory of a workgroup that computes an attention's gradient.

    Args:
        cotangents: of the results of queries, like `queries`.
        slopes: cotangents of the scores of a block, like `scores`.
    """

    cotangents: Value
    slopes: Value

    @classmethod
    def allocate(cls, tile: AttentionTile, sizes: AttentionSizes) -> GradientScratch:
        """Emit the allocation of the scratch memory on the stack."""
        columns, keys = tile.columns, tile.keys
        counts = sizes.depth, keys, sizes.width, keys
        return cls(*(vectors.allocate(count * columns) for count in counts))


@dataclass(frozen=True)
class _Weights:
    """A matrix of weights (P or dS) in scratch memory, with its strides.

    Args:
        memory: that holds them: of P or of dS.
        row: from the weight of one sum to that of the next.
        term: from one weight of a sum to the next.
    """

    memory: Value
    row: int
    term: int


@dataclass(frozen=True)
class _GradientKernel(ScoreWriter):
    """An emitter of an attention's gradient for one block of queries.

    Args:
        shift: memory of the term of each row.
        dquery: memory of a result; None if nothing reads it.
        dkey: likewise.
        dvalue: likewise.
    """

    scratch: GradientScratch
    shift: Value
    dquery: Value | None
    dkey: Value | None
    dvalue: Value | None

    # ---- operands and results by rows -----------------------------------------------

    @property
    def _values(self) -> RowsInMemory:
        """The rows of values of the head."""
        step = self.sizes.shared * self.sizes.width
        return RowsInMemory(self.value, self.queries.value, step, self.sizes.width)

    @property
    def _queries(self) -> RowsInMemory:
        """The rows of queries of the block."""
        step = self.sizes.row_step * self.sizes.depth
        begin = self.queries.query
        return RowsInMemory(self.memories.query, begin, step, self.sizes.depth)

    @property
    def _cotangents(self) -> RowsInMemory:
        """The rows of result cotangents (dy) of the block."""
        step = self.sizes.row_step * self.sizes.width
        begin = self.queries.result
        return RowsInMemory(self.memories.result, begin, step, self.sizes.width)

    @property
    def _count(self) -> Value:
        """The number of queries of the block."""
        rest = arith.subi(self.given.size(self.sizes.length), self.queries.first)
        return index_minimum(rest, self.tile.columns)

    # ---- the work -------------------------------------------------------------------

    def clear_keys(self) -> None:
        """Emit zeros to the gradients of all keys and values of the head."""
        positions = self.given.size(self.sizes.positions)
        if self.dkey is not None:
            self._clear(_in_memory(self.keys, self.dkey), positions)
        if self.dvalue is not None:
            self._clear(_in_memory(self._values, self.dvalue), positions)

    def write(self) -> None:
        """Emit a block of queries: add to dkey and dvalue, and write its dquery."""
        self.transpose_queries()
        cotangents = self.scratch.cotangents
        self.transpose(self._cotangents, cotangents, lambda x: x)
        assert self.memories.logsum is not None
        logsums = self._numbers(self.memories.logsum)
        if self.op.safe:
            logsums = [finite(x) for x in logsums]
        shifts = self._numbers(self.shift)
        if self.dquery is not None:
            self._clear(_in_memory(self._queries, self.dquery), self._count)

        def write_block(start: Value, size: Size) -> None:
            block = self.block(start, size)
            self._weigh(block, logsums)
            self._add_to_values(block)
            if self.dquery is not None or self.dkey is not None:
                self._derive(block, shifts)
                self._add_to_keys(block)
                self._add_to_queries(block)

        keys, positions = self.tile.keys, self.sizes.positions
        whole = positions // keys * keys
        last = end = self.given.size(whole)
        if self.op.causal:
            last = arith.minsi(self.end_of_seen(), end)
        loops.repeat_for(0, last, keys, lambda start: write_block(start, keys))
        if whole != positions:
            write_block(end, positions - whole)

    def _numbers(self, memory: Value) -> Values:
        """Emit the loads of one number of each query, as vectors; zeros follow."""
        lanes, count = self.tile.lanes, self._count
        return [
            vectors.load(
                memory, add(self.queries.logsum, n), lanes, arith.subi(count, index(n))
            )
            for n in range(0, self.tile.columns, lanes)
        ]

    def _clear(self, rows: RowsInMemory, count: Value) -> None:
        """Emit stores of zeros to the first `count` rows in memory."""
        assert isinstance(rows.length, int)
        lanes, found = self.tile.lanes, parts(rows.length, self.tile.lanes)
        zero = vectors.splat(0.0, lanes)

        def write_row(number: Value) -> None:
            begin = rows.at(self.given, number)
            for first, some in found:
                vectors.store(zero, rows.memory, add(begin, first), lanes, some)

        loops.repeat_for(0, count, 1, write_row)

    # ---- weights --------------------------------------------------------------------

    def _weigh(self, block: KeyBlock, logsums: Values) -> None:
        """Emit the probabilities P of a block of keys, to scratch memory."""
        self.transpose_bias(block)

        def write_tile(key: Value, count: int) -> None:
            some = add(block.start, key), count
            sums = self.multiply(self.keys, some, self.scratch.queries)
            for place, total in enumerate(sums):
                row, vector = divmod(place, self.tile.vectors)
                score = self.score(block, (add(key, row), vector), total)
                weight = exp(arith.subf(score, logsums[vector]))
                self._store(weight, self.scratch.scores, key, place)

        visit_groups(block.tiles(self.tile.rows), write_tile)

    def _derive(self, block: KeyBlock, shifts: Values) -> None:
        """Emit the scores' cotangents dS of a block of keys, to scratch memory."""
        lanes = self.tile.lanes
        factor = vectors.splat(float(self.op.scale), lanes)

        def write_tile(key: Value, count: int) -> None:
            some = add(block.start, key), count
            sums = self.multiply(self._values, some, self.scratch.cotangents)
            for place, total in enumerate(sums):
                at = self._place(key, place)
                weight = vectors.load(self.scratch.scores, at, lanes)
                total = arith.addf(total, shifts[place % self.tile.vectors])
                slope = arith.mulf(arith.mulf(weight, total), factor)
                self._store(slope, self.scratch.slopes, key, place)

        visit_groups(block.tiles(self.tile.rows), write_tile)

    def _place(self, key: Value, number: int) -> Value:
        """Emit the offset of a tile's vector of weights, by first key and number."""
        row, vector = divmod(number, self.tile.vectors)
        at = scale(add(key, row), self.tile.columns)
        return add(at, vector * self.tile.lanes)

    def _store(self, x: Value, memory: Value, key: Value, number: int) -> None:
        """Emit the store of a tile's vector of weights, placed by `_place`."""
        vectors.store(x, memory, self._place(key, number), self.tile.lanes)

    # ---- sums -----------------------------------------------------------------------

    def _add_to_values(self, block: KeyBlock) -> None:
        """Emit the addition of P dy to dvalue, for a block of keys."""
        if self.dvalue is not None:
            sums = _in_memory(self._values, self.dvalue)
            self._add_to_block(block, sums, self.scratch.scores, self._cotangents)

    def _add_to_keys(self, block: KeyBlock) -> None:
        """Emit the addition of dS query to dkey, for a block of keys."""
        if self.dkey is not None:
            sums = _in_memory(self.keys, self.dkey)
            self._add_to_block(block, sums, self.scratch.slopes, self._queries)

    def _add_to_block(
        self, block: KeyBlock, sums: RowsInMemory, memory: Value, terms: RowsInMemory
    ) -> None:
        """Emit the addition of weighted query rows to a block's gradient rows."""
        weights = _Weights(memory, self.tile.columns, 1)
        start = _rows_from(sums, self.given, block.start)

        def write_tile(key: Value, count: int) -> None:
            first = index(0)
            if self.op.causal:  # no query before the first key sees any of them
                behind = arith.subi(add(block.start, key), self.queries.first)
                first = arith.maxsi(behind, first)
            self._add_rows(start, (key, count), weights, terms, (first, self._count))

        visit_groups(block.tiles(self.tile.rows), write_tile)

    def _add_to_queries(self, block: KeyBlock) -> None:
        """Emit the addition of dS key to dquery, for a block of keys."""
        if self.dquery is None:
            return
        sums = _in_memory(self._queries, self.dquery)
        weights = _Weights(self.scratch.slopes, 1, self.tile.columns)
        terms = _rows_from(self.keys, self.given, block.start)

        def write_tile(query: Value, count: int) -> None:
            last = index(block.seen) if isinstance(block.seen, int) else block.seen
            if self.op.causal:  # the last query sees no key behind it
                after = add(add(self.queries.first, query), count)
                last = arith.minsi(arith.subi(after, block.start), last)
            self._add_rows(sums, (query, count), weights, terms, (index(0), last))

        self.visit_queries(write_tile)

    def _add_rows(
        self,
        sums: RowsInMemory,
        row_range: tuple[Value, int],
        weights: _Weights,
        terms: RowsInMemory,
        bounds: tuple[Value, Value],
    ) -> None:
        """Emit `sums += weights @ terms`, for some rows of sums in memory.

        Args:
            sums: in memory.
            row_range: the number of the first row, and how many rows there are.
            weights: of each row and each term.
            terms: the rows that are added.
            bounds: the number of the first of them, and the one after the last.
        """
        lanes, (row, count) = self.tile.lanes, row_range
        assert isinstance(sums.length, int)
        starts = [sums.at(self.given, add(row, n)) for n in range(count)]
        for panel in self.panels(sums.length):
            places = [
                (add(start, first), size) for start in starts for first, size in panel
            ]

            def add_term(
                number: Value, carried: Values, panel: list[tuple[int, int]] = panel
            ) -> Values:
                left = add(scale(row, weights.row), scale(number, weights.term))
                right = terms.at(self.given, number)

                def weight(place: int) -> Value:
                    at = add(left, place * weights.row)
                    element = vectors.load_element(weights.memory, at)
                    return vectors.repeat(element, lanes)

                def term(place: int) -> Value:
                    first, size = panel[place]
                    return vectors.load(terms.memory, add(right, first), lanes, size)

                sizes = count, len(panel)
                return vectors.outer_product(weight, term, sizes, carried)

            begin = [vectors.load(sums.memory, at, lanes, n) for at, n in places]
            carried = loops.loop(*bounds, 1, begin, add_term)
            for (at, n), total in zip(places, carried, strict=True):
                vectors.store(total, sums.memory, at, lanes, n)


def _in_memory(rows: RowsInMemory, memory: Value) -> RowsInMemory:
    """Return rows of the same layout in another memref."""
    return replace(rows, memory=memory)


def _rows_from(
    rows: RowsInMemory, arguments: KernelArguments, number: Value
) -> RowsInMemory:
    """Return the rows from number `number` on."""
    return replace(rows, begin=rows.at(arguments, number))
