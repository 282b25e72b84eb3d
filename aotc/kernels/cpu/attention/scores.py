"""Scores of a block of keys, and the softmax over them and all before."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import inf

from aotc.dialects.lowering.scalars import constant, float_compare, int_compare
from aotc.dialects.types import Tensor
from aotc.kernels.cpu import loops, vectors
from aotc.kernels.cpu.attention.work import (
    KeyBlock,
    OnlineSoftmax,
    RowsInMemory,
    TiledWork,
)
from aotc.kernels.cpu.elementary import exp_of_negative
from aotc.kernels.cpu.vectors import Values, add, index, scale
from aotc.kernels.cpu.walks import Group, visit_parts
from aotc.kernels.planning.attention import bias_strides
from aotc.mlir import Value, arith, math


class ScoreWriter(TiledWork):
    """An emitter of attention scores, and of the softmax over blocks of keys."""

    def transpose_queries(self) -> None:
        """Emit scaled queries, transposed, to scratch memory."""
        sizes = self.sizes
        factor = vectors.splat(float(self.op.scale), self.tile.lanes)
        step = sizes.row_step * sizes.depth
        rows = RowsInMemory(self.memories.query, self.queries.query, step, sizes.depth)
        self.transpose(rows, self.scratch.queries, lambda x: arith.mulf(x, factor))

    def weigh(self, block: KeyBlock, before: OnlineSoftmax) -> OnlineSoftmax:
        """Emit a block's softmax weights to scratch; return the softmax so far."""
        self.transpose_bias(block)
        highest = before.highest
        for group in block.tiles(self.tile.rows):
            highest = self._score_keys(block, group, highest)
        totals = [
            arith.mulf(total, factor)
            for total, factor in zip(
                before.total, rescale_factors(before.highest, highest), strict=True
            )
        ]
        return OnlineSoftmax(highest, self._write_exponentials(block, highest, totals))

    def _write_exponentials(
        self, block: KeyBlock, highest: Values, totals: Values
    ) -> Values:
        """Emit exponentials over a block's scores; return `totals` plus their sums."""
        tile, lanes = self.tile, self.tile.lanes
        shifts = [finite(x) for x in highest]

        def write_key(key: Value, totals: Values) -> Values:
            found = []
            for number, (total, shift) in enumerate(zip(totals, shifts, strict=True)):
                at = add(scale(key, tile.columns), number * lanes)
                score = vectors.load(self.scratch.scores, at, lanes)
                weight = exp_of_negative(arith.subf(score, shift))
                vectors.store(weight, self.scratch.scores, at, lanes)
                found.append(arith.addf(total, weight))
            return found

        return loops.loop(0, block.seen, 1, totals, write_key)

    # ---- rows as columns ------------------------------------------------------------

    def transpose_bias(self, block: KeyBlock) -> None:
        """Emit a block's bias, transposed, to scratch, if it varies with queries."""
        step = bias_strides(self.op).query
        if step != 0:
            begin, count = add(self.queries.bias, block.start), block.count
            rows = RowsInMemory(self.memories.bias, begin, step, count or block.seen)
            self.transpose(rows, self.scratch.scores, lambda x: x)

    def transpose(
        self,
        rows: RowsInMemory,
        target: Value,
        convert: Callable[[Value], Value],
    ) -> None:
        """Emit rows, one for each query, transposed to columns in scratch memory.

        Columns without a query have the last query again.

        Args:
            rows: one for each query.
            target: the workgroup's memory.
            convert: what is done to each vector of a row.
        """
        tile, lanes = self.tile, self.tile.lanes
        last = arith.subi(self.given.size(self.sizes.length - 1), self.queries.first)

        def write_square(query: Value, place: Value, count: int | Value) -> None:
            square = []
            for lane in range(lanes):
                row = rows.at(self.given, arith.minsi(add(query, lane), last))
                at = add(row, place)
                square.append(convert(vectors.load(rows.memory, at, lanes, count)))
            there = count if isinstance(count, int) else lanes
            for number, x in enumerate(vectors.transpose(square)[:there]):
                at = add(scale(add(place, number), tile.columns), query)
                vectors.store(x, target, at, lanes)

        def write_vector(query: Value) -> None:
            write = partial(write_square, query)
            if isinstance(rows.length, int):
                visit_parts(rows.length, lanes, write)
                return
            rest = arith.remui(rows.length, index(lanes))
            end = arith.subi(rows.length, rest)
            loops.repeat_for(0, end, lanes, lambda place: write(place, lanes))
            loops.repeat_for(0, rest, lanes, lambda _: write(end, rest))

        loops.repeat_for(0, tile.columns, lanes, write_vector)

    # ---- scores ---------------------------------------------------------------------

    def _score_keys(self, block: KeyBlock, group: Group, highest: Values) -> Values:
        """Emit the scores of a group of tiles of keys; return the highest so far.

        Args:
            block: of keys.
            group: the first key, how many there are in a tile, and how many tiles.
            highest: so far.
        """
        first, count, tiles = group

        def score_tile(number: Value, highest: Values) -> Values:
            key = add(scale(number, count), first)
            return self._score_tile(block, (key, count), highest)

        return loops.loop(0, tiles, 1, highest, score_tile)

    def _score_tile(
        self, block: KeyBlock, keys: tuple[Value, int], highest: Values
    ) -> Values:
        """Emit the scores of one tile of keys to scratch; return the highest so far."""
        tile, lanes, (key, count) = self.tile, self.tile.lanes, keys
        first = add(block.start, key)
        sums = self.multiply(self.keys, (first, count), self.scratch.queries)
        found = list(highest)
        for place, total in enumerate(sums):
            number, vector = divmod(place, tile.vectors)
            score = self.score(block, (add(key, number), vector), total)
            at = add(scale(add(key, number), tile.columns), vector * lanes)
            vectors.store(score, self.scratch.scores, at, lanes)
            found[vector] = arith.maximumf(found[vector], score)
        return found

    def multiply(
        self, rows: RowsInMemory, row_range: tuple[Value, int], columns: Value
    ) -> Values:
        """Emit the products of some rows and all columns; return sums by rows.

        Args:
            rows: of the head, such as its keys.
            row_range: the number of the first, and how many there are.
            columns: of the workgroup's memory, such as the transposed queries.
        """
        tile, lanes, (first, count) = self.tile, self.tile.lanes, row_range
        begin = rows.at(self.given, first)

        def add_products(place: Value, sums: Values) -> Values:
            left, right = add(begin, place), scale(place, tile.columns)

            def element(number: int) -> Value:
                at = add(left, number * rows.known_step)
                return vectors.repeat(vectors.load_element(rows.memory, at), lanes)

            def column(number: int) -> Value:
                at = add(right, number * lanes)
                return vectors.load(columns, at, lanes)

            return vectors.outer_product(element, column, (count, tile.vectors), sums)

        zeros = [vectors.splat(0.0, lanes)] * (count * tile.vectors)
        return loops.loop(0, rows.length, 1, zeros, add_products)

    def score(self, block: KeyBlock, place: tuple[Value, int], product: Value) -> Value:
        """Emit a score: the product plus bias, or -inf where masked causally.

        Args:
            block: of keys.
            place: the key in the block, and the number of the vector of queries.
            product: of these.
        """
        lanes, (key, vector) = self.tile.lanes, place
        score = product
        if Tensor.of(self.op.bias).rank:
            score = arith.addf(score, self._bias_at(block, place))
        if not self.op.causal:
            return score
        query = vectors.iota_from(add(self.queries.first, vector * lanes), lanes)
        position = vectors.repeat_index(add(block.start, key), lanes)
        seen = int_compare("sge", query, position)
        return arith.select(seen, score, vectors.splat(-inf, lanes))

    def _bias_at(self, block: KeyBlock, place: tuple[Value, int]) -> Value:
        """Emit the bias of a key for a vector of queries."""
        lanes, strides, (key, vector) = self.tile.lanes, bias_strides(self.op), place
        if strides.query != 0:
            at = add(scale(key, self.tile.columns), vector * lanes)
            return vectors.load(self.scratch.scores, at, lanes)
        at = self.queries.bias
        if strides.position != 0:
            at = add(add(at, block.start), key)
        return vectors.repeat(vectors.load_element(self.memories.bias, at), lanes)


def logarithm_of_sum(softmax: OnlineSoftmax) -> Values:
    """Emit ln(sum(e**score)) of each query; -infinity for one that sees no key."""
    return [
        arith.addf(finite(highest), math.log(total))
        for highest, total in zip(softmax.highest, softmax.total, strict=True)
    ]


def rescale_factors(before: Values, after: Values) -> Values:
    """Emit the factors that rescale sums after the highest score has changed."""
    return [
        exp_of_negative(arith.subf(old, finite(new)))
        for old, new in zip(before, after, strict=True)
    ]


def finite(highest: Value) -> Value:
    """Emit the value, but 0 for -infinity, so that -infinity less it is -infinity."""
    none = float_compare("OEQ", highest, constant(highest.type, -inf))
    return arith.select(none, constant(highest.type, 0.0), highest)
