"""Products of matrices and convolutions on vectors, with what follows them.

One workgroup computes some rows of one panel of columns. The right operand is packed:
[panel][depth][columns of a panel], zeros after the last column. A tile of rows times
the vectors of a panel stays in registers while the sums are made: each step reads the
vectors of the panel, and one element of each row, which is multiplied with all of them
(the outer-product form of Goto and van de Geijn, ACM Transactions on Mathematical
Software 34 (2008) 12). Rows of an image that lies in memory by pixels are rows of its
patches as well: a convolution reads them where they are, and skips what is padding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from aotc.dialects.graph import GraphOp
from aotc.dialects.lowering.scalars import int_compare
from aotc.dialects.ops.contraction import DotGeneral, is_summed_in_parts
from aotc.kernels import vectors
from aotc.kernels.epilogue import Epilogue, Place
from aotc.kernels.geometry import Geometry, geometry_of
from aotc.kernels.machine import Machine
from aotc.kernels.tile import Tile, block_count, choose_tile, split_evenly
from aotc.kernels.vectors import Values, add, index, scale
from aotc.mlir import Function, Value, arith

_UNROLLED = (
    4,
    3,
    2,
    1,
)  # steps of the innermost loop, which its length is a multiple of


_LEAST_WORK = 1 << 14  # float operations that are worth code of their own


def plan(op: GraphOp, machine: Machine) -> Mapping[str, int] | None:
    """The tile for a product or a convolution; None where there is no kernel for it."""
    geometry = geometry_of(op)
    if geometry is None or (isinstance(op, DotGeneral) and is_summed_in_parts(op)):
        return None
    if geometry.flops < _LEAST_WORK or 2 * geometry.features < machine.lanes:
        return None
    return choose_tile(geometry, machine).to_plain()


def write(
    function: Function,
    anchor: GraphOp,
    schedule: Mapping[str, int],
    memories: Sequence[Value],
    workgroup: tuple[Value, Value],
) -> tuple[int, int]:
    """Write the kernel of a region; returns how many workgroups there are."""
    arguments = list(function.entry_block.arguments)
    *_, end = function.entry_block.operations
    tile, geometry = Tile.of_plain(schedule), geometry_of(anchor)
    assert geometry is not None
    taken, results = memories[: len(arguments)], memories[len(arguments) :]
    known = dict(zip(arguments, taken, strict=True))
    del known[arguments[1]]  # which is packed
    epilogue = Epilogue(anchor.results[0], known, tile.lanes)
    wanted = list(end.operands)
    left, packed = taken[:2]
    kernel = Contraction(geometry, tile, left, packed, results, wanted, epilogue)
    kernel.write(*workgroup)
    return tile.panels(geometry.features), block_count(geometry, tile)


@dataclass(frozen=True)
class _Panel:
    """The columns of a panel that there are.

    Args:
        vectors: that hold them.
        last: elements of the last one.
        packed: where the panel begins in the packed operand.
        column: its first column.
    """

    vectors: int
    last: int
    packed: Value
    column: Value


@dataclass(frozen=True)
class _Rows:
    """Some rows of results beside each other, which are one tile.

    Args:
        left: where the patch of the first one begins in the left operand, but for the
            line of the window.
        result: where the first one begins in a result.
        count: of them.
        lines: of the window that are no padding: the first, and the one after them.
        inside: for each position of the window, the rows for which that is no padding;
            None if it is none for all of them.
    """

    left: Value
    result: Value
    count: int
    lines: tuple[Value | int, Value | int]
    inside: list[range] | None = None


@dataclass(frozen=True)
class Contraction:
    """Writes a kernel at the insertion point.

    Args:
        geometry: what is summed up.
        tile: how it is cut up.
        left: memory of the left operand.
        packed: memory of the right operand.
        results: memory of each result.
        wanted: the values that the results are.
        epilogue: makes them of the sums.
    """

    geometry: Geometry
    tile: Tile
    left: Value
    packed: Value
    results: Sequence[Value]
    wanted: Sequence[Value]
    epilogue: Epilogue

    def write(self, panel: Value, block: Value) -> None:
        """Write the work of one workgroup.

        Args:
            panel: its number.
            block: the number of its block of rows.
        """
        tile, features = self.tile, self.geometry.features
        whole, rest = divmod(features, tile.columns)
        needed = -(-rest // tile.lanes)

        def write_whole() -> None:
            self._write_panel(panel, tile.vectors, tile.lanes, block)

        def write_rest() -> None:
            last = rest - (needed - 1) * tile.lanes
            self._write_panel(panel, needed, last, block)

        if not rest:
            write_whole()
        elif not whole:
            write_rest()
        else:
            is_whole = int_compare("slt", panel, index(whole))
            vectors.branch(is_whole, write_whole, write_rest)

    def _write_panel(self, number: Value, count: int, last: int, block: Value) -> None:
        packed = scale(number, self.geometry.depth * self.tile.columns)
        panel = _Panel(count, last, packed, scale(number, self.tile.columns))
        write = self._write_product if self.geometry.is_product else self._write_lines
        write(panel, scale(block, self.tile.block))

    # ---- rows -----------------------------------------------------------------------

    def _write_product(self, panel: _Panel, first: Value) -> None:
        """The tiles of a block of rows: larger ones, then smaller ones."""
        shape = self.geometry
        sizes = split_evenly(shape.rows, self.tile.rows)
        larger = sizes.count(sizes[0])
        last = _least(add(first, self.tile.block), len(sizes))

        def write_tiles(first: Value, last: Value, count: int, before: int) -> None:
            def write(number: Value, _: Values) -> Values:
                row = add(scale(number, count), before)
                left, result = scale(row, shape.channels), scale(row, shape.features)
                result = add(result, panel.column)
                self._write_tile(panel, _Rows(left, result, count, (0, 1)))
                return []

            vectors.loop(first, last, 1, [], write)

        if larger == len(sizes):
            write_tiles(first, last, sizes[0], 0)
            return
        write_tiles(first, _least(last, larger), sizes[0], 0)
        write_tiles(_most(first, larger), last, sizes[-1], larger)

    def _write_lines(self, panel: _Panel, first: Value) -> None:
        """The lines of a block, tile by tile."""
        last = _least(add(first, self.tile.block), self.geometry.lines)

        def write(line: Value, _: Values) -> Values:
            for write_tiles in self._line_writers(panel, line):
                write_tiles()
            return []

        vectors.loop(first, last, 1, [], write)

    def _line_writers(self, panel: _Panel, line: Value) -> Iterator[Callable[[], None]]:
        """What writes the tiles of one line of results."""
        shape = self.geometry
        image, top = self._place_of_line(line)
        window = self._window_lines(top)
        pixels = scale(add(scale(image, shape.size[0]), top), shape.size[1])
        left = scale(pixels, shape.channels)
        result = add(scale(line, shape.result[1] * shape.features), panel.column)
        step = shape.strides[1] * shape.channels
        before = shape.padding[1] * shape.channels

        def rows_at(
            start: Value | int, count: int, inside: list[range] | None
        ) -> _Rows:
            at = index(start) if isinstance(start, int) else start
            begin = add(add(left, scale(at, step)), -before)
            return _Rows(
                begin, add(result, scale(at, shape.features)), count, window, inside
            )

        for start, count, number, inside in self._tiles_of_line():

            def write_tiles(
                start: int = start,
                count: int = count,
                number: int = number,
                inside: list[range] | None = inside,
            ) -> None:
                def write(at: Value, _: Values) -> Values:
                    self._write_tile(panel, rows_at(at, count, inside))
                    return []

                if number == 1:
                    self._write_tile(panel, rows_at(start, count, inside))
                else:
                    vectors.loop(start, start + number * count, count, [], write)

            yield write_tiles

    def _place_of_line(self, line: Value) -> tuple[Value, Value]:
        """The image that a line of results is of, and the first line that it sees."""
        shape = self.geometry
        image = index(0)
        if shape.images > 1:
            image = arith.divui(line, index(shape.result[0]))
            line = arith.remui(line, index(shape.result[0]))
        return image, add(scale(line, shape.strides[0]), -shape.padding[0])

    def _window_lines(self, top: Value) -> tuple[Value | int, Value | int]:
        """The lines of the window that are within the image, if it begins at `top`."""
        shape = self.geometry
        lines, dilation = shape.window[0], shape.dilation[0]
        lowest = (shape.result[0] - 1) * shape.strides[0] - shape.padding[0]
        bottom = lowest + (lines - 1) * dilation
        first: Value | int = 0
        last: Value | int = lines
        if shape.padding[0]:
            above = arith.subi(index(0), top)
            first = _least(_ceildiv(_most(above, 0), dilation), lines)
        if bottom >= shape.size[0]:
            below = arith.subi(index(shape.size[0]), top)
            last = _least(_ceildiv(_most(below, 0), dilation), lines)
        return first, last

    def _tiles_of_line(self) -> list[tuple[int, int, int, list[range] | None]]:
        """First row, rows, how many of these, and which of the rows are inside."""
        sizes = split_evenly(self.geometry.result[1], self.tile.rows)
        starts = [sum(sizes[:number]) for number in range(len(sizes))]
        tiles = [
            (start, count, self._rows_inside(start, count))
            for start, count in zip(starts, sizes, strict=True)
        ]
        found: list[tuple[int, int, int, list[range] | None]] = []
        for (count, is_edge), run in groupby(
            tiles, key=lambda each: (each[1], each[2] is not None)
        ):
            group = list(run)
            if is_edge:
                found += [(start, count, 1, inside) for start, _, inside in group]
            else:
                found.append((group[0][0], count, len(group), None))
        return found

    def _rows_inside(self, start: int, count: int) -> list[range] | None:
        """For each position of the window, the rows of a tile that see no padding."""
        shape = self.geometry
        width, step, before = shape.size[1], shape.strides[1], shape.padding[1]
        found = []
        for position in range(shape.window[1]):
            at = position * shape.dilation[1] - before
            seen = [
                row for row in range(count) if 0 <= (start + row) * step + at < width
            ]
            found.append(range(seen[0], seen[-1] + 1) if seen else range(0))
        return None if all(len(rows) == count for rows in found) else found

    # ---- one tile -------------------------------------------------------------------

    def _write_tile(self, panel: _Panel, rows: _Rows) -> None:
        places, lanes = self._places(panel, rows), self.tile.lanes
        sums = self._sum_window(panel, rows, [vectors.splat(0.0, lanes)] * len(places))
        found = self.epilogue.apply(self.wanted, list(zip(places, sums, strict=True)))
        for memory, values in zip(self.results, zip(*found, strict=True), strict=True):
            for place, value in zip(places, values, strict=True):
                vectors.store(value, memory, place.at, lanes, place.count)

    def _places(self, panel: _Panel, rows: _Rows) -> list[Place]:
        lanes = self.tile.lanes
        return [
            Place(
                at=add(rows.result, row * self.geometry.features + number * lanes),
                column=add(panel.column, number * lanes),
                key=number,
                count=panel.last if number == panel.vectors - 1 else lanes,
            )
            for row in range(rows.count)
            for number in range(panel.vectors)
        ]

    def _sum_window(self, panel: _Panel, rows: _Rows, sums: Values) -> Values:
        shape = self.geometry
        line = shape.dilation[0] * shape.size[1] * shape.channels
        depth = shape.window[1] * shape.channels * self.tile.columns

        def sum_line(number: Value, sums: Values) -> Values:
            left = add(rows.left, scale(number, line))
            packed = add(panel.packed, scale(number, depth))
            return self._sum_line(panel, rows, (left, packed), sums)

        if shape.window[0] == 1 and rows.lines == (0, 1):
            return sum_line(index(0), sums)
        return vectors.loop(*rows.lines, 1, sums, sum_line)

    def _sum_line(
        self, panel: _Panel, rows: _Rows, begin: tuple[Value, Value], sums: Values
    ) -> Values:
        """The part of the sums that one line of the window makes."""
        shape, every = self.geometry, range(rows.count)
        positions, channels = shape.window[1], shape.channels
        if rows.inside is None and shape.dilation[1] == 1:  # side by side in memory
            return self._sum_run(panel, every, begin, positions * channels, sums)
        for position in range(positions):
            seen = every if rows.inside is None else rows.inside[position]
            left = add(begin[0], position * shape.dilation[1] * channels)
            packed = add(begin[1], position * channels * self.tile.columns)
            sums = self._sum_run(panel, seen, (left, packed), channels, sums)
        return sums

    def _sum_run(
        self,
        panel: _Panel,
        rows: range,
        begin: tuple[Value, Value],
        length: int,
        sums: Values,
    ) -> Values:
        """Add up products along both operands, for some rows of the tile."""
        lanes, count = self.tile.lanes, panel.vectors
        step = self.geometry.strides[1] * self.geometry.channels
        chosen = [row * count + number for row in rows for number in range(count)]

        def add_products(number: Value, some: Values) -> Values:
            left = add(begin[0], number)
            packed = add(begin[1], scale(number, self.tile.columns))

            def element(row: int) -> Value:
                at = add(left, rows[row] * step)
                return vectors.repeat(vectors.load_element(self.left, at), lanes)

            def right(number: int) -> Value:
                return vectors.load(self.packed, add(packed, number * lanes), lanes)

            return vectors.outer_product(element, right, (len(rows), count), some)

        if not chosen:
            return sums
        found = vectors.loop(0, length, 1, [sums[n] for n in chosen], add_products)
        known = dict(enumerate(sums)) | dict(zip(chosen, found, strict=True))
        return [known[number] for number in range(len(sums))]


def _least(value: Value, limit: int) -> Value:
    return arith.minsi(value, index(limit))


def _most(value: Value, limit: int) -> Value:
    return arith.maxsi(value, index(limit))


def _ceildiv(value: Value, divisor: int) -> Value:
    """Rounded up, for what is not negative."""
    if divisor == 1:
        return value
    return arith.divui(add(value, divisor - 1), index(divisor))
