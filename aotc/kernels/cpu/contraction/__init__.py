"""Products of matrices and convolutions on vectors, with their epilogues.

One workgroup computes some rows of one panel of columns. The right operand is packed,
[panel][depth][columns of a panel] with zeros after the last column (and so the terms of
a column in pairs, where those are multiplied together: `factors`), or read by rows as
it lies: what differs are two distances. A tile of rows times the vectors of a panel
stays in registers while the sums are made: each step reads the vectors of the panel,
and one element of each row, which is multiplied with all of them (the outer-product
form of Goto and van de Geijn, ACM Transactions on Mathematical Software 34 (2008) 12).
Rows of an image that lies in memory by pixels are rows of its patches as well: a
convolution reads them where they are, and skips what is padding. Of a batch of products
a workgroup computes one, or some small ones. Products of one left operand may be joined
(`planning.joined`): a panel is then of one of them, or has some columns of each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from aotc.dialects.graph import GraphOp
from aotc.dialects.lowering.scalars import int_compare
from aotc.dialects.types import ceil_divide
from aotc.kernels.cpu import loops
from aotc.kernels.cpu.arguments import KernelArguments
from aotc.kernels.cpu.contraction.dequantized import DequantizedSums
from aotc.kernels.cpu.contraction.rounded import RoundedSums
from aotc.kernels.cpu.contraction.scaled_columns import ScaledColumnSums
from aotc.kernels.cpu.contraction.sums import Panel, ProductOffsets, Sums
from aotc.kernels.cpu.contraction.widening import Widening
from aotc.kernels.cpu.epilogue import Epilogue, VectorPosition
from aotc.kernels.cpu.lines import ImageLine, Lines, ResultRows
from aotc.kernels.cpu.prologue import Prologue
from aotc.kernels.cpu.vectors import add, index, scale
from aotc.kernels.cpu.walks import branch_at_rest, index_maximum, index_minimum
from aotc.kernels.geometry import ConvolutionGeometry
from aotc.kernels.machine import PREFETCH_BYTES
from aotc.kernels.planning.dequantized import rounded_rows
from aotc.kernels.planning.joined import Joined, depends
from aotc.kernels.planning.tile import (
    ContractionTile,
    are_panels_outer,
    block_count,
    row_counts,
    split_evenly,
)
from aotc.mlir import Function, Value, arith

_AnySums = Sums | DequantizedSums | ScaledColumnSums | RoundedSums


def write(
    function: Function,
    anchor: GraphOp,
    tile: ContractionTile,
    kernel_arguments: KernelArguments,
) -> None:
    """Emit the body of a convolution's kernel, or of products joined with `anchor`."""
    joined = Joined.of(anchor, tile)
    second = function.entry_block.arguments[1]
    totals = [each.results[0] for each in joined.anchors]
    x, y = kernel_arguments.workgroup
    panel, number = (y, x) if are_panels_outer(joined.whole, tile) else (x, y)

    widening = Widening.of(joined.whole, tile, kernel_arguments.machine)

    def kernel_of(part: int, others: Sequence[Value]) -> Contraction:
        anchor, packed = joined.anchors[part], 1 if tile.packed else None
        epilogue = Epilogue.of(
            function, anchor, kernel_arguments, tile.lanes, packed=packed
        )
        if not others:
            own = [pair for pair in epilogue.results if depends(pair[0], anchor)]
            epilogue = replace(epilogue, results=own)
        geometry = joined.geometries[part]
        sums: _AnySums
        if rounded_rows(anchor) is not None:
            sums = RoundedSums.of(function, anchor, tile, kernel_arguments)
        elif tile.across:
            sums = ScaledColumnSums.of(function, anchor, tile, kernel_arguments)
        elif tile.group:
            sums = DequantizedSums.of(function, anchor, tile, kernel_arguments)
        else:
            prologue = Prologue.of(anchor, second, epilogue.memories, tile.lanes)
            sums = Sums(geometry, tile, kernel_arguments, widening, prologue)
        return Contraction(joined, part, kernel_arguments, epilogue, sums, others)

    if tile.interleaved > 1:
        kernel_of(0, totals[1:]).write(panel, number)
    else:
        kernels = [kernel_of(part, ()) for part in range(len(totals))]
        _write_one_of(kernels, panel, number)


def _write_one_of(kernels: Sequence[Contraction], panel: Value, number: Value) -> None:
    """Emit a branch to that product of several to which a panel belongs."""
    kernel, *rest = kernels
    end = kernel.joined.first_panels[kernel.part + 1]
    loops.branch(
        int_compare("slt", panel, index(end)) if rest else True,
        lambda: kernel.write(panel, number),
        lambda: _write_one_of(rest, panel, number),
    )


