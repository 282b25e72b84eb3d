"""Attention of few queries, as in a step of a decoder: bound by reading the cache.

One workgroup has all queries of one head of keys. Lanes are neighbouring elements of a
key, whose products with a query are added up across lanes for as many keys at once as
there are lanes; the scores of these are one vector. Values are added up with lanes
along their elements. Keys come in blocks, with the online softmax of the other form;
those after the last whole block one by one.

Positions after the last one that the bias lets any query see (a mask hides by
-infinity) are not read, nor fetched into a cache, nor are blocks that it hides whole:
the time of a step is that of the positions which are seen, whatever the capacity of the
cache. So what is not finite there is not seen, while the reference multiplies it by 0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf

from aotc.dialects.lowering.scalars import constant, float_compare, int_compare
from aotc.dialects.ops.attention import Attention
from aotc.dialects.types import Tensor
from aotc.kernels.cpu import loops, vectors
from aotc.kernels.cpu.arguments import KernelArguments
from aotc.kernels.cpu.attention.caches import HeadRows, rows_of
from aotc.kernels.cpu.attention.scores import finite, logarithm_of_sum
from aotc.kernels.cpu.attention.sums import reciprocal
from aotc.kernels.cpu.attention.work import (
    AttentionMemories,
    OnlineSoftmax,
    WorkgroupAttention,
    allocate_sums,
    queries_of,
)
from aotc.kernels.cpu.elementary import exp_of_negative
from aotc.kernels.cpu.rounding import round_to
from aotc.kernels.cpu.vectors import Values, add, index, scale
from aotc.kernels.cpu.walks import parts
from aotc.kernels.planning.attention import AttentionSizes, BiasStrides, bias_strides
from aotc.kernels.planning.decoder import DecoderTile, round_up
from aotc.mlir import Function, Value, arith


def write(
    function: Function, anchor: Attention, tile: DecoderTile, arguments: KernelArguments
) -> None:
    """Emit the body of an attention's kernel for few queries; `anchor` is its op."""
    memories = AttentionMemories.of(function, anchor, arguments)
    queries = queries_of(anchor, arguments, arguments.workgroup[0], index(0))
    key, value = rows_of(function, anchor, arguments, queries, tile.lanes)
    scratch = _Scratch.allocate(tile, AttentionSizes.of(anchor))
    _Decoder(anchor, arguments, memories, queries, tile, key, value, scratch).write()


@dataclass(frozen=True)
class _DecoderKeyBlock:
    """A block of keys: the number of the first, and how many.

    Args:
        start: the number of the first.
        count: how many there are: those of a whole block, or fewer, as a call decides.
        end: the number after the last key of all that are read.
    """

    start: Value
    count: int | Value
    end: Value


@dataclass(frozen=True)
class _Scratch:
    """The scratch memory of a workgroup: softmax state and sums of each query.

    Args:
        depth: of a query, elements that it has there.
        keys: of a block, likewise.
        scaled: the queries.
        weights: exponentials of the scores of a block.
        highest: score of each so far, in all lanes of a vector.
        totals: sums of its exponentials, in parts: a vector.
        factors: what its sums are multiplied with, in all lanes.
        sums: that narrower results are made of; None where results hold them.
    """

    depth: int
    keys: int
    scaled: Value
    weights: Value
    highest: Value
    totals: Value
    factors: Value
    sums: Value | None

    @classmethod
    def allocate(cls, tile: DecoderTile, sizes: AttentionSizes) -> _Scratch:
        """Emit the allocation of the scratch memory on the stack."""
        assert isinstance(sizes.length, int)
        count, lanes = sizes.length, tile.lanes
        depth, keys = (round_up(n, lanes) for n in (sizes.depth, tile.keys))
        return cls(
            depth,
            keys,
            scaled=vectors.allocate(count * depth),
            weights=vectors.allocate(count * keys),
            highest=vectors.allocate(count * lanes),
            totals=vectors.allocate(count * lanes),
            factors=vectors.allocate(count * lanes),
            sums=allocate_sums(sizes, count),
        )


