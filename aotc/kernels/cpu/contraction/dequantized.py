"""The sums of one tile of a product by a weight that is dequantised.

    sum over blocks of scale * (sum over terms of x * q) - offset * (sum of x)

Integers become floats in registers (`integers`); of each block, what they are scaled
by, and what is subtracted, is applied to its sum (`blocks`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import gcd

from aotc.dialects.graph import GraphOp
from aotc.dialects.lowering.scalars import constant
from aotc.dialects.types import Tensor
from aotc.kernels.bit_planes import WORD
from aotc.kernels.cpu import loops, vectors
from aotc.kernels.cpu.arguments import KernelArguments
from aotc.kernels.cpu.contraction.block_sums import BlockSums
from aotc.kernels.cpu.contraction.blocks import BlockScaleReader
from aotc.kernels.cpu.contraction.integers import PackedIntegerReader, Read
from aotc.kernels.cpu.contraction.sums import Panel
from aotc.kernels.cpu.contraction.term_sums import TermSums
from aotc.kernels.cpu.lines import ResultRows
from aotc.kernels.cpu.vectors import Values, add, scale
from aotc.kernels.geometry import ConvolutionGeometry, known_geometry
from aotc.kernels.machine import STACK_BYTES, STREAM_CACHE
from aotc.kernels.planning.dequantized import table_of
from aotc.kernels.planning.tile import ContractionTile
from aotc.mlir import Function, Value, arith

_MOST_SUMS = STACK_BYTES // 8  # of blocks, which are f32 on the stack
_HALF = 16  # bits of a word, in which fields are converted where they are


@dataclass(frozen=True)
class DequantizedSums:
    """An emitter of a tile's sums, of f32 rows by a dequantised weight.

    Args:
        geometry: what is summed up.
        tile: how it is cut up.
        left: the memory of the rows.
        integers: of the weight.
        scales: one for each block of a column.
        offsets: the same; None without any.
        block_sums: what each block of the rows of a tile adds up to, if something
            depends on that, and memory holds it; None for what adds up each when it is
            asked for.
    """

    geometry: ConvolutionGeometry
    tile: ContractionTile
    left: Value
    integers: PackedIntegerReader
    scales: BlockScaleReader
    offsets: BlockScaleReader | None
    block_sums: BlockSums | None = None

    fetched_by_step = 0  # beside what `integers` and `scales` fetch

    @classmethod
    def of(
        cls,
        function: Function,
        anchor: GraphOp,
        tile: ContractionTile,
        arguments: KernelArguments,
    ) -> DequantizedSums:
        """Return the emitter of sums for a product of a region."""
        table, memories = table_of(anchor), arguments.operands_of(function)
        assert table is not None
        scales, offsets = (
            BlockScaleReader.of(part, memories, tile)
            for part in (table.scale, table.offset)
        )
        assert scales is not None
        left, right, *_ = arguments.memories
        integers = PackedIntegerReader(tile, right, Tensor.of(table.q).dtype == "i8")
        found = cls(known_geometry(anchor), tile, left, integers, scales, offsets)
        return replace(found, block_sums=found._new_sums())

    def _new_sums(self) -> BlockSums | None:
        """Emit the allocation of block sums of rows; None if they are not needed."""
        tile, group = self.tile, self.tile.group
        blocks, (row, _) = self.geometry.depth // group, self.geometry.left_steps
        is_read = self.offsets is not None or (self.integers.excess and tile.rows == 1)
        is_whole = blocks >= tile.lanes and group % tile.lanes == 0
        if not (is_read and is_whole and tile.rows * blocks <= _MOST_SUMS):
            return None
        return BlockSums.of(tile.rows, blocks, group, row)

    def over_window(self, panel: Panel, rows: ResultRows) -> Values:
        """Emit the sums of a tile; return its vectors of sums, row by row."""
        group, columns, lanes = self.tile.group, self.tile.columns, self.tile.lanes
        count = panel.vectors
        if self.block_sums is not None:
            self.block_sums.write(rows, lanes, self._part_of_sum, arith.addf)

        def add_block(number: Value, totals: Values) -> Values:
            left = add(rows.left, scale(number, group))
            right = add(panel.right, scale(number, group * columns))
            sums = self._sum_block(rows.count, count, (left, right), number)
            scales = self.scales.load(panel.right, number, count)
            for each in (self.scales, self.offsets):
                if each is not None:
                    each.fetch(panel.right, number, count)
            found = [
                vectors.multiply_add(x, scales[n % count], total)
                for n, (x, total) in enumerate(zip(sums, totals, strict=True))
            ]
            if self.offsets is None:
                return found
            offsets = self.offsets.load(panel.right, number, count)
            less = [*map(arith.negf, offsets)]
            for row in range(rows.count):
                x = self._sum_row(row, left, number)
                for n in range(count):
                    place = row * count + n
                    found[place] = vectors.multiply_add(x, less[n], found[place])
            return found

        zeros = [vectors.splat(0.0, lanes)] * (rows.count * count)
        return loops.loop(0, self.geometry.depth // group, 1, zeros, add_block)

    @property
    def _cache(self) -> int:
        """The cache level (1 or 2) that integers are prefetched into."""
        return 1 if self.tile.has_planes else STREAM_CACHE

    @property
    def _row(self) -> int:
        """The stride between rows of the left operand."""
        return self.geometry.left_steps[0]

    def _sum_block(
        self, rows: int, count: int, begin: tuple[Value, Value], number: Value
    ) -> Values:
        """Emit the sums of x * q over one quantisation block.

        Args:
            rows: of the tile.
            count: vectors of the panel.
            begin: where the block of the first row begins, and that of the panel, in
                integers.
            number: of the block.
        """
        (left, right), tile = begin, self.tile
        at_byte = self.integers.byte(right)
        if rows == 1 and tile.has_planes and not self.integers.looks_up:
            return self._sum_in_place(count, left, at_byte, number)

        def read(number: Value, terms: int) -> Read:
            step = self.integers.bytes_of(terms)
            here = add(at_byte, scale(number, step))
            self.integers.fetch(here, step, self._cache)
            return self.integers.floats(here)

        sums = TermSums(tile, self.left, self._row, tile.group)
        return sums.of((rows, count), left, read)

    def _sum_in_place(
        self, count: int, left: Value, begin: Value, block: Value
    ) -> Values:
        """Emit one row's block sums without shifting bit fields down.

        A bit mask and a conversion make 2**p times the integer at bit p of half a word,
        for which there are sums of its own: shifts, of which processors compute two a
        cycle, are for upper halves alone. Integers with a sign are larger by their
        excess, which the sum of the row undoes. One vector of columns after the other:
        masks and sums of all need more registers than there are.

        Args:
            count: vectors of the panel.
            left: where the block of the row begins.
            begin: where that of the panel begins, in bytes.
            block: its number.
        """
        lanes, group, run = self.tile.lanes, self.tile.group, self.tile.terms
        step, width = self.integers.bytes_of(run), self._field_width
        found = []
        for vector in range(count):

            def add_run(number: Value, sums: Values, vector: int = vector) -> Values:
                at, here = (
                    add(left, scale(number, run)),
                    add(begin, scale(number, step)),
                )
                if vector == 0:
                    self.integers.fetch(here, step, self._cache)
                return self._add_run(here, vector, at, sums)

            zeros = [vectors.splat(0.0, lanes)] * (2 * _HALF // width)
            sums = loops.loop(0, group // run, 1, zeros, add_run)
            total, *rest = map(arith.addf, sums[::2], sums[1::2])
            for place, x in enumerate(rest, 1):
                less = vectors.splat(2.0 ** (-width * place), lanes)
                total = vectors.multiply_add(x, less, total)
            found.append(total)
        if not self.integers.excess:
            return found
        x = self._sum_row(0, left, block)
        excess = vectors.splat(-self.integers.excess, lanes)
        return [vectors.multiply_add(x, excess, total) for total in found]

    @property
    def _field_width(self) -> int:
        """The bits of a field in which integers are multiplied unshifted."""
        return 4 if self.tile.bits == 4 else 8

    def _add_run(self, at: Value, vector: int, left: Value, sums: Values) -> Values:
        """Emit the sums of bit fields plus the products of a run of terms.

        Args:
            at: the first byte of the run.
            vector: of columns.
            left: where the terms of the row begin.
            sums: of the fields of each half of words, for the lowest ones first.
        """
        if self._field_width == 4:  # terms 0 to 3 in lower halves of bytes, and 4 to 7
            words = self.integers.words(at)(0, vector)
            if self.integers.excess:
                signs = constant(words.type, 0x88888888 - (1 << 32))
                words = arith.xori(words, signs)
            return self._add_words(words, left, [0, 4, 1, 5, 2, 6, 3, 7], sums)
        fours = self.integers.fours(at)
        for number in range(self.tile.terms // WORD):
            begin = add(left, number * WORD)
            sums = self._add_words(fours(number, vector), begin, range(WORD), sums)
        return sums

    def _add_words(
        self, words: Value, left: Value, terms: Sequence[int], sums: Values
    ) -> Values:
        """Emit the sums of bit fields plus the products of one word's fields.

        Args:
            words: of columns.
            left: where the terms of the row begin.
            terms: of the row, by the fields of a word, the lowest first.
            sums: see `_add_run`.
        """
        lanes, width, found = self.tile.lanes, self._field_width, list(sums)
        for half in range(2):
            here = words
            if half:
                here = arith.shrui(words, constant(words.type, _HALF))
            for place in range(_HALF // width):
                mask = (2**self.tile.bits - 1) << width * place
                masked = arith.andi(here, constant(words.type, mask))
                q = arith.sitofp(vectors.vector_type(lanes), masked)
                term = terms[half * (_HALF // width) + place]
                x = vectors.load_element(self.left, add(left, term))
                own = 2 * place + half
                found[own] = vectors.multiply_add(
                    vectors.repeat(x, lanes), q, found[own]
                )
        return found

    def _sum_row(self, row: int, left: Value, number: Value) -> Value:
        """Emit the sum of a row's terms in one block, in all lanes.

        Args:
            row: of the tile.
            left: where the block of the first row begins.
            number: of the block.
        """
        lanes = self.tile.lanes
        if self.block_sums is not None:
            return self.block_sums.load(row, number, lanes)
        part = self._part_of_sum(add(left, row * self._row))
        every = vectors.reduce_lanes([part], arith.addf)
        return vectors.pick(every, [0] * lanes)

    def _part_of_sum(self, begin: Value) -> Value:
        """Emit a vector whose lanes add up to the sum of a block's terms."""
        lanes = gcd(self.tile.group, self.tile.lanes)
        count = self.tile.group // lanes

        def add_vector(number: Value, sums: Values) -> Values:
            place = add(begin, scale(number, lanes))
            x = vectors.load(self.left, place, lanes)
            return [arith.addf(sums[0], x)]

        (total,) = loops.loop(0, count, 1, [vectors.splat(0.0, lanes)], add_vector)
        return total
