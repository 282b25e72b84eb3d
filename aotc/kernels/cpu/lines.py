"""Tiles along the lines of an image: the view of their windows, and its padding.

A line of results is cut into tiles of rows (positions beside each other). Those whose
windows are wholly within the image along the line are alike, and written once in a
loop; each of the others is written by itself and says which of its rows see padding.
Nothing is copied to have room for padding: what is padding is not read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import groupby

from aotc.dialects.lowering.scalars import int_compare
from aotc.kernels.cpu import loops
from aotc.kernels.cpu.vectors import add, index, scale
from aotc.kernels.cpu.walks import index_maximum, index_minimum
from aotc.kernels.geometry import ConvolutionGeometry
from aotc.kernels.planning.tile import split_evenly
from aotc.mlir import Value, arith

Window = tuple[Value | int, Value | int]


@dataclass(frozen=True)
class ResultRows:
    """A tile of contiguous result rows on one line, and the padding it sees.

    Args:
        left: where the window of the first one begins in the image's memory, but for
            the line of the window.
        result: where the first one begins in a result.
        count: of them.
        lines: of the window that are no padding: the first, and the one after them.
        inside: for each position of the window, the rows for which that is no padding;
            None if it is none for all of them.
        top: the line of the image that the window begins at; before the image's first
            one where there is padding.
    """

    left: Value
    result: Value
    count: int
    lines: Window
    inside: list[range] | None = None
    top: Value | int = 0

    def rows_inside_at(self, position: int) -> range:
        """Return the rows for which a window position is not padding."""
        return range(self.count) if self.inside is None else self.inside[position]


@dataclass(frozen=True)
class ImageLine:
    """A line of results, with its image and the first image line it sees.

    Args:
        number: of it, among those of all images.
        image: that it is of.
        top: the first line of the image that its windows see; before the image's first
            one where there is padding.
    """

    number: Value
    image: Value
    top: Value


@dataclass(frozen=True)
class Lines:
    """An emitter of loops over lines of results, and over the tiles of a line.

    Args:
        geometry: of the images and windows.
        rows: at most, of a tile.
        begin: where the images and the results begin in memory.
    """

    geometry: ConvolutionGeometry
    rows: int
    begin: tuple[Value | int, Value | int] = (0, 0)

    def write(
        self, first: Value, last: Value, write_line: Callable[[ImageLine], None]
    ) -> None:
        """Emit a loop over the lines from `first` to before `last`."""
        loops.repeat_for(first, last, 1, lambda n: write_line(self._line(n)))

    def write_tiles(
        self, line: ImageLine, window: Window, write_tile: Callable[[ResultRows], None]
    ) -> None:
        """Emit the tiles of a line of results, those at its ends by themselves.

        Args:
            line: of results.
            window: the lines of the windows that are no padding.
            write_tile: is given the rows of each tile.
        """
        shape = self.geometry
        pixels = add(scale(line.image, shape.size[0]), line.top)
        left = scale(scale(pixels, shape.size[1]), shape.channels)
        left = add(left, self.begin[0])
        result = scale(line.number, shape.result[1] * shape.features)
        result = add(result, self.begin[1])
        step = shape.strides[1] * shape.channels
        before = shape.padding[1] * shape.channels

        def write_at(
            start: Value, count: int, inside: list[range] | None = None
        ) -> None:
            begin = add(add(left, scale(start, step)), -before)
            at = add(result, scale(start, shape.features))
            write_tile(ResultRows(begin, at, count, window, inside, line.top))

        for first, count, number, inside in self._tiles():
            if number == 1:
                write_at(index(first), count, inside)
            else:
                end, write = first + number * count, partial(write_at, count=count)
                loops.repeat_for(first, end, count, write)

    def window(self, line: ImageLine) -> Window:
        """Emit the bounds of a window's lines that are not padding."""
        shape = self.geometry
        lines, dilation = shape.window[0], shape.dilation[0]
        lowest = (shape.result[0] - 1) * shape.strides[0] - shape.padding[0]
        bottom = lowest + (lines - 1) * dilation
        first: Value | int = 0
        last: Value | int = lines
        if shape.padding[0]:
            above = arith.subi(index(0), line.top)
            first = index_minimum(_ceildiv(index_maximum(above, 0), dilation), lines)
        if bottom >= shape.size[0]:
            below = arith.subi(index(shape.size[0]), line.top)
            last = index_minimum(_ceildiv(index_maximum(below, 0), dilation), lines)
        return first, last

    def is_inside(self, line: ImageLine) -> Value | bool:
        """Return or emit whether no window line of a result line is padding."""
        shape = self.geometry
        span = (shape.window[0] - 1) * shape.dilation[0]
        if span >= shape.size[0]:
            return False
        if sees_no_padding(shape):
            return True
        # a line before the first one is a large number without a sign
        return int_compare("ult", line.top, index(shape.size[0] - span))

    def _line(self, number: Value) -> ImageLine:
        """Emit the image and the first image line of a result line's windows."""
        shape = self.geometry
        image, inner = index(0), number
        if shape.images != 1:
            image = arith.divui(number, index(shape.result[0]))
            inner = arith.remui(number, index(shape.result[0]))
        top = add(scale(inner, shape.strides[0]), -shape.padding[0])
        return ImageLine(number, image, top)

    def _tiles(self) -> list[tuple[int, int, int, list[range] | None]]:
        """Return the tiles of a line as (start, rows, repetitions, rows inside)."""
        sizes = split_evenly(self.geometry.result[1], self.rows)
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
        """Return each window position's rows that see no padding; None if all do."""
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


def sees_no_padding(geometry: ConvolutionGeometry) -> bool:
    """Return whether no window reaches above or below its image."""
    span = (geometry.window[0] - 1) * geometry.dilation[0]
    lowest = (geometry.result[0] - 1) * geometry.strides[0] - geometry.padding[0]
    return geometry.padding[0] == 0 and lowest + span < geometry.size[0]


def rows_by_pixel(
    geometry: ConvolutionGeometry, rows: ResultRows
) -> dict[int, list[tuple[int, int]]]:
    """Return, by pixel offset, the (row, window position) pairs that read the pixel."""
    found: dict[int, list[tuple[int, int]]] = {}
    for position in range(geometry.window[1]):
        for row in rows.rows_inside_at(position):
            pixel = row * geometry.strides[1] + position * geometry.dilation[1]
            found.setdefault(pixel, []).append((row, position))
    return dict(sorted(found.items()))


def _ceildiv(value: Value, divisor: int) -> Value:
    """Emit the division of non-negative integers, rounded up."""
    if divisor == 1:
        return value
    return arith.divui(add(value, divisor - 1), index(divisor))
