"""The sums of one tile of a product by a weight that is dequantised.

    sum over blocks of scale * (sum over terms of x * q) - offset * (sum of x)

Integers become floats in registers; of each block, what they are scaled by, and what is
subtracted, is applied to its sum. Integers of 4 bits come eight terms of a column as a
word of 32 bits (`planning.dequantized`), each of which a shift or two bring down.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import gcd

from aotc.dialects.graph import GraphOp
from aotc.dialects.lowering.scalars import constant
from aotc.dialects.types import Tensor
from aotc.kernels.cpu import loops, vectors
from aotc.kernels.cpu.arguments import Arguments
from aotc.kernels.cpu.contraction.sums import Panel
from aotc.kernels.cpu.lines import Rows
from aotc.kernels.cpu.vectors import Values, add, index, scale
from aotc.kernels.geometry import Geometry, known_geometry
from aotc.kernels.machine import LINE_BYTES, PREFETCH_BYTES
from aotc.kernels.planning.dequantized import (
    NIBBLES,
    TERMS,
    argument_behind,
    table_of,
)
from aotc.kernels.planning.tile import Tile
from aotc.mlir import Function, Value, arith, ir

# by the lanes of a vector: what looks up the lowest four bits of each word in a vector
_LOOKUPS = {16: "llvm.x86.avx512.permvar.sf.512"}
_UNROLLED = 8  # terms that the code of a step has
_UNDER_WAY = 8  # sums that multiply-adds wait for, at least


@dataclass(frozen=True)
class DequantizedSums:
    """Writes them at the insertion point.

    Args:
        geometry: what is summed up.
        tile: how it is cut up.
        left: the memory of the rows.
        right: that of the integers, as bytes.
        scales: that of a scale for each block of a column.
        offsets: the same of offsets; None without any.
        is_signed: whether the integers are.
    """

    geometry: Geometry
    tile: Tile
    left: Value
    right: Value
    scales: Value
    offsets: Value | None
    is_signed: bool

    fetched_by_step = 0  # beside what `_fetch` fetches

    @classmethod
    def of(
        cls, function: Function, anchor: GraphOp, tile: Tile, given: Arguments
    ) -> DequantizedSums:
        """Return those of a product in a region."""
        table, memories = table_of(anchor), given.operands_of(function)
        assert table is not None
        scales, offsets = (
            memories[argument] if (argument := argument_behind(part)) else None
            for part in (table.scale, table.offset)
        )
        assert scales is not None
        left, right, *_ = given.memories
        is_signed = Tensor.of(table.q).dtype == "i8"
        geometry = known_geometry(anchor)
        return cls(geometry, tile, left, right, scales, offsets, is_signed)

    def over_window(self, panel: Panel, rows: Rows) -> Values:
        """The sums of a tile, row by row."""
        group, columns, lanes = self.tile.group, self.tile.columns, self.tile.lanes
        count = panel.vectors
        first = arith.divui(panel.right, index(group))

        def add_block(number: Value, totals: Values) -> Values:
            left = add(rows.left, scale(number, group))
            right = add(panel.right, scale(number, group * columns))
            at = add(first, scale(number, columns))
            sums = self._sum_block(rows.count, count, left, right)
            places = [add(at, vector * lanes) for vector in range(count)]
            scales = [vectors.load(self.scales, place, lanes) for place in places]
            self._fetch_blocks(at, count * lanes)
            found = [
                vectors.multiply_add(x, scales[n % count], total)
                for n, (x, total) in enumerate(zip(sums, totals, strict=True))
            ]
            if self.offsets is None:
                return found
            less = [
                arith.negf(vectors.load(self.offsets, place, lanes)) for place in places
            ]
            for row in range(rows.count):
                x = self._sum_row(add(left, row * self._row))
                for n in range(count):
                    place = row * count + n
                    found[place] = vectors.multiply_add(x, less[n], found[place])
            return found

        zeros = [vectors.splat(0.0, lanes)] * (rows.count * count)
        return loops.loop(0, self.geometry.depth // group, 1, zeros, add_block)

    @property
    def _row(self) -> int:
        """Elements from a row to the next."""
        return self.geometry.left_steps[0]

    def _sum_block(self, rows: int, count: int, left: Value, right: Value) -> Values:
        """The sums of x * q over a block.

        Args:
            rows: of the tile.
            count: vectors of the panel.
            left: where the block of the first row begins.
            right: where that of the panel begins, in integers.
        """
        tile, size = self.tile, rows * count
        if rows == 1 and tile.has_halves and tile.lanes not in _LOOKUPS:
            return self._sum_in_place(count, left, arith.divui(right, index(2)))
        terms = gcd(tile.group, _UNROLLED)
        sets = min(terms, -(-_UNDER_WAY // size))
        begin = arith.divui(right, index(2)) if tile.has_halves else right
        step = terms * tile.columns // (2 if tile.has_halves else 1)

        def add_terms(number: Value, sums: Values) -> Values:
            found = list(sums)
            at, here = add(left, scale(number, terms)), add(begin, scale(number, step))
            self._fetch(here, step)
            factors = self._integers(here, count)
            for term in range(terms):
                own = slice(term % sets * size, (term % sets + 1) * size)

                def element(row: int, term: int = term) -> Value:
                    place = add(at, row * self._row + term)
                    x = vectors.load_element(self.left, place)
                    return vectors.repeat(x, tile.lanes)

                def floats(vector: int, term: int = term) -> Value:
                    return factors(term, vector)

                found[own] = vectors.outer_product(
                    element, floats, (rows, count), found[own]
                )
            return found

        zeros = [vectors.splat(0.0, tile.lanes)] * (sets * size)
        sums = loops.loop(0, tile.group // terms, 1, zeros, add_terms)
        while len(sums) > size:
            half = (len(sums) // size + 1) // 2 * size
            rest = [*map(arith.addf, sums, sums[half:])]
            sums = rest + sums[len(rest) : half]
        return sums

    def _sum_in_place(self, count: int, left: Value, begin: Value) -> Values:
        """The same of one row and 4 bits, which are multiplied where they are in words.

        A bit mask and a conversion make 2**p times the integer at bit p of half a word,
        for which there are sums of its own: shifts, of which processors compute two a
        cycle, are for upper halves alone. Integers with a sign have 8 more, which the
        sum of the row undoes. One vector of columns after the other: masks and sums of
        all need more registers than there are.

        Args:
            count: vectors of the panel.
            left: where the block of the row begins.
            begin: where that of the panel begins, in bytes.
        """
        lanes, group = self.tile.lanes, self.tile.group
        step = NIBBLES * self.tile.columns // 2
        found = []
        for vector in range(count):

            def add_words(number: Value, sums: Values, vector: int = vector) -> Values:
                at, here = scale(number, NIBBLES), add(begin, scale(number, step))
                if vector == 0:
                    self._fetch(here, step)
                words = vectors.load_as_is(
                    self.right, add(here, 4 * lanes * vector), 4 * lanes
                )
                return self._add_words(vectors.as_words(words), add(left, at), sums)

            zeros = [vectors.splat(0.0, lanes)] * NIBBLES
            sums = loops.loop(0, group // NIBBLES, 1, zeros, add_words)
            total, *rest = map(arith.addf, sums[::2], sums[1::2])
            for place, x in enumerate(rest, 1):
                less = vectors.splat(2.0 ** (-4 * place), lanes)
                total = vectors.multiply_add(x, less, total)
            found.append(total)
        if not self.is_signed:
            return found
        x, excess = self._sum_row(left), vectors.splat(-8.0, lanes)
        return [vectors.multiply_add(x, excess, total) for total in found]

    def _add_words(self, words: Value, left: Value, sums: Values) -> Values:
        """Add the products of eight terms to a sum each."""
        lanes, found = self.tile.lanes, list(sums)

        def number(value: int) -> Value:
            return constant(words.type, value)

        if self.is_signed:
            words = arith.xori(words, number(0x88888888 - (1 << 32)))
        for half in range(2):
            here = arith.shrui(words, number(16)) if half else words
            for place in range(4):
                term = 2 * half + place // 2 + 4 * (place % 2)
                masked = arith.andi(here, number(15 << 4 * place))
                q = arith.sitofp(vectors.vector_type(lanes), masked)
                x = vectors.load_element(self.left, add(left, term))
                own = 2 * place + half
                found[own] = vectors.multiply_add(
                    vectors.repeat(x, lanes), q, found[own]
                )
        return found

    def _fetch(self, at: Value, count: int) -> None:
        """Bring bytes that the only tile of a panel reads later into the cache."""
        if self.tile.ahead:
            for place in range(0, count, LINE_BYTES):
                vectors.prefetch(self.right, add(at, PREFETCH_BYTES + place))

    def _fetch_blocks(self, at: Value, count: int) -> None:
        """The same of what there is for each block of some columns."""
        parts = [self.scales] + ([] if self.offsets is None else [self.offsets])
        for memory in parts if self.tile.ahead else ():
            size = memory.type.element_type.width // 8
            ahead = PREFETCH_BYTES // 4 // size  # blocks have fewer bytes than terms
            for place in range(0, count, LINE_BYTES // size):
                vectors.prefetch(memory, add(at, ahead + place))

    def _integers(self, at: Value, count: int) -> Callable[[int, int], Value]:
        """Return what gives the integers of a term and a vector of columns, as f32.

        Args:
            at: the first byte of the terms.
            count: vectors of the panel.
        """
        lanes, columns = self.tile.lanes, self.tile.columns
        if self.tile.terms == TERMS:
            return self._bytes_of_words(at)
        if not self.tile.has_halves:

            def of_bytes(term: int, vector: int) -> Value:
                place = add(at, term * columns + vector * lanes)
                return self._as_floats(vectors.load_as_is(self.right, place, lanes))

            return of_bytes
        words = [
            vectors.as_words(
                vectors.load_as_is(self.right, add(at, 4 * lanes * n), 4 * lanes)
            )
            for n in range(count)
        ]

        def of_halves(term: int, vector: int) -> Value:
            return self._half_as_floats(words[vector], 8 * (term % 4) + term // 4 * 4)

        return of_halves

    def _bytes_of_words(self, at: Value) -> Callable[[int, int], Value]:
        """The same of bytes of which four terms of a column lie together."""
        lanes, together = self.tile.lanes, self.tile.terms
        words: dict[tuple[int, int], Value] = {}

        def of_bytes(term: int, vector: int) -> Value:
            step, place = divmod(term, together)
            if (step, vector) not in words:
                here = add(at, together * (step * self.tile.columns + vector * lanes))
                loaded = vectors.load_as_is(self.right, here, together * lanes)
                words[step, vector] = vectors.as_words(loaded)
            return self._as_floats(self._part(words[step, vector], 8 * place, 8))

        return of_bytes

    def _half_as_floats(self, words: Value, first: int) -> Value:
        """Four bits of each word, from the one at `first` on, as f32."""
        lookup = _LOOKUPS.get(self.tile.lanes)
        if lookup is None:
            return self._as_floats(self._part(words, first, 4))
        low = words if first == 0 else arith.shrui(words, constant(words.type, first))
        numbers = [n - 16 if self.is_signed and n > 7 else n for n in range(16)]
        kind = vectors.vector_type(self.tile.lanes)
        return vectors.call_intrinsic(lookup, [vectors.elements(numbers), low], kind)

    def _part(self, words: Value, first: int, bits: int) -> Value:
        """Some bits of each word, from the one at `first` on, as i32."""
        last = 32 - bits

        def number(value: int) -> Value:
            return constant(words.type, value)

        if self.is_signed:
            top = words
            if first < last:
                top = arith.shli(words, number(last - first))
            return arith.shrsi(top, number(last))
        low = words if first == 0 else arith.shrui(words, number(first))
        return low if first == last else arith.andi(low, number((1 << bits) - 1))

    def _as_floats(self, x: Value) -> Value:
        """A vector of integers as f32."""
        lanes = self.tile.lanes
        wide = vectors.vector_type(lanes, ir.IntegerType.get_signless(32))
        if x.type != wide:
            x = arith.extsi(wide, x) if self.is_signed else arith.extui(wide, x)
        return arith.sitofp(vectors.vector_type(lanes), x)

    def _sum_row(self, begin: Value) -> Value:
        """The sum of a block of a row, in all lanes."""
        lanes = gcd(self.tile.group, self.tile.lanes)
        count = self.tile.group // lanes

        def add_vector(number: Value, sums: Values) -> Values:
            place = add(begin, scale(number, lanes))
            x = vectors.load(self.left, place, lanes)
            return [arith.addf(sums[0], x)]

        (total,) = loops.loop(0, count, 1, [vectors.splat(0.0, lanes)], add_vector)
        every = vectors.reduce_lanes([total], arith.addf)
        return vectors.pick(every, [0] * self.tile.lanes)
