"""Sums of values, weighted with the exponentials of their scores."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from aotc.dialects.lowering.scalars import constant, float_compare
from aotc.kernels.cpu import loops, vectors
from aotc.kernels.cpu.attention.work import KeyBlock, SoftmaxScratch, TiledWork
from aotc.kernels.cpu.rounding import round_to
from aotc.kernels.cpu.vectors import Values, add, index, scale
from aotc.kernels.cpu.walks import parts
from aotc.mlir import Value, arith


def reciprocal(total: Value, *, safe: bool) -> Value:
    """Emit 1 / total; if `safe`, 1 where the total is 0 (no key is visible)."""
    one = constant(total.type, 1.0)
    if not safe:
        return arith.divf(one, total)
    none = float_compare("OEQ", total, constant(total.type, 0.0))
    return arith.divf(one, arith.select(none, one, total))


@dataclass(frozen=True)
class _ResultVector:
    """A vector of a query's result: its number and elements.

    Args:
        query: its number in the workgroup.
        first: the number of its first element, in the row of the query.
        count: of its elements that there are.
    """

    query: Value
    first: int
    count: int


class WeightedSums(TiledWork):
    """An emitter of the sums of values, weighted by softmax."""

    scratch: SoftmaxScratch

    def clear(self) -> None:
        """Emit zeros to all sums."""
        zero = vectors.splat(0.0, self.tile.lanes)
        self._visit_places(lambda place: self._store_sum(place, zero))

    def rescale(self) -> None:
        """Emit the results: all sums times their queries' factors."""
        self._visit_places(lambda place: self._store(place, self._rescaled(place)))

    def write_sums(self, block: KeyBlock) -> None:
        """Emit a block's weighted sums of values, stored as the final results."""
        zero = vectors.splat(0.0, self.tile.lanes)

        self._sum_rows(
            block,
            lambda place: zero,
            lambda place, total: self._store(
                place, self._times_factor(total, place.query)
            ),
        )

    def accumulate(self, block: KeyBlock) -> None:
        """Emit all sums, rescaled, plus a block's weighted sums of values."""
        self._sum_rows(block, self._rescaled, self._store_sum)

    def _sum_rows(
        self,
        block: KeyBlock,
        start: Callable[[_ResultVector], Value],
        store: Callable[[_ResultVector, Value], None],
    ) -> None:
        """Emit a block's sums for all queries; `start` begins, `store` writes each.

        Args:
            block: what they are of.
            start: what they go on from.
            store: writes them.
        """

        def write_tile(query: Value, count: int) -> None:
            for panel in self.panels(self.sizes.width):
                places = [
                    _ResultVector(add(query, row), *vector)
                    for row in range(count)
                    for vector in panel
                ]
                begin = list(map(start, places))
                sums = self._sum_tile(block, places, len(panel), begin)
                for place, total in zip(places, sums, strict=True):
                    store(place, total)

        self.visit_queries(write_tile)

    def _sum_tile(
        self, block: KeyBlock, places: list[_ResultVector], count: int, sums: Values
    ) -> Values:
        """Emit the `sums` of a tile plus a block's weighted values."""
        step, lanes = self.sizes.shared * self.sizes.width, self.tile.lanes
        begin = add(self.queries.value, scale(block.start, step))

        def add_products(key: Value, sums: Values) -> Values:
            left = scale(key, self.tile.columns)
            right = add(begin, scale(key, step))

            def weight(number: int) -> Value:
                at = add(left, places[number * count].query)
                return vectors.repeat(
                    vectors.load_element(self.scratch.scores, at), lanes
                )

            def value(number: int) -> Value:
                place = places[number]
                at = add(right, place.first)
                return vectors.load(self.value, at, lanes, place.count)

            sizes = len(places) // count, count
            return vectors.outer_product(weight, value, sizes, sums)

        return loops.loop(0, block.seen, 1, sums, add_products)

    # ---- results --------------------------------------------------------------------

    def _visit_places(self, visit: Callable[[_ResultVector], None]) -> None:
        """Emit a loop over the vectors of the workgroup's results."""
        rest = arith.subi(self.given.size(self.sizes.length), self.queries.first)
        last = arith.minsi(rest, index(self.tile.columns))

        def write_row(query: Value) -> None:
            for vector in parts(self.sizes.width, self.tile.lanes):
                visit(_ResultVector(query, *vector))

        loops.repeat_for(0, last, 1, write_row)

    def _rescaled(self, place: _ResultVector) -> Value:
        """Emit the load of a vector of sums, times its query's factor."""
        total = vectors.load(*self._sum_at(place), self.tile.lanes, place.count)
        return self._times_factor(total, place.query)

    def _times_factor(self, x: Value, query: Value) -> Value:
        """Emit a vector times a query's factor from scratch memory."""
        factor = vectors.load_element(self.scratch.factors, query)
        return arith.mulf(x, vectors.repeat(factor, self.tile.lanes))

    def _sum_at(self, place: _ResultVector) -> tuple[Value, Value]:
        """Return the memory of a vector of sums, and emit its offset."""
        if self.scratch.sums is None:
            return self.memories.result, self._at(place)
        row = scale(place.query, self.sizes.width)
        return self.scratch.sums, add(row, place.first)

    def _store_sum(self, place: _ResultVector, x: Value) -> None:
        """Emit the store of a vector of sums."""
        vectors.store(x, *self._sum_at(place), self.tile.lanes, place.count)

    def _store(self, place: _ResultVector, x: Value) -> None:
        """Emit the store of a vector of results, rounded to their dtype."""
        at, rounded = self._at(place), round_to(x, self.dtype, self.given.machine)
        vectors.store(rounded, self.memories.result, at, self.tile.lanes, place.count)

    def _at(self, place: _ResultVector) -> Value:
        """Emit the offset of a vector of results."""
        row = scale(place.query, self.sizes.row_step * self.sizes.width)
        return add(add(self.queries.result, row), place.first)
