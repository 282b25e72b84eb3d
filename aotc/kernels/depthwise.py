"""Windows over images channel by channel: depthwise convolution and pooling.

One vector holds neighbouring channels of a pixel. A tile is some results beside each
other along a line, which stay in registers while their windows are gone through: each
pixel that they see is read once for each line of the window and goes into all results
whose windows hold it. Where there are registers for it, the weights of the whole window
are held as well, for lines of results whose windows are wholly within the image; else
those of one line of the window.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from aotc.dialects.graph import GraphOp
from aotc.dialects.ops.convolution import ConvGeneral
from aotc.dialects.ops.pooling import MaxPool
from aotc.kernels import vectors
from aotc.kernels.epilogue import Epilogue, Place
from aotc.kernels.geometry import Geometry, geometry_of
from aotc.kernels.lines import Line, Lines, Rows, Window, least, most
from aotc.kernels.machine import Machine
from aotc.kernels.tile import split_evenly
from aotc.kernels.vectors import Values, add, index, scale
from aotc.mlir import Function, Value, arith

_LEAST_WORK = 1 << 14  # float operations that are worth code of their own
_WORK = 2_000_000  # float operations of a workgroup, at least: tens of microseconds
_MOST_ROWS = 7
_MOST_UNROLLED = 32  # positions of a window, or of a line of it, that are written out
_CACHE_LINE = 16  # elements


@dataclass(frozen=True)
class Sweep:
    """How the work is cut up.

    Args:
        lanes: elements of a vector.
        vectors: of neighbouring channels that a tile has.
        rows: results beside each other that a tile has, at most.
        is_held: whether the whole window is written out, and its weights are held.
        strips: of `vectors` vectors of channels, that a workgroup computes.
        block: lines of results that a workgroup computes.
    """

    lanes: int
    vectors: int
    rows: int
    is_held: int
    strips: int
    block: int

    @property
    def channels(self) -> int:
        """Of a strip."""
        return self.lanes * self.vectors

    def workgroups(self, geometry: Geometry) -> tuple[int, int]:
        """How many there are, along channels and lines."""
        strips = -(-geometry.channels // self.channels)
        return -(-strips // self.strips), -(-geometry.lines // self.block)


def plan(op: GraphOp, machine: Machine) -> Mapping[str, int] | None:
    """How an op is cut up; None where there is no kernel for it."""
    geometry = geometry_of(op)
    if geometry is None or not geometry.is_depthwise:
        return None
    if geometry.flops < _LEAST_WORK or 2 * geometry.channels < machine.lanes:
        return None
    if geometry.window[1] > _MOST_UNROLLED:
        return None
    return asdict(choose_sweep(geometry, isinstance(op, ConvGeneral), machine))


def choose_sweep(geometry: Geometry, has_weights: bool, machine: Machine) -> Sweep:
    """How windows over images are cut up for a machine.

    A strip is a line of the cache wide, or more where there are no weights. Results,
    weights and a pixel share the registers.
    """
    needed = -(-geometry.channels // machine.lanes)
    wide = min(needed, max(1, _CACHE_LINE // machine.lanes))
    lines, positions = geometry.window

    def most_rows(held: int) -> int:
        weights = held * wide if has_weights else 0
        return (machine.registers - weights - 1) // wide

    is_held = lines * positions <= _MOST_UNROLLED and most_rows(lines * positions) >= 4
    fitting = most_rows(lines * positions if is_held else positions)
    rows = min(max(1, fitting), _MOST_ROWS, geometry.result[1])
    rows = max(split_evenly(geometry.result[1], rows))
    strips = -(-needed // wide)
    line = max(1, geometry.flops // geometry.lines)
    block = min(geometry.lines, -(-_WORK // line))
    if line > _WORK:
        strips = max(split_evenly(strips, -(-_WORK * strips // line)))
    return Sweep(
        machine.lanes,
        wide,
        rows,
        int(is_held),
        strips,
        max(split_evenly(geometry.lines, block)),
    )


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
    sweep, geometry = Sweep(**schedule), geometry_of(anchor)
    assert geometry is not None
    known = dict(zip(arguments, memories[: len(arguments)], strict=True))
    epilogue = Epilogue(anchor.results[0], known, sweep.lanes)
    Windows(
        geometry,
        sweep,
        _reduction(anchor, known),
        memories[len(arguments) :],
        list(end.operands),
        epilogue,
    ).write(*workgroup)
    return sweep.workgroups(geometry)


@dataclass(frozen=True)
class _Reduction:
    """What is made of a window.

    Args:
        image: memory of the image.
        weights: memory of the weights, [position][channel]; None for pooling.
        start: what is made of no elements.
        combine: what is made of so far, of an element, and of its weight.
    """

    image: Value
    weights: Value | None
    start: float
    combine: Callable[[Value, Value, Value | None], Value]


def _reduction(anchor: GraphOp, known: Mapping[Value, Value]) -> _Reduction:
    image = known[anchor.operands[0]]
    if isinstance(anchor, ConvGeneral):
        return _Reduction(image, known[anchor.operands[1]], 0.0, _multiply_add)
    if isinstance(anchor, MaxPool):
        return _Reduction(image, None, MaxPool.start, lambda m, x, _: _maximum(m, x))
    return _Reduction(image, None, 0.0, lambda total, x, _: arith.addf(total, x))


def _multiply_add(total: Value, x: Value, weight: Value | None) -> Value:
    assert weight is not None
    return vectors.multiply_add(x, weight, total)


def _maximum(greatest: Value, x: Value) -> Value:
    return arith.maximumf(greatest, x)


@dataclass(frozen=True)
class _Strip:
    """Neighbouring channels that are computed together.

    Args:
        channel: the first one.
        vectors: that hold them.
        last: elements of the last vector.
    """

    channel: Value
    vectors: int
    last: int


Weights = list[list[Value | None]]  # by position and vector


@dataclass(frozen=True)
class Windows:
    """Writes a kernel at the insertion point.

    Args:
        geometry: of the images and windows.
        sweep: how it is cut up.
        reduction: what is made of a window.
        results: memory of each result.
        wanted: the values that the results are.
        epilogue: makes them of what the windows give.
    """

    geometry: Geometry
    sweep: Sweep
    reduction: _Reduction
    results: Sequence[Value]
    wanted: Sequence[Value]
    epilogue: Epilogue

    def write(self, strips: Value, block: Value) -> None:
        """Write the work of one workgroup.

        Args:
            strips: the number of its strips, of all such.
            block: the number of its block of lines.
        """
        sweep = self.sweep
        whole, rest = divmod(self.geometry.channels, sweep.channels)
        first = scale(strips, sweep.strips)
        end = add(first, sweep.strips)
        needed = -(-rest // sweep.lanes)

        def write_strip(number: Value, count: int, last: int) -> Values:
            strip = _Strip(scale(number, sweep.channels), count, last)
            self._write_strip(strip, scale(block, sweep.block))
            return []

        if whole:
            vectors.loop(
                first,
                least(end, whole),
                1,
                [],
                lambda n, _: write_strip(n, sweep.vectors, sweep.lanes),
            )
        if rest:
            last = rest - (needed - 1) * sweep.lanes
            vectors.loop(
                most(first, whole),
                least(end, whole + 1),
                1,
                [],
                lambda n, _: write_strip(n, needed, last),
            )

    def _write_strip(self, strip: _Strip, first: Value) -> None:
        """The lines of a block."""
        lines = Lines(self.geometry, self.sweep.rows)
        last = least(add(first, self.sweep.block), self.geometry.lines)

        def write_around(line: Line) -> None:
            self._write_line(strip, lines, line, lines.window(line))

        def write_inside(line: Line) -> None:
            self._write_line(strip, lines, line, (0, self.geometry.window[0]))

        def write_line(line: Line) -> None:
            is_inside = lines.is_inside(line)
            if not self.sweep.is_held or is_inside is False:
                write_around(line)
            elif is_inside is True:
                write_inside(line)
            else:
                vectors.branch(
                    is_inside, lambda: write_inside(line), lambda: write_around(line)
                )

        lines.write(first, last, write_line)

    def _write_line(
        self, strip: _Strip, lines: Lines, line: Line, window: Window
    ) -> None:
        held: list[Weights] = []
        if self._is_static(window):
            held = [
                self._weights(strip, index(n)) for n in range(self.geometry.window[0])
            ]

        def write_tile(rows: Rows) -> None:
            left = add(rows.left, strip.channel)
            result = add(rows.result, strip.channel)
            self._write_tile(strip, replace(rows, left=left, result=result), held)

        lines.write_tiles(line, window, write_tile)

    def _is_static(self, window: Window) -> bool:
        return bool(self.sweep.is_held) and window == (0, self.geometry.window[0])

    # ---- one tile -------------------------------------------------------------------

    def _write_tile(self, strip: _Strip, rows: Rows, held: list[Weights]) -> None:
        lanes, places = self.sweep.lanes, self._places(strip, rows)
        start = vectors.splat(self.reduction.start, lanes)
        totals = self._reduce(strip, rows, held, [start] * len(places))
        found = self.epilogue.apply(self.wanted, list(zip(places, totals, strict=True)))
        for memory, values in zip(self.results, zip(*found, strict=True), strict=True):
            for place, value in zip(places, values, strict=True):
                vectors.store(value, memory, place.at, lanes, place.count)

    def _places(self, strip: _Strip, rows: Rows) -> list[Place]:
        lanes = self.sweep.lanes
        return [
            Place(
                at=add(rows.result, row * self.geometry.features + number * lanes),
                column=add(strip.channel, number * lanes),
                key=number,
                count=self._count(strip, number),
            )
            for row in range(rows.count)
            for number in range(strip.vectors)
        ]

    def _count(self, strip: _Strip, number: int) -> int:
        """Elements of a vector of a strip."""
        return strip.last if number == strip.vectors - 1 else self.sweep.lanes

    def _reduce(
        self, strip: _Strip, rows: Rows, held: list[Weights], totals: Values
    ) -> Values:
        """What is made of the windows, by rows and vectors."""
        shape = self.geometry
        line = shape.dilation[0] * shape.size[1] * shape.channels

        def reduce_line(number: Value, totals: Values) -> Values:
            weights = self._weights(strip, number)
            begin = add(rows.left, scale(number, line))
            return self._reduce_line(strip, rows, begin, weights, totals)

        if not held:
            return vectors.loop(*rows.lines, 1, totals, reduce_line)
        for number, weights in enumerate(held):
            begin = add(rows.left, number * line)
            totals = self._reduce_line(strip, rows, begin, weights, totals)
        return totals

    def _reduce_line(
        self, strip: _Strip, rows: Rows, begin: Value, weights: Weights, totals: Values
    ) -> Values:
        """`totals`, and what one line of the windows adds to them."""
        shape, found = self.geometry, list(totals)
        for pixel, uses in self._uses(rows).items():
            at = add(begin, pixel * shape.channels)
            for number in range(strip.vectors):
                x = self._load(self.reduction.image, at, strip, number)
                for row, position in uses:
                    place = row * strip.vectors + number
                    weight = weights[position][number]
                    found[place] = self.reduction.combine(found[place], x, weight)
        return found

    def _uses(self, rows: Rows) -> dict[int, list[tuple[int, int]]]:
        """The rows and positions of windows that a pixel is of, from left to right."""
        shape = self.geometry
        found: dict[int, list[tuple[int, int]]] = {}
        for position in range(shape.window[1]):
            for row in rows.seeing(position):
                pixel = row * shape.strides[1] + position * shape.dilation[1]
                found.setdefault(pixel, []).append((row, position))
        return dict(sorted(found.items()))

    def _weights(self, strip: _Strip, line: Value) -> Weights:
        """The weights of a line of the window."""
        positions, channels = self.geometry.window[1], self.geometry.channels
        memory = self.reduction.weights
        if memory is None:
            return [[None] * strip.vectors] * positions
        begin = add(scale(line, positions * channels), strip.channel)
        return [
            [
                self._load(memory, add(begin, position * channels), strip, number)
                for number in range(strip.vectors)
            ]
            for position in range(positions)
        ]

    def _load(self, memory: Value, at: Value, strip: _Strip, number: int) -> Value:
        """A vector of a strip whose first channel is at a place."""
        lanes, count = self.sweep.lanes, self._count(strip, number)
        return vectors.load(memory, add(at, number * lanes), lanes, count)