@dataclass(frozen=True)
class _Decoder(WorkgroupAttention):
    """An emitter of attention for few queries, which reads keys and values once.

    Args:
        tile: how it is cut up.
        key: those of the head.
        value: likewise.
        scratch: of the workgroup.
    """

    tile: DecoderTile
    key: HeadRows
    value: HeadRows
    scratch: _Scratch

    @property
    def _lanes(self) -> int:
        """The number of elements of a vector."""
        return self.tile.lanes

    @property
    def _count(self) -> int:
        """The number of queries."""
        assert isinstance(self.sizes.length, int)
        return self.sizes.length

    @property
    def _strides(self) -> BiasStrides:
        """The strides of the bias."""
        return bias_strides(self.op)

    def write(self) -> None:
        """Emit the attention of all queries of one head (of `AttentionSizes`)."""
        self._each_query(self._start_query)
        end, keys = self._end_of_seen(), self.tile.keys
        rest = arith.remui(end, index(keys))
        whole = arith.subi(end, rest)
        loops.repeat_for(
            0,
            whole,
            keys,
            lambda start: self._write_seen(_DecoderKeyBlock(start, keys, end)),
        )
        loops.repeat_for(  # once at most
            whole,
            end,
            keys,
            lambda start: self._write_block(_DecoderKeyBlock(start, rest, end)),
        )
        self._each_query(self._finish_query)

    def _end_of_seen(self) -> Value:
        """Emit the position after the last one that the bias lets any query see."""
        positions, lanes = self.given.size(self.sizes.positions), self._lanes
        if self._strides.position == 0:
            return positions
        rows = self._count if self._strides.query != 0 else 1
        rest = arith.remui(positions, index(lanes))
        whole = arith.subi(positions, rest)
        limit = vectors.repeat_index(positions, lanes)

        def add_seen(first: Value, ends: Values, count: int | Value) -> Values:
            place = vectors.iota_from(first, lanes)
            after = arith.addi(place, constant(place.type, 1))
            hidden = constant(vectors.vector_type(lanes), -inf)
            (found,) = ends
            for row in range(rows):
                at = add(self._bias_of(index(row)), first)
                bias = vectors.load(self.memories.bias, at, lanes, count)
                is_seen = float_compare("UNE", bias, hidden)
                if not isinstance(count, int):
                    is_seen = arith.andi(is_seen, int_compare("slt", place, limit))
                found = arith.select(is_seen, after, found)
            return [found]

        ends = [constant(limit.type, 0)]
        ends = loops.loop(0, whole, lanes, ends, lambda n, x: add_seen(n, x, lanes))
        ends = loops.loop(  # once at most
            whole, positions, lanes, ends, lambda n, x: add_seen(n, x, rest)
        )
        return vectors.greatest_index(ends[0])

    def _each_query(self, body: Callable[[Value], None]) -> None:
        """Emit a loop over the queries."""
        loops.repeat_for(0, self._count, 1, body)

    # ---- before and after all blocks ------------------------------------------------

    def _start_query(self, query: Value) -> None:
        """Emit a query's scaling, and the initial state of its softmax and sums."""
        lanes, sizes = self._lanes, self.sizes
        factor = vectors.splat(float(self.op.scale), lanes)
        row = scale(query, sizes.row_step * sizes.depth)
        begin, target = add(self.queries.query, row), scale(query, self.scratch.depth)
        for first, count in parts(sizes.depth, lanes):
            x = vectors.load(self.memories.query, add(begin, first), lanes, count)
            vectors.store(
                arith.mulf(x, factor), self.scratch.scaled, add(target, first), lanes
            )
        zero = vectors.splat(0.0, lanes)
        self._store(self.scratch.highest, query, vectors.splat(-inf, lanes))
        self._store(self.scratch.totals, query, zero)
        for first, count in parts(sizes.width, lanes):
            vectors.store(zero, *self._sum_at(query, first), lanes, count)

    def _finish_query(self, query: Value) -> None:
        """Emit a query's result: sums over total, and the log-sum-exp if it is read."""
        lanes = self._lanes
        total = vectors.reduce_lanes(
            [self._load(self.scratch.totals, query)], arith.addf
        )
        if self.memories.logsum is not None:
            highest = self._load(self.scratch.highest, query)
            (logsum,) = logarithm_of_sum(OnlineSoftmax([highest], [total]))
            at = add(self.queries.logsum, query)
            vectors.store(logsum, self.memories.logsum, at, lanes, 1)
        factor = reciprocal(total, safe=self.op.safe)
        for first, count in parts(self.sizes.width, lanes):
            x = vectors.load(*self._sum_at(query, first), lanes, count)
            result = round_to(arith.mulf(x, factor), self.dtype, self.given.machine)
            at = add(self._result_of(query), first)
            vectors.store(result, self.memories.result, at, lanes, count)

    def _result_of(self, query: Value) -> Value:
        """Emit the offset of a query's result."""
        step = self.sizes.row_step * self.sizes.width
        return add(self.queries.result, scale(query, step))

    def _sum_at(self, query: Value, first: int) -> tuple[Value, Value]:
        """Return the memory of a query's sums, and emit the offset of some of them."""
        if self.scratch.sums is None:
            return self.memories.result, add(self._result_of(query), first)
        return self.scratch.sums, add(scale(query, self.sizes.width), first)

    def _load(self, memory: Value, query: Value) -> Value:
        """Emit the load of a query's vector from scratch memory."""
        return vectors.load(memory, scale(query, self._lanes), self._lanes)

    def _store(self, memory: Value, query: Value, x: Value) -> None:
        """Emit the store of a query's vector to scratch memory."""
        vectors.store(x, memory, scale(query, self._lanes), self._lanes)

    # ---- one block ------------------------------------------------------------------

    def _write_seen(self, block: _DecoderKeyBlock) -> None:
        """Emit a whole block of keys, skipped if the bias hides all of it."""
        is_seen = self._is_seen(block) if self._strides.position != 0 else True
        loops.branch(is_seen, lambda: self._write_block(block), lambda: None)

    def _write_block(self, block: _DecoderKeyBlock) -> None:
        """Emit a block of keys for all queries: weights, then sums of values."""
        self._each_query(lambda query: self._weigh(block, query))
        self._each_query(lambda query: self._add_values(block, query))

    def _is_seen(self, block: _DecoderKeyBlock) -> Value:
        """Emit whether the bias leaves some position of a whole block visible."""
        rows = self._count if self._strides.query != 0 else 1
        found = [
            self._bias_at(block, index(row), group)
            for row in range(rows)
            for group in parts(self.tile.keys, self._lanes)
        ]
        highest = found[0]
        for each in found[1:]:
            highest = arith.maximumf(highest, each)
        hidden = constant(highest.type, -inf)
        return vectors.any_of(float_compare("UNE", highest, hidden))

    def _bias_at(
        self, block: _DecoderKeyBlock, query: Value, group: tuple[int, int]
    ) -> Value:
        """Emit the bias of some keys of a whole block; -inf in lanes without a key."""
        first, count = group
        lanes, strides = self._lanes, self._strides
        absent = vectors.elements([0.0] * count + [-inf] * (lanes - count))
        if not Tensor.of(self.op.bias).rank:
            return absent
        at = self._bias_of(query)
        if strides.position != 0:
            at = add(add(at, block.start), first)
            found = vectors.load(self.memories.bias, at, lanes, count)
        else:
            found = vectors.repeat(vectors.load_element(self.memories.bias, at), lanes)
        return found if count == lanes else arith.addf(found, absent)

    def _bias_of(self, query: Value) -> Value:
        """Emit the offset of a query's bias."""
        return add(self.queries.bias, self.given.scale(query, self._strides.query))

    def _weigh(self, block: _DecoderKeyBlock, query: Value) -> None:
        """Emit a block's softmax weights of a query; update its maximum and total."""
        groups = parts(self.tile.keys, self._lanes)
        if isinstance(block.count, int):
            scores = [self._score(block, query, group) for group in groups]
        else:
            scores = self._score_one_by_one(block, block.count, query)
        before = highest = self._load(self.scratch.highest, query)
        for score in scores:
            highest = arith.maximumf(highest, score)
        highest = vectors.reduce_lanes([highest], arith.maximumf)
        shift = finite(highest)
        factor = exp_of_negative(arith.subf(before, shift))
        total = arith.mulf(self._load(self.scratch.totals, query), factor)
        for (first, _), score in zip(groups, scores, strict=True):
            weight = exp_of_negative(arith.subf(score, shift))
            at = add(scale(query, self.scratch.keys), first)
            vectors.store(weight, self.scratch.weights, at, self._lanes)
            total = arith.addf(total, weight)
        self._store(self.scratch.highest, query, highest)
        self._store(self.scratch.totals, query, total)
        self._store(self.scratch.factors, query, factor)

    def _score(
        self, block: _DecoderKeyBlock, query: Value, group: tuple[int, int]
    ) -> Value:
        """Emit the scores of a group of keys of a whole block, a key in each lane."""
        first, count = group
        products = self._products(add(block.start, first), query, count)
        absent = [vectors.splat(0.0, self._lanes)] * (self._lanes - count)
        product = vectors.reduce_lanes([*products, *absent], arith.addf)
        return arith.addf(product, self._bias_at(block, query, group))

    def _score_one_by_one(
        self, block: _DecoderKeyBlock, count: Value, query: Value
    ) -> Values:
        """Emit the scores of a partial block; -inf in lanes without a key."""
        lanes, memory = self._lanes, self.scratch.weights
        begin = scale(query, self.scratch.keys)
        places = [add(begin, first) for first, _ in parts(self.tile.keys, lanes)]
        for place in places:
            vectors.store(vectors.splat(-inf, lanes), memory, place, lanes)

        def write_score(key: Value) -> None:
            position = add(block.start, key)
            score = vectors.reduce_lanes(self._products(position, query, 1), arith.addf)
            if Tensor.of(self.op.bias).rank:
                at = add(
                    self._bias_of(query),
                    self.given.scale(position, self._strides.position),
                )
                bias = vectors.load_element(self.memories.bias, at)
                score = arith.addf(score, vectors.repeat(bias, lanes))
            vectors.store(score, memory, add(begin, key), lanes, 1)

        loops.repeat_for(0, count, 1, write_score)
        return [vectors.load(memory, place, lanes) for place in places]

    def _products(self, start: Value, query: Value, count: int) -> Values:
        """Emit vectors whose lanes sum to a query's products with some keys.

        Meanwhile the values beside the keys are fetched, which are read next.
        """
        lanes, sizes = self._lanes, self.sizes
        begin, value_begin = self.key.at(start), self.value.at(start)
        left = scale(query, self.scratch.depth)

        def add_products(place: Value, sums: Values, width: int = lanes) -> Values:
            x = vectors.load(self.scratch.scaled, add(left, place), lanes)
            found = []
            for number, total in enumerate(sums):
                y = self.key.load(add(begin, number * self.key.step), place, width)
                later = add(add(value_begin, number * self.value.step), place)
                vectors.prefetch(self.value.memory, later)
                found.append(vectors.multiply_add(x, y, total))
            return found

        zero = vectors.splat(0.0, lanes)
        whole = sizes.depth // lanes * lanes
        sums = loops.loop(0, whole, lanes, [zero] * count, add_products)
        if whole < sizes.depth:
            sums = add_products(index(whole), sums, sizes.depth - whole)
        return sums

    def _add_values(self, block: _DecoderKeyBlock, query: Value) -> None:
        """Emit the update of a query's stored sums: rescaled, plus weighted values."""
        found = parts(self.sizes.width, self._lanes)
        for first in range(0, len(found), self.tile.width):
            panel = found[first : first + self.tile.width]
            self._add_panel(block, query, panel)

    def _add_panel(
        self, block: _DecoderKeyBlock, query: Value, panel: list[tuple[int, int]]
    ) -> None:
        """Emit the update of some vectors of a query's sums, see `_add_values`."""
        lanes, rows = self._lanes, self.value
        begin = rows.at(block.start)
        factor, left = (
            self._load(self.scratch.factors, query),
            scale(query, self.scratch.keys),
        )
        places = [self._sum_at(query, first) for first, _ in panel]

        def add_products(key: Value, sums: Values) -> Values:
            element = vectors.load_element(self.scratch.weights, add(left, key))
            weight = vectors.repeat(element, lanes)
            row = add(begin, scale(key, rows.step))
            if isinstance(block.count, int):  # no other block is behind fewer keys
                after = add(add(block.start, block.count), key)
                later = self.key.at(arith.minsi(after, add(block.end, -1)))
                for first, _ in panel:
                    vectors.prefetch(self.key.memory, add(later, first))
            return [
                vectors.multiply_add(weight, rows.load(row, index(first), n), total)
                for (first, n), total in zip(panel, sums, strict=True)
            ]

        sums = [
            arith.mulf(vectors.load(*place, lanes, n), factor)
            for place, (_, n) in zip(places, panel, strict=True)
        ]
        sums = loops.loop(0, block.count, 1, sums, add_products)
        for place, (_, n), total in zip(places, panel, sums, strict=True):
            vectors.store(total, *place, lanes, n)
