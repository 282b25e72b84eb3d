"""The sums of one tile of a product by a weight whose blocks are of columns.

    sum over terms of x * (scale * q - offset)

Each term has a scale of its own, and columns of a block have the same: so the floats of
a term are made in registers, before all rows of the tile are multiplied by them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from aotc.dialects.graph import GraphOp
from aotc.dialects.ops.quantization import Dequantize
from aotc.dialects.patterns.values import made_by, splat_of
from aotc.dialects.types import Tensor
from aotc.kernels.cpu import vectors
from aotc.kernels.cpu.arguments import KernelArguments
from aotc.kernels.cpu.contraction.integers import PackedIntegerReader, Read
from aotc.kernels.cpu.contraction.sums import Panel
from aotc.kernels.cpu.contraction.term_sums import TermSums
from aotc.kernels.cpu.lines import ResultRows
from aotc.kernels.cpu.vectors import Values, add, index, scale
from aotc.kernels.geometry import ConvolutionGeometry, known_geometry
from aotc.kernels.planning.dequantized import argument_behind, table_of
from aotc.kernels.planning.tile import ContractionTile
from aotc.mlir import Function, Value, arith, ir


@dataclass(frozen=True)
class ScaledColumnSums:
    """An emitter of a tile's sums, by a weight with scales along its columns.

    Args:
        geometry: what is summed up.
        tile: how it is cut up.
        left: the memory of the rows.
        integers: of the weight.
        table: what dequantises it.
        memories: of the arguments of the region.
    """

    geometry: ConvolutionGeometry
    tile: ContractionTile
    left: Value
    integers: PackedIntegerReader
    table: Dequantize
    memories: Mapping[Value, Value]

    fetched_by_step = 0

    @classmethod
    def of(
        cls,
        function: Function,
        anchor: GraphOp,
        tile: ContractionTile,
        arguments: KernelArguments,
    ) -> ScaledColumnSums:
        """Return the emitter of sums for a product of a region."""
        table, memories = table_of(anchor), arguments.operands_of(function)
        assert table is not None
        left, right, *_ = arguments.memories
        integers = PackedIntegerReader(tile, right, Tensor.of(table.q).dtype == "i8")
        return cls(known_geometry(anchor), tile, left, integers, table, memories)

    def over_window(self, panel: Panel, rows: ResultRows) -> Values:
        """Emit the sums of a tile; return its vectors of sums, row by row."""
        lanes, table = self.tile.lanes, self.table
        begin = self.integers.byte(panel.right)

        def read(number: Value, terms: int) -> Read:
            integers = self.integers.floats(
                add(begin, scale(number, self.integers.bytes_of(terms)))
            )

            @cache
            def parts(term: int, vector: int) -> tuple[Value, Value | None]:
                place = add(scale(number, terms), term)
                column = add(panel.column, vector * lanes)
                factor = self._repeat(table.scale, place, column)
                if splat_of(table.offset) == 0:
                    return factor, None
                return factor, self._repeat(table.offset, place, column)

            def floats(term: int, vector: int) -> Value:
                factor, offset = parts(term, vector - vector % self._vectors_of_block)
                found = arith.mulf(integers(term, vector), factor)
                return found if offset is None else arith.subf(found, offset)

            return floats

        row, _ = self.geometry.left_steps
        sums = TermSums(self.tile, self.left, row, self.geometry.depth)
        return sums.of((rows.count, panel.vectors), rows.left, read)

    @property
    def _vectors_of_block(self) -> int:
        """The number of vectors of a panel, from its first on, with the same scales."""
        across, columns = self.tile.across, self.tile.columns
        is_one = across % columns == 0 or across >= self.geometry.features
        return self.tile.vectors if is_one else 1

    def _repeat(self, part: Value, term: Value, column: Value) -> Value:
        """Emit the scale or offset of a term and column block, in all lanes."""
        return vectors.repeat(self._number(part, term, column), self.tile.lanes)

    def _number(self, part: Value, term: Value, column: Value) -> Value:
        """Emit a scale or offset as f32, dequantised if it is an integer.

        Args:
            part: a scale or an offset of the table, or what these are made of.
            term: its number.
            column: of the product.
        """
        nested = made_by(part, Dequantize)
        if nested is None:
            number = splat_of(part)
            if not Tensor.of(part).rank and number is not None:
                return arith.ConstantOp(ir.F32Type.get(), float(number)).result
            return vectors.load_element(*self._place(part, term, column))
        byte = vectors.load_element_as_is(*self._place(nested.q, term, column))
        widen = arith.extsi if Tensor.of(nested.q).dtype == "i8" else arith.extui
        whole = widen(ir.IntegerType.get_signless(32), byte)
        scaled = arith.mulf(
            arith.sitofp(ir.F32Type.get(), whole),
            self._number(nested.scale, term, column),
        )
        return arith.subf(scaled, self._number(nested.offset, term, column))

    def _place(self, part: Value, term: Value, column: Value) -> tuple[Value, Value]:
        """Return the memory of scales or offsets; emit the offset of one."""
        argument = argument_behind(part)
        assert argument is not None
        blocks = Tensor.of(part).shape[self.table.axis]
        assert isinstance(blocks, int)
        block = arith.divui(column, index(self.geometry.features // blocks))
        return self.memories[argument], add(scale(block, self.geometry.depth), term)
