"""The sums of one tile of a product of rows and a weight that are both dequantised.

    sum over blocks of row scale * scale * (sum over terms of q * p)
        - row scale * offset * (sum over terms of q)

Rows are of bytes with a scale for each of their blocks (`passes.round_rows`), the
weight's integers are multiplied as unsigned bytes, four terms at a time: those of i8
are 128 too large then, and those of 4 bits 8, so sums begin with as many times less
what the row adds up to in the block.
"""

from __future__ import annotations

from dataclasses import dataclass

from aotc.dialects.graph import GraphOp
from aotc.dialects.lowering.scalars import constant
from aotc.dialects.ops.quantization import Dequantize
from aotc.dialects.patterns.values import made_by
from aotc.dialects.types import Tensor
from aotc.kernels.cpu import loops, vectors
from aotc.kernels.cpu.arguments import KernelArguments
from aotc.kernels.cpu.contraction.block_sums import BlockSums
from aotc.kernels.cpu.contraction.blocks import BlockScaleReader
from aotc.kernels.cpu.contraction.integers import PackedIntegerReader
from aotc.kernels.cpu.contraction.sums import Panel
from aotc.kernels.cpu.lines import ResultRows
from aotc.kernels.cpu.vectors import Values, add, index, scale
from aotc.kernels.geometry import ConvolutionGeometry, known_geometry
from aotc.kernels.machine import STREAM_CACHE, Mma
from aotc.kernels.planning.dequantized import (
    ROUNDED,
    TERMS,
    argument_behind,
    scaled_together,
    table_of,
)
from aotc.kernels.planning.tile import ContractionTile
from aotc.mlir import Function, Value, arith, ir

_DOT_OF_SUMS = "llvm.x86.avx512.vpdpbusd."  # of a block of a row, and ones


