"""The sums of one tile: of products, and of windows over images.

Rows of elements that are narrower than f32 are widened first (`widening`), vectors of a
panel as they are loaded, which serves all rows of a tile.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from aotc.dialects.movement.views import StridedLoop
from aotc.dialects.types import element_count
from aotc.kernels.cpu import loops, vectors
from aotc.kernels.cpu.arguments import KernelArguments
from aotc.kernels.cpu.contraction.factors import Factors
from aotc.kernels.cpu.contraction.squares import Squares
from aotc.kernels.cpu.contraction.widening import LeftRows, Widening
from aotc.kernels.cpu.lines import ResultRows
from aotc.kernels.cpu.prologue import Prologue
from aotc.kernels.cpu.vectors import Values, add, index, scale
from aotc.kernels.geometry import ConvolutionGeometry
from aotc.kernels.machine import LINE_BYTES, STREAM_CACHE
from aotc.kernels.planning.joined import Joined
from aotc.kernels.planning.tile import PART, ContractionTile
from aotc.mlir import Value, arith


@dataclass(frozen=True)
class ProductOffsets:
    """The memory offsets at which one product of a batch begins.

    Args:
        left: in the left operand; of a convolution, the first channel of the group.
        right: in the right one.
        result: in a result.
    """

    left: Value
    right: Value
    result: Value

    @classmethod
    def of(
        cls,
        product: Value,
        geometry: ConvolutionGeometry,
        joined: Joined,
        arguments: KernelArguments,
    ) -> ProductOffsets:
        """Emit the offsets of a product of the batch, by its number.

        Args:
            product: the number.
            geometry: of the products.
            joined: those that are computed beside it.
            arguments: the sizes.
        """
        assert geometry.layout is not None
        left = right = index(0)
        rest, (outer, *inner) = product, geometry.layout.batch
        for axis in reversed(inner):
            rest, here = arguments.divide(rest, axis.size)
            left = add(left, arguments.scale(here, axis.steps[0]))
            right = add(right, arguments.scale(here, axis.steps[1]))
        left = add(left, arguments.scale(rest, outer.steps[0]))
        right = add(right, arguments.scale(rest, outer.steps[1]))
        if joined.tile.packed and not geometry.layout.splits_rows:
            size = joined.panels * joined.tile.panel_size(geometry.depth)
            right = scale(product, size)
        size_of_result = geometry.rows * geometry.features
        return cls(left, right, arguments.scale(product, size_of_result))


@dataclass(frozen=True)
class Panel:
    """A panel of columns of the right operand: offset, first column and vectors.

    Args:
        vectors: that hold them.
        last: elements of the last one.
        right: where the panel begins in the right operand.
        column: its first column.
        begin: of the product.
        ahead: where the tile at hand begins to fetch what is read later; None if it
            does not.
    """

    vectors: int
    last: int
    right: Value
    column: Value
    begin: ProductOffsets
    ahead: Value | None = None


@dataclass(frozen=True)
class Sums:
    """An emitter of a tile's sums, of products and convolutions.

    Args:
        geometry: what is summed up.
        tile: how it is cut up.
        given: the memories of the operands first.
        widening: of rows; None where they are read as they are.
        prologue: makes the right operand; None where memory holds it.
    """

    geometry: ConvolutionGeometry
    tile: ContractionTile
    given: KernelArguments
    widening: Widening | None = None
    prologue: Prologue | None = None

    @property
    def _factors(self) -> Factors:
        """The operand loads and multiply-adds for the dtypes."""
        return Factors.of(self.geometry, self.tile, self.given.machine)

    @property
    def _right(self) -> Value:
        """The memory of the right operand."""
        return self.given.memories[1]

    @property
    def _right_step(self) -> int:
        """The stride between rows of a panel, in elements."""
        step = self.tile.columns if self.tile.packed else self.geometry.right_step
        assert step is not None
        return step

    @property
    def fetched_by_step(self) -> int:
        """The number of elements that a step of a tile prefetches."""
        return max(1, self.tile.columns // self.tile.block)

    def over_window(self, panel: Panel, rows: ResultRows) -> Values:
        """Emit the sums of a tile; return its vectors of sums, row by row."""
        count = rows.count * panel.vectors
        sums = [self._factors.zero] * count
        shape = self.geometry
        line = shape.dilation[0] * shape.size[1] * shape.channels
        depth = shape.window[1] * shape.group_channels * self._right_step

        def sum_line(number: Value, sums: Values) -> Values:
            left = add(rows.left, scale(number, line))
            right = add(panel.right, scale(number, depth))
            return self._sum_line(panel, rows, (left, right), sums)

        if shape.layout is not None:
            begin = rows.left, panel.right
            return self._sum_axes(panel, rows.count, shape.layout.sums, begin, sums)
        if shape.window[0] == 1 and rows.lines == (0, 1):
            return sum_line(index(0), sums)
        return loops.loop(*rows.lines, 1, sums, sum_line)

    def _sum_axes(
        self,
        panel: Panel,
        rows: int,
        nest: Sequence[StridedLoop],
        begin: tuple[Value, Value],
        sums: Values,
    ) -> Values:
        """Emit `sums` plus the products along some nested loops."""
        loop, *inner = nest
        length = self.given.size(loop.size)
        if not inner:
            return self._sum_run(panel, range(rows), begin, length, sums)
        step = loop.steps[1]
        if self.tile.packed:
            terms = element_count(tuple(each.size for each in inner))
            step = terms * self.tile.columns

        def sum_inner(number: Value, sums: Values) -> Values:
            left = add(begin[0], self.given.scale(number, loop.steps[0]))
            right = add(begin[1], self.given.scale(number, step))
            return self._sum_axes(panel, rows, inner, (left, right), sums)

        return loops.loop(0, length, 1, sums, sum_inner)

    def _sum_line(
        self, panel: Panel, rows: ResultRows, begin: tuple[Value, Value], sums: Values
    ) -> Values:
        """Emit `sums` plus the products of one line of the window."""
        shape = self.geometry
        positions, channels = shape.window[1], shape.group_channels
        is_run = shape.dilation[1] == 1 and shape.groups == 1  # side by side in memory
        if rows.inside is None and is_run:
            every, length = range(rows.count), index(positions * channels)
            return self._sum_run(panel, every, begin, length, sums)
        for position in range(positions):
            left = add(begin[0], position * shape.dilation[1] * shape.channels)
            right = add(begin[1], position * channels * self._right_step)
            seen, length = rows.rows_inside_at(position), index(channels)
            sums = self._sum_run(panel, seen, (left, right), length, sums)
        return sums

    def _sum_run(
        self,
        panel: Panel,
        rows: range,
        begin: tuple[Value, Value],
        length: Value,
        sums: Values,
    ) -> Values:
        """Emit `sums` plus the products along one run of terms, for some rows."""
        count = panel.vectors
        chosen = [row * count + number for row in rows for number in range(count)]
        if not chosen:
            return sums
        row, step = self.geometry.left_steps
        first = add(begin[0], rows[0] * row)
        left = LeftRows(self.given.memories[0], first, row, step)
        squares = Squares(len(rows), count, self._factors.mma.rows, self.tile.lanes)
        some = squares.of_rows([sums[number] for number in chosen])
        sum_terms = self._sum_terms if self.widening is None else self._sum_parts
        has_offset = bool(self._factors.mma.offset)
        if has_offset:  # one more row, of what the others have too much
            some += [self._factors.zero] * count
        found = sum_terms(panel, len(rows), left, begin[1], length, some)
        if has_offset:
            excess = found[-count:] * len(rows)
            found = [*map(arith.subi, found[:-count], excess)]
        found = squares.to_rows(found)
        known = dict(enumerate(sums)) | dict(zip(chosen, found, strict=True))
        return [known[number] for number in range(len(sums))]

    def _sum_parts(
        self,
        panel: Panel,
        rows: int,
        left: LeftRows,
        right: Value,
        length: Value,
        sums: Values,
    ) -> Values:
        """Emit `sums` plus the products of a run, rows being widened in parts."""
        assert self.widening is not None
        widen = self.widening.widen

        def sum_part(first: Value, sums: Values) -> Values:
            count = arith.minsi(arith.subi(length, first), index(PART))
            begin = add(left.begin, scale(first, left.step))
            widened = widen(replace(left, begin=begin), rows, count)
            at = add(right, scale(first, self._right_step))
            here = panel
            if panel.ahead is not None:
                ahead = add(panel.ahead, scale(first, self.fetched_by_step))
                here = replace(panel, ahead=ahead)
            return self._sum_terms(here, rows, widened, at, count, sums)

        return loops.loop(0, length, PART, sums, sum_part)

    def _sum_terms(
        self,
        panel: Panel,
        rows: int,
        left: LeftRows,
        right: Value,
        length: Value,
        sums: Values,
    ) -> Values:
        """Emit `sums` plus the products of some rows and a panel's vectors."""
        lanes, terms = self.tile.lanes, self.tile.terms
        factors, fetched = self._factors, terms * self.fetched_by_step
        together = factors.mma.rows
        count = together * panel.vectors
        cache = STREAM_CACHE if self.tile.block == 1 else 1

        def add_products(number: Value, some: Values) -> Values:
            begin = add(left.begin, scale(number, terms * left.step))
            here = add(right, scale(number, terms * self._right_step))
            if panel.ahead is not None:
                at = add(panel.ahead, scale(number, fetched))
                for place in range(0, fetched, LINE_BYTES // self.geometry.bytes):
                    vectors.prefetch(self._right, add(at, place), cache)

            def element(number: int) -> Value:
                first = number * together
                if first >= rows:
                    return factors.offsets(factors.run_lanes)
                own = [min(first + row, rows - 1) for row in range(together)]
                places = [add(begin, row * left.row) for row in own]
                return factors.repeat(left.memory, places)

            def columns(number: int) -> Value:
                is_last = number == count - 1 and not self.tile.packed
                held = panel.last if is_last else lanes
                if self.prologue is None and not self.tile.packed:
                    at = add(here, number * lanes)
                    step = self._right_step
                    places = [add(at, term * step) for term in range(terms)]
                    return factors.columns_of(self._right, places, held)
                at = add(here, number * factors.run_lanes)
                if self.prologue is None:
                    return factors.columns(self._right, at, held)
                column = add(panel.column, number * lanes)
                there = panel.last if number == count - 1 else lanes
                loaded = vectors.load(self._right, at, lanes, held)
                return self.prologue.apply(loaded, column, number, there)

            sizes = len(some) // count, count
            return vectors.outer_product(
                element, columns, sizes, some, factors.multiply_add
            )

        last = arith.ceildivui(length, index(terms)) if terms > 1 else length
        return loops.loop(0, last, 1, sums, add_products)