@dataclass(frozen=True)
class Contraction:
    """An emitter of one product or convolution, with its epilogue.

    Args:
        joined: the product, and those that are computed beside it.
        part: which of them it is.
        given: the memories of the operands first.
        epilogue: makes the results of the sums.
        sums: makes those of its tiles.
        others: what the sums of the products are that its panels hold besides.
    """

    joined: Joined
    part: int
    given: KernelArguments
    epilogue: Epilogue
    sums: _AnySums
    others: Sequence[Value] = ()

    @property
    def geometry(self) -> ConvolutionGeometry:
        """The geometry of this product, among those joined."""
        return self.joined.geometries[self.part]

    @property
    def tile(self) -> ContractionTile:
        """The schedule, shared by all joined products."""
        return self.joined.tile

    def write(self, panel: Value, number: Value) -> None:
        """Emit the work of one workgroup: a panel of columns by a block of rows.

        Args:
            panel: its number, among those of all products.
            number: of its products, and of its block of rows in each of them.
        """
        products, some = self.geometry.products, self.tile.products
        if products == 1:
            zero = index(0)
            self._write_block(panel, number, ProductOffsets(zero, zero, zero))
            return
        blocks = block_count(self.geometry, self.tile)
        group, block = self.given.divide(number, blocks)

        def write(product: Value) -> None:
            begin = ProductOffsets.of(product, self.geometry, self.joined, self.given)
            self._write_block(panel, block, begin)

        if some == 1:
            write(group)
            return
        first = scale(group, some)
        last = arith.minsi(add(first, some), self.given.size(products))
        loops.repeat_for(first, last, 1, write)

    def write_lines(self, first: Value, last: Value, begin: ProductOffsets) -> None:
        """Emit a range of image lines, all panels of columns one after the other.

        Args:
            first: of the lines.
            last: the one after them.
            begin: where the images and the results begin in memory.
        """

        def write(panel: Value) -> None:
            self._with_panel(
                panel, begin, lambda panel: self._write_lines(panel, first, last)
            )

        loops.repeat_for(0, self.joined.panels, 1, write)

    def _write_block(self, panel: Value, block: Value, begin: ProductOffsets) -> None:
        """Emit one panel of columns for a block of rows of one product."""
        self._with_panel(
            panel, begin, lambda panel: self._write_rows_of_block(panel, block)
        )

    def _with_panel(
        self, panel: Value, begin: ProductOffsets, write_panel: Callable[[Panel], None]
    ) -> None:
        """Emit a panel, by number, through `write_panel`: a whole or a narrower one."""
        tile, features = self.tile, self.geometry.group_features
        whole, rest = divmod(features, tile.own.columns)
        needed = -(-rest // tile.lanes)
        before = self.joined.first_panels[self.part]
        inside, features_before = panel, None  # of the groups before
        if self.geometry.groups > 1:
            group, inside = self.given.divide(panel, tile.panels(features))
            features_before = scale(group, features)
            first = scale(group, self.geometry.group_channels)
            begin = replace(begin, left=add(begin.left, first))

        def write(vectors: int, last: int) -> None:
            at = scale(add(inside, -before), tile.own.columns)
            if features_before is not None:
                at = add(at, features_before)
            right = at
            if tile.packed:
                right = scale(panel, tile.panel_size(self.geometry.depth))
            right = add(begin.right, right)
            write_panel(Panel(vectors, last, right, at, begin))

        def write_whole() -> None:
            write(tile.own.vectors, tile.lanes)

        def write_rest() -> None:
            write(needed, rest - (needed - 1) * tile.lanes)

        branch_at_rest(
            (whole, rest),
            lambda: int_compare("slt", inside, index(before + whole)),
            write_whole,
            write_rest,
        )

    def _write_rows_of_block(self, panel: Panel, block: Value) -> None:
        """Emit a block of rows, or of image lines, for a panel."""
        first = scale(block, self.tile.block)
        if self.geometry.is_product:
            self._write_product(panel, first)
            return
        end = self.given.size(self.geometry.lines)
        last = arith.minsi(add(first, self.tile.block), end)
        self._write_lines(panel, first, last)

    # ---- rows -----------------------------------------------------------------------

    def _write_product(self, panel: Panel, block: Value) -> None:
        """Emit the tiles of rows of a block of a matrix product.

        Args:
            panel: of columns.
            block: the number of its first tile.
        """
        rows, most = self.geometry.rows, self.tile.rows
        if isinstance(rows, int):
            sizes = split_evenly(rows, most)
            split = len(sizes), sizes.count(sizes[0])
            self._write_split(panel, block, split, sizes[0])
            return
        count = self.given.size(rows)
        tiles = self.given.size(ceil_divide(rows, most))
        larger = arith.subi(count, scale(tiles, most - 1))
        counts = row_counts(self.geometry, self.tile)
        loops.branch(
            int_compare("sge", larger, index(0)) if counts else True,
            lambda: self._write_split(panel, block, (tiles, larger), most),
            lambda: self._write_few(panel, block, count, counts),
        )

    def _write_split(
        self,
        panel: Panel,
        block: Value,
        split: tuple[int | Value, int | Value],
        count: int,
    ) -> None:
        """Emit a block's larger tiles of rows, then those of one row less.

        Args:
            panel: of columns.
            block: the number of its first tile.
            split: how many tiles there are, and how many of them are larger.
            count: of the rows of a larger one; others have one less.
        """
        tiles, larger = split
        last = index_minimum(add(block, self.tile.block), tiles)

        def write_tiles(
            first: Value, last: Value, count: int, before: int | Value
        ) -> None:
            def write(number: Value) -> None:
                row = add(scale(number, count), before)
                self._write_rows_at(panel, row, count, arith.subi(number, block))

            loops.repeat_for(first, last, 1, write)

        if larger is tiles or larger == tiles:
            write_tiles(block, last, count, 0)
            return
        write_tiles(block, index_minimum(last, larger), count, 0)
        if count > 1:
            write_tiles(index_maximum(block, larger), last, count - 1, larger)

    def _write_few(
        self, panel: Panel, block: Value, rows: Value, counts: Sequence[int]
    ) -> None:
        """Emit a block of few rows, by tiles of which the last may overlap.

        The last tile ends with the last row: it computes some rows once more, which
        gives the same numbers.

        Args:
            panel: of columns.
            block: the number of its first tile.
            rows: of the product.
            counts: of the rows that tiles may have, the greatest first.
        """
        count, *fewer = counts

        def write() -> None:
            first, last = scale(block, self.tile.rows), add(rows, -count)
            end = arith.minsi(add(first, self.tile.block * self.tile.rows), rows)
            loops.repeat_for(
                first,
                end,
                count,
                lambda row: self._write_rows_at(
                    panel, arith.minsi(row, last), count, None
                ),
            )

        loops.branch(
            int_compare("sge", rows, index(count)) if fewer else True,
            write,
            lambda: self._write_few(panel, block, rows, fewer),
        )

    def _write_rows_at(
        self, panel: Panel, row: Value, count: int, number: Value | None
    ) -> None:
        """Emit one tile of a matrix product, given its first row.

        Args:
            panel: of columns.
            row: its first one.
            count: of its rows.
            number: of the tile, in its block; None if it fetches nothing ahead.
        """
        shape = self.geometry
        left = add(panel.begin.left, scale(row, shape.left_steps[0]))
        result = add(panel.begin.result, scale(row, shape.features))
        panel = replace(panel, ahead=self._prefetch_start(panel, number))
        result = add(result, panel.column)
        self._write_tile(panel, ResultRows(left, result, count, (0, 1)))

    def _prefetch_start(self, panel: Panel, number: Value | None) -> Value | None:
        """Emit the offset from which a tile prefetches packed weights, or None.

        Weights of large models come from memory in every call. The workgroups of a
        block of rows take one panel after the other, and the panels of a product of a
        batch after those of the one before, so each tile brings a part of the next
        panel into the cache: as many elements a step as all tiles together need. A
        tile that is the only one reads what it fetches itself, some steps later.
        """
        size, tiles = self.tile.panel_size(self.geometry.depth), self.tile.block
        if not self.tile.ahead:
            return None
        if tiles == 1:
            return add(panel.right, PREFETCH_BYTES // self.geometry.bytes)
        products = self.geometry.products
        if number is None or not isinstance(products, int):
            return None
        panels = products * self.joined.panels
        ahead = index_minimum(add(panel.right, size), (panels - 1) * size)
        share = self.geometry.depth * self.sums.fetched_by_step
        return add(ahead, scale(number, share))

    def _write_lines(self, panel: Panel, first: Value, last: Value) -> None:
        """Emit a range of image lines for one panel, tile by tile."""
        begin = panel.begin.left, panel.begin.result
        lines = Lines(self.geometry, self.tile.rows, begin)

        def write_tile(rows: ResultRows) -> None:
            at = add(rows.result, panel.column)
            self._write_tile(panel, replace(rows, result=at))

        def write_line(line: ImageLine) -> None:
            lines.write_tiles(line, lines.window(line), write_tile)

        lines.write(first, last, write_line)

    # ---- one tile -------------------------------------------------------------------

    def _write_tile(self, panel: Panel, rows: ResultRows) -> None:
        """Emit one tile: its sums, the epilogue and the stores."""
        places, step = self._places(panel, rows.result), self.geometry.features
        if not self.others:
            sums = self.sums.over_window(panel, rows)
            self.epilogue.write_rows(places, step, sums)
            return
        tile = self.tile
        every = replace(panel, vectors=tile.vectors, last=tile.lanes)
        found = self.sums.over_window(every, rows)
        of_products = [
            [
                found[(row * tile.interleaved + part) * tile.own.vectors + number]
                for row in range(rows.count)
                for number in range(panel.vectors)
            ]
            for part in range(tile.interleaved)
        ]
        sums, *rest = of_products
        others = dict(zip(self.others, rest, strict=True))
        self.epilogue.write_rows(places, step, sums, others)

    def _places(self, panel: Panel, row: Value) -> list[VectorPosition]:
        """Emit the positions of a tile row's vectors, given the offset of the row."""
        lanes = self.tile.lanes
        return [
            VectorPosition(
                at=add(row, number * lanes),
                column=add(panel.column, number * lanes),
                key=number,
                count=panel.last if number == panel.vectors - 1 else lanes,
            )
            for number in range(panel.vectors)
        ]