@dataclass(frozen=True)
class RoundedSums:
    """An emitter of a tile's sums, of rounded (byte) rows by a dequantised weight.

    Args:
        geometry: what is summed up.
        tile: how it is cut up.
        left: the memory of the integers of rows.
        row_scales: that of a scale for each of their blocks.
        integers: of the weight.
        scales: one for each block of a column.
        offsets: the same; None without any.
        block_sums: what each block of the rows of a tile adds up to; None where
            nothing depends on that.
        mma: what multiplies integers of a weight by those of rows.
    """

    geometry: ConvolutionGeometry
    tile: ContractionTile
    left: Value
    row_scales: Value
    integers: PackedIntegerReader
    scales: BlockScaleReader
    offsets: BlockScaleReader | None
    block_sums: BlockSums | None
    mma: Mma

    fetched_by_step = 0  # of the next panel, beside other loads

    @classmethod
    def of(
        cls,
        function: Function,
        anchor: GraphOp,
        tile: ContractionTile,
        arguments: KernelArguments,
    ) -> RoundedSums:
        """Return the emitter of sums for a product of a region."""
        memories = arguments.operands_of(function)
        table, rows = table_of(anchor), made_by(anchor.operands[0], Dequantize)
        assert table is not None
        assert rows is not None
        row_scales = argument_behind(rows.scale)
        assert row_scales is not None
        scales, offsets = (
            BlockScaleReader.of(part, memories, tile)
            for part in (table.scale, table.offset)
        )
        assert scales is not None
        left, right, *_ = arguments.memories
        integers = PackedIntegerReader(tile, right, Tensor.of(table.q).dtype == "i8")
        geometry, sums = known_geometry(anchor), None
        if integers.excess or offsets is not None:
            i32 = ir.IntegerType.get_signless(32)
            length, (row, _) = scaled_together(tile.group), geometry.left_steps
            blocks = geometry.depth // length
            sums = BlockSums.of(tile.rows, blocks, length, row, i32)
        return cls(
            geometry,
            tile,
            left,
            memories[row_scales],
            integers,
            scales,
            offsets,
            sums,
            arguments.known_machine.multiplier_of("u8", "i8", TERMS),
        )

    def over_window(self, panel: Panel, rows: ResultRows) -> Values:
        """Emit the sums of a tile; return its vectors of sums, row by row."""
        if self.block_sums is not None:
            self._write_sums(self.block_sums, rows)
        group, columns, lanes = self.tile.group, self.tile.columns, self.tile.lanes
        first_scale = arith.divui(rows.left, index(ROUNDED))
        of_row, length = self.geometry.depth // ROUNDED, self._length

        def add_block(number: Value, totals: Values) -> Values:
            left = add(rows.left, scale(number, length))
            right = add(panel.right, scale(number, length * columns))
            block = arith.divui(number, index(group // length))
            at = panel.right, block, panel.vectors
            self._fetch(right, at)
            sums = self._multiply(rows.count, panel.vectors, (left, right), number)
            begin = add(first_scale, arith.divui(number, index(ROUNDED // length)))
            by_row = [
                self._repeat(self.row_scales, add(begin, row * of_row))
                for row in range(rows.count)
            ]
            found = self._add_scaled(sums, by_row, self.scales.load(*at), totals)
            if self.offsets is None:
                return found
            return self._subtract_offsets(number, by_row, self.offsets.load(*at), found)

        zeros = [vectors.splat(0.0, lanes)] * (rows.count * panel.vectors)
        return loops.loop(0, self.geometry.depth // length, 1, zeros, add_block)

    def _fetch(self, right: Value, block: tuple[Value, Value, int]) -> None:
        """Emit the prefetch of integers, scales and offsets read some blocks later.

        Args:
            right: where the block begins in the weight, in integers.
            block: as scales are loaded by.
        """
        at, count = self.integers.byte(right), self.integers.bytes_of(self._length)
        self.integers.fetch(at, count, STREAM_CACHE)
        for each in (self.scales, self.offsets):
            if each is not None:
                each.fetch(*block)

    def _add_scaled(
        self, sums: Values, by_row: Values, scales: Values, totals: Values
    ) -> Values:
        """Emit totals plus a block's integer sums times both scales.

        Args:
            sums: of integers, row by row.
            by_row: the scale of each row.
            scales: those of columns.
            totals: row by row.
        """
        count = len(scales)
        return [
            vectors.multiply_add(
                arith.mulf(self._as_floats(x), by_row[n // count]),
                scales[n % count],
                total,
            )
            for n, (x, total) in enumerate(zip(sums, totals, strict=True))
        ]

    def _subtract_offsets(
        self, number: Value, by_row: Values, offsets: Values, totals: Values
    ) -> Values:
        """Emit totals less a block's offsets times its row sums."""
        found = list(totals)
        share = vectors.splat(1 / self._factor, self.tile.lanes)
        for row, by in enumerate(by_row):
            x = arith.mulf(self._as_floats(self._begin(row, number)), share)
            x = arith.mulf(x, by)
            for n, offset in enumerate(offsets):
                at = row * len(offsets) + n
                found[at] = vectors.multiply_add(x, offset, found[at])
        return found

    # ---- the integers of a block ----------------------------------------------------

    def _multiply(
        self, rows: int, count: int, begin: tuple[Value, Value], number: Value
    ) -> Values:
        """Emit the integer sums of one block, row by row.

        Args:
            rows: of the tile.
            count: vectors of the panel.
            begin: where the block of the first row begins, and that of the panel, in
                integers.
            number: of the block.
        """
        left, right = begin
        zero = constant(self._words, 0)
        sums = [
            self._begin(row, number) if self.integers.excess else zero
            for row in range(rows)
            for _ in range(count)
        ]

        def dot(x: Value, weights: Value, total: Value) -> Value:
            return vectors.call_intrinsic(
                self.mma.intrinsic, [total, weights, x], self._words
            )

        fours = self.integers.fours(self.integers.byte(right))
        for step in range(self._length // TERMS):

            def element(row: int, step: int = step) -> Value:
                place = add(left, row * self.geometry.left_steps[0] + step * TERMS)
                return vectors.repeat_run(self.left, place, TERMS, self.tile.lanes)

            def weights(vector: int, step: int = step) -> Value:
                kind = self.left.type.element_type
                return vectors.as_elements(fours(step, vector), kind)

            sums = vectors.outer_product(element, weights, (rows, count), sums, dot)
        return sums

    # ---- what rows add up to --------------------------------------------------------

    @property
    def _factor(self) -> int:
        """The factor by which the stored block sums of rows are multiplied, negated."""
        return self.integers.excess or 1

    def _begin(self, row: int, number: Value) -> Value:
        """Emit the load of a row's block sum, stored times `-_factor`, in all lanes."""
        assert self.block_sums is not None
        return self.block_sums.load(row, number, self.tile.lanes)

    def _write_sums(self, sums: BlockSums, rows: ResultRows) -> None:
        """Emit the block sums of a tile's rows, stored to memory."""
        i32 = ir.IntegerType.get_signless(32)
        length, lanes = self._length, self._length // TERMS
        kind = vectors.vector_type(lanes, i32)
        bytes_kind = vectors.vector_type(length, self.left.type.element_type)
        ones, zero = constant(bytes_kind, 1), constant(kind, 0)
        less = constant(kind, -self._factor)

        def part_of(place: Value) -> Value:
            x, name = vectors.load_as_is(self.left, place, length), _DOT_OF_SUMS
            return vectors.call_intrinsic(f"{name}{8 * length}", [zero, ones, x], kind)

        def finish(found: Value) -> Value:
            return arith.muli(found, less)

        sums.write(rows, lanes, part_of, arith.addi, finish)

    # ---- vectors --------------------------------------------------------------------

    @property
    def _length(self) -> int:
        """The number of terms that share a row's scale and a weight's scale."""
        return scaled_together(self.tile.group)

    @property
    def _words(self) -> ir.Type:
        """The vector type of i32 sums."""
        return vectors.vector_type(self.tile.lanes, ir.IntegerType.get_signless(32))

    def _repeat(self, memory: Value, at: Value) -> Value:
        """Emit the load of one number, repeated in all lanes."""
        return vectors.repeat(vectors.load_element(memory, at), self.tile.lanes)

    def _as_floats(self, x: Value) -> Value:
        """Emit the conversion of i32 sums to f32."""
        return arith.sitofp(vectors.vector_type(self.tile.lanes), x)
