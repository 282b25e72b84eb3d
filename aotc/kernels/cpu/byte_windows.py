"""Sums of windows over bytes, channel by channel, in i32.

Where an instruction adds up products of four bytes, it gets those of a channel in four
lines of the window: the vectors of four pixels, one above the other, become one of as
many words, which all windows read that see them. Weights become words alike, with zeros
in the place of lines that a window does not have. On other processors bytes are
multiplied as f32, which has all of these sums.

Of lines and pixels around an image the number that is there is multiplied, too: the
zero point.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from aotc.dialects.lowering.scalars import constant, int_compare
from aotc.dtypes import UNSIGNED
from aotc.kernels.cpu import vectors
from aotc.kernels.cpu.lines import Rows, rows_by_pixel
from aotc.kernels.cpu.vectors import Values, add, index
from aotc.kernels.geometry import Geometry
from aotc.kernels.machine import Mma
from aotc.kernels.planning.depthwise import Sweep
from aotc.mlir import Type, Value, arith, ir


@dataclass(frozen=True)
class ByteWindows:
    """Writes the sums of tiles at the insertion point.

    Args:
        geometry: of the images and windows, whose groups have one channel each.
        sweep: how they are cut up.
        image: memory of the image.
        weights: memory of the weights, [position][channel].
        fill: the number around the image.
        mma: what multiplies words; None where bytes are multiplied as f32.
    """

    geometry: Geometry
    sweep: Sweep
    image: Value
    weights: Value
    fill: int
    mma: Mma | None

    def sums(self, rows: Rows, column: Value, count: int) -> Values:
        """Return the sums of a tile, as vectors of i32.

        Args:
            rows: of the tile.
            column: the first channel.
            count: how many channels there are.
        """
        lines = self.geometry.window[0]
        totals = [constant(self._sum_type, 0)] * rows.count
        for first in range(0, lines, self.sweep.terms):
            some = range(first, min(first + self.sweep.terms, lines))
            weights = self._weights(some, column, count)
            totals = self._without_offset(weights, totals)
            totals = self._add_lines(rows, some, (column, count), weights, totals)
        if self.mma is None:
            return [arith.fptosi(self._integers(32), total) for total in totals]
        return totals

    def _add_lines(
        self,
        rows: Rows,
        lines: range,
        columns: tuple[Value, int],
        weights: Sequence[Value],
        totals: Values,
    ) -> Values:
        """Add what some lines of the windows make to sums of a tile."""
        found = list(totals)
        for pixel, uses in rows_by_pixel(self.geometry, rows).items():
            x = self._pixel(rows, lines, pixel, *columns)
            for row, position in uses:
                found[row] = self._multiply_add(x, weights[position], found[row])
        if rows.inside is None or self.fill == 0:
            return found
        around = self._joined([self._filled] * len(lines))
        for position, inside in enumerate(rows.inside):
            for row in {*range(rows.count)} - {*inside}:
                weight = weights[position]
                found[row] = self._multiply_add(around, weight, found[row])
        return found

    # ---- operands -------------------------------------------------------------------

    def _pixel(
        self, rows: Rows, lines: range, pixel: int, column: Value, count: int
    ) -> Value:
        """Return the channels of a pixel in some lines of the windows, as a factor."""
        shape = self.geometry
        line = shape.dilation[0] * shape.size[1] * shape.channels
        begin = add(rows.left, add(column, pixel * shape.channels))
        loaded = []
        for number in lines:
            at = add(begin, number * line)
            if rows.lines == (0, shape.window[0]):
                loaded.append(self._load(self.image, at, count))
                continue
            inside = _is_between(number, *rows.lines)
            at = arith.select(inside, at, column)  # which can be read, whatever it is
            x = self._load(self.image, at, count)
            loaded.append(arith.select(inside, x, self._filled))
        return self._joined(loaded)

    def _weights(self, lines: range, column: Value, count: int) -> Values:
        """Return those of some lines, as factors by position."""
        shape = self.geometry
        found = []
        for position in range(shape.window[1]):
            places = [line * shape.window[1] + position for line in lines]
            loaded = [
                self._load(self.weights, add(column, place * shape.channels), count)
                for place in places
            ]
            found.append(self._joined(loaded, is_weight=True))
        return found

    def _load(self, memory: Value, at: Value, count: int) -> Value:
        return vectors.load(memory, at, self.sweep.lanes, count)

    @property
    def _filled(self) -> Value:
        """What a pixel around the image is in memory."""
        signed = (self.fill + 128) % 256 - 128
        return constant(self._integers(8), signed)

    def _joined(self, loaded: Sequence[Value], *, is_weight: bool = False) -> Value:
        """Return bytes of some lines as a factor: of f32, or of words."""
        dtype = self.geometry.right_dtype if is_weight else self.geometry.dtype
        if self.mma is None:
            (x,) = loaded
            convert = arith.uitofp if dtype in UNSIGNED else arith.sitofp
            return convert(vectors.vector_type(self.sweep.lanes), x)
        words = self._integers(32)
        found: Value | None = None
        for place, x in enumerate(loaded):
            word = arith.extui(words, x)
            if place:
                word = arith.shli(word, constant(words, 8 * place))
            found = word if found is None else arith.ori(found, word)
        assert found is not None
        if self.mma.offset and not is_weight:
            found = arith.xori(found, constant(words, self._offsets))
        return found

    # ---- products -------------------------------------------------------------------

    @property
    def _offsets(self) -> int:
        """The offset of the instruction in each byte of a word, as an i32."""
        assert self.mma is not None
        word = (self.mma.offset & 0xFF) * 0x01010101
        return word - (word >> 31 << 32)

    def _multiply_add(self, x: Value, weight: Value, total: Value) -> Value:
        if self.mma is None:
            return vectors.multiply_add(x, weight, total)
        byte = ir.IntegerType.get_signless(8)
        factors = (vectors.as_elements(each, byte) for each in (x, weight))
        return vectors.call_intrinsic(self.mma.intrinsic, [total, *factors], total.type)

    def _without_offset(self, weights: Sequence[Value], totals: Values) -> Values:
        """Subtract what the offset of the instruction adds to all sums."""
        if self.mma is None or not self.mma.offset:
            return totals
        excess = constant(self._sum_type, 0)
        offsets = constant(self._integers(32), self._offsets)
        for weight in weights:
            excess = self._multiply_add(offsets, weight, excess)
        return [arith.subi(total, excess) for total in totals]

    @property
    def _sum_type(self) -> Type:
        if self.mma is None:
            return vectors.vector_type(self.sweep.lanes)
        return self._integers(32)

    def _integers(self, bits: int) -> Type:
        element = ir.IntegerType.get_signless(bits)
        return vectors.vector_type(self.sweep.lanes, element)


def _is_between(number: int, first: Value | int, last: Value | int) -> Value:
    """Return whether a number is from `first` to before `last`."""
    first, last = (index(x) if isinstance(x, int) else x for x in (first, last))
    from_first = int_compare("uge", index(number), first)
    return arith.andi(from_first, int_compare("ult", index(number), last))
