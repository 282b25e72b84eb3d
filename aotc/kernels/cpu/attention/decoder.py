"""Attention of few queries, as in a step of a decoder: bound by reading the cache.

One workgroup has all queries of one head of keys. Lanes are neighbouring elements of a
key, whose products with a query are added up across lanes for as many keys at once as
there are lanes; the scores of these are one vector. Values are added up with lanes
along their elements. Keys come in blocks, with the online softmax of the other form.

A block whose bias hides all of its positions (-infinity, as a mask has it) is not read:
the time of a step is that of the positions which are seen, whatever the capacity of the
cache. So what is not finite in such a block is not seen, while the reference multiplies
it by 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf

from aotc.dialects.lowering.scalars import constant, float_compare
from aotc.dialects.ops.attention import Attention
from aotc.dialects.types import Dim, Size, Tensor
from aotc.kernels.cpu import vectors
from aotc.kernels.cpu.arguments import Arguments
from aotc.kernels.cpu.attention.caches import rows_of
from aotc.kernels.cpu.attention.scores import finite
from aotc.kernels.cpu.attention.sums import reciprocal
from aotc.kernels.cpu.attention.work import Queries, queries_of
from aotc.kernels.cpu.elementary import exp_of_negative
from aotc.kernels.cpu.vectors import Values, add, index, scale
from aotc.kernels.cpu.walks import parts
from aotc.kernels.planning.attention import (
    Sizes,
    bias_strides,
)
from aotc.kernels.planning.decoder import DecoderTile, caches_by_heads, round_up
from aotc.mlir import Function, Value, arith

_FEW = 4  # keys of the blocks after those, where a call decides how many there are


def write(
    function: Function, anchor: Attention, tile: DecoderTile, given: Arguments
) -> None:
    """Write the kernel of a region."""
    *taken, result = given.memories
    known = dict(zip(function.entry_block.arguments, taken, strict=True))
    views = caches_by_heads(anchor)
    operands = [known[views.get(value, value)] for value in anchor.operands]
    queries = queries_of(anchor, given, given.workgroup[0], index(0))
    _Decoder(anchor, tile, given, operands, result, queries).write()


@dataclass(frozen=True)
class _Block:
    """Some keys: the number of the first, and how many there are."""

    start: Value
    count: int


class _Decoder:
    """Writes a kernel at the insertion point.

    Args:
        op: what is computed.
        tile: how it is cut up.
        given: the sizes.
        operands: memories of query, key, value and bias.
        result: memory of the result.
        queries: those of the workgroup.
    """

    def __init__(
        self,
        op: Attention,
        tile: DecoderTile,
        given: Arguments,
        operands: Sequence[Value],
        result: Value,
        queries: Queries,
    ) -> None:
        self._op, self._tile, self._sizes, self._given = op, tile, Sizes.of(op), given
        self._lanes, self._queries = tile.lanes, queries
        self._query, *caches, self._bias = operands
        self._key, self._value = rows_of(op, given, queries, caches)
        self._result = result
        self._strides, self._has_bias = bias_strides(op), Tensor.of(op.bias).rank > 0
        self._depth = round_up(self._sizes.depth, self._lanes)
        self._keys = round_up(tile.keys, self._lanes)
        count = self._sizes.length
        assert isinstance(count, int)
        self._count = count
        self._scaled = vectors.allocate(count * self._depth)
        self._weights = vectors.allocate(count * self._keys)
        # a vector for each query: its highest score, in all lanes; the sum of its
        # exponentials, in parts; what its result is multiplied with, in all lanes
        self._highest, self._totals, self._factors = (
            vectors.allocate(count * self._lanes) for _ in range(3)
        )

    def write(self) -> None:
        """Write the work of one workgroup."""
        self._each_query(self._start_query)
        positions, count = self._sizes.positions, self._tile.keys
        whole, rest = positions // count * count, positions % count
        self._write_blocks(0, whole, count)
        if isinstance(rest, Dim):
            some = positions // _FEW * _FEW
            self._write_blocks(whole, some, _FEW)
            self._write_blocks(some, positions, 1)
        elif rest:
            self._write_block(_Block(self._given.size(whole), rest))
        self._each_query(self._finish_query)

    def _write_blocks(self, first: Size, last: Size, count: int) -> None:
        """The keys from one to before another, in blocks of so many."""
        begin, end = self._given.size(first), self._given.size(last)
        vectors.repeat_for(
            begin, end, count, lambda start: self._write_block(_Block(start, count))
        )

    def _each_query(self, body: Callable[[Value], None]) -> None:
        vectors.repeat_for(0, self._count, 1, body)

    # ---- before and after all blocks ------------------------------------------------

    def _start_query(self, query: Value) -> None:
        """Scale a query, and let its softmax and result be those of no positions."""
        lanes, sizes = self._lanes, self._sizes
        factor = vectors.splat(float(self._op.scale), lanes)
        row = scale(query, sizes.row_step * sizes.depth)
        begin, target = add(self._queries.query, row), scale(query, self._depth)
        for first, count in parts(sizes.depth, lanes):
            x = vectors.load(self._query, add(begin, first), lanes, count)
            vectors.store(
                arith.mulf(x, factor), self._scaled, add(target, first), lanes
            )
        zero = vectors.splat(0.0, lanes)
        self._store(self._highest, query, vectors.splat(-inf, lanes))
        self._store(self._totals, query, zero)
        for first, count in parts(sizes.width, lanes):
            at = add(self._result_of(query), first)
            vectors.store(zero, self._result, at, lanes, count)

    def _finish_query(self, query: Value) -> None:
        """Divide the result of a query by its sum of exponentials."""
        lanes = self._lanes
        total = vectors.reduce_lanes([self._load(self._totals, query)], arith.addf)
        factor = reciprocal(total, safe=self._op.safe)
        for first, count in parts(self._sizes.width, lanes):
            at = add(self._result_of(query), first)
            x = vectors.load(self._result, at, lanes, count)
            vectors.store(arith.mulf(x, factor), self._result, at, lanes, count)

    def _result_of(self, query: Value) -> Value:
        step = self._sizes.row_step * self._sizes.width
        return add(self._queries.result, scale(query, step))

    def _load(self, memory: Value, query: Value) -> Value:
        return vectors.load(memory, scale(query, self._lanes), self._lanes)

    def _store(self, memory: Value, query: Value, x: Value) -> None:
        vectors.store(x, memory, scale(query, self._lanes), self._lanes)

    # ---- one block ------------------------------------------------------------------

    def _write_block(self, block: _Block) -> None:
        def write() -> None:
            self._each_query(lambda query: self._weigh(block, query))
            self._each_query(lambda query: self._add_values(block, query))

        if self._strides.position != 0:
            vectors.branch(self._is_seen(block), write, lambda: None)
        else:
            write()

    def _is_seen(self, block: _Block) -> Value:
        """Whether the bias of any query lets any position of a block be seen."""
        rows = self._count if self._strides.query != 0 else 1
        found = [
            self._bias_at(block, index(row), group)
            for row in range(rows)
            for group in parts(block.count, self._lanes)
        ]
        highest = found[0]
        for each in found[1:]:
            highest = arith.maximumf(highest, each)
        hidden = constant(highest.type, -inf)
        return vectors.any_of(float_compare("UNE", highest, hidden))

    def _bias_at(self, block: _Block, query: Value, group: tuple[int, int]) -> Value:
        """The bias of some keys of a block: as many as lanes; -infinity for no key."""
        first, count = group
        lanes, strides = self._lanes, self._strides
        absent = vectors.elements([0.0] * count + [-inf] * (lanes - count))
        if not self._has_bias:
            return absent
        at = add(self._queries.bias, self._given.scale(query, strides.query))
        if strides.position != 0:
            at = add(add(at, block.start), first)
            found = vectors.load(self._bias, at, lanes, count)
        else:
            found = vectors.repeat(vectors.load_element(self._bias, at), lanes)
        return found if count == lanes else arith.addf(found, absent)

    def _weigh(self, block: _Block, query: Value) -> None:
        """Write e**(score - highest) of a block, and the softmax up to its end."""
        groups = parts(block.count, self._lanes)
        scores = [self._score(block, query, group) for group in groups]
        before = highest = self._load(self._highest, query)
        for score in scores:
            highest = arith.maximumf(highest, score)
        highest = vectors.reduce_lanes([highest], arith.maximumf)
        shift = finite(highest)
        factor = exp_of_negative(arith.subf(before, shift))
        total = arith.mulf(self._load(self._totals, query), factor)
        for (first, _), score in zip(groups, scores, strict=True):
            weight = exp_of_negative(arith.subf(score, shift))
            at = add(scale(query, self._keys), first)
            vectors.store(weight, self._weights, at, self._lanes)
            total = arith.addf(total, weight)
        self._store(self._highest, query, highest)
        self._store(self._totals, query, total)
        self._store(self._factors, query, factor)

    def _score(self, block: _Block, query: Value, group: tuple[int, int]) -> Value:
        """The scores of as many keys of a block as there are lanes.

        Meanwhile the values beside the keys are fetched, which are read next.
        """
        first, count = group
        lanes, sizes = self._lanes, self._sizes
        start = add(block.start, first)
        begin, value_begin = self._key.at(start), self._value.at(start)
        left = scale(query, self._depth)

        def add_products(place: Value, sums: Values, width: int = lanes) -> Values:
            x = vectors.load(self._scaled, add(left, place), lanes)
            found = []
            for number, total in enumerate(sums):
                at = add(add(begin, number * self._key.step), place)
                y = vectors.load(self._key.memory, at, lanes, width)
                later = add(add(value_begin, number * self._value.step), place)
                vectors.prefetch(self._value.memory, later)
                found.append(vectors.multiply_add(x, y, total))
            return found

        zero = vectors.splat(0.0, lanes)
        whole = sizes.depth // lanes * lanes
        sums = vectors.loop(0, whole, lanes, [zero] * count, add_products)
        if whole < sizes.depth:
            sums = add_products(index(whole), sums, sizes.depth - whole)
        product = vectors.reduce_lanes([*sums, *[zero] * (lanes - count)], arith.addf)
        return arith.addf(product, self._bias_at(block, query, group))

    def _add_values(self, block: _Block, query: Value) -> None:
        """Multiply the result of a query with its factor and add that of a block."""
        found = parts(self._sizes.width, self._lanes)
        for first in range(0, len(found), self._tile.width):
            panel = found[first : first + self._tile.width]
            self._add_panel(block, query, panel)

    def _add_panel(
        self, block: _Block, query: Value, panel: list[tuple[int, int]]
    ) -> None:
        """The same for some vectors of it; the next block's keys are fetched."""
        lanes, rows = self._lanes, self._value
        begin = rows.at(block.start)
        next_keys = self._key.at(add(block.start, block.count))
        factor, left = self._load(self._factors, query), scale(query, self._keys)
        places = [(add(self._result_of(query), first), n) for first, n in panel]

        def add_products(key: Value, sums: Values) -> Values:
            element = vectors.load_element(self._weights, add(left, key))
            weight = vectors.repeat(element, lanes)
            row = add(begin, scale(key, rows.step))
            later = add(next_keys, scale(key, self._key.step))
            for first, _ in panel:
                vectors.prefetch(self._key.memory, add(later, first))
            return [
                vectors.multiply_add(
                    weight, vectors.load(rows.memory, add(row, first), lanes, n), total
                )
                for (first, n), total in zip(panel, sums, strict=True)
            ]

        sums = [
            arith.mulf(vectors.load(self._result, at, lanes, n), factor)
            for at, n in places
        ]
        sums = vectors.loop(0, block.count, 1, sums, add_products)
        for (at, n), total in zip(places, sums, strict=True):
            vectors.store(total, self._result, at, lanes, n)
