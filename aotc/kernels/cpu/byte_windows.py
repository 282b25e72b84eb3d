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

from aotc.core.dtypes import UNSIGNED
from aotc.dialects.lowering.scalars import constant, int_compare
from aotc.kernels.cpu import vectors
from aotc.kernels.cpu.lines import ResultRows, rows_by_pixel, sees_no_padding
from aotc.kernels.cpu.vectors import Values, add, index, scale
from aotc.kernels.cpu.walks import index_maximum, index_minimum
from aotc.kernels.geometry import ConvolutionGeometry
from aotc.kernels.machine import Mma
from aotc.kernels.planning.depthwise import Sweep
from aotc.mlir import Type, Value, arith, ir


@dataclass(frozen=True)
class _Lines:
    """Consecutive lines of windows whose products one instruction adds up.

    Args:
        numbers: of them, in a window.
        first: the line of the image that the windows begin at.
    """

    numbers: range
    first: Value

    def tops(self, dilation: int) -> list[Value]:
        """Emit the image line numbers of these window lines, given the dilation."""
        return [add(self.first, number * dilation) for number in self.numbers]


@dataclass(frozen=True)
class ByteWindows:
    """An emitter of depthwise sums of windows over bytes, in i32.

    Args:
        geometry: of the images and windows, whose groups have one channel each.
        sweep: how they are cut up.
        image: memory of the image.
        weights: memory of the weights, [position][channel].
        fill: the number around the image.
        mma: what multiplies words; None where bytes are multiplied as f32.
    """

    geometry: ConvolutionGeometry
    sweep: Sweep
    image: Value
    weights: Value
    fill: int
    mma: Mma | None

    def sums(self, rows: ResultRows, column: Value, count: int) -> Values:
        """Emit a tile's sums over whole windows, a vector of i32 for each row.

        Args:
            rows: of the tile.
            column: the first channel.
            count: how many channels there are.
        """
        lines, together = self.geometry.window[0], self.sweep.terms
        totals = [constant(self._sum_type, 0)] * rows.count
        for first in range(0, lines, together):
            numbers = range(first, min(first + together, lines))
            some = _Lines(numbers, add(index(0), rows.top))
            weights = self._weights(some, column, count)
            totals = self._without_offset(weights, totals)
            weights, totals = self._without_padding(some, weights, totals)
            totals = self._add_lines(rows, some, (column, count), weights, totals)
        if self.mma is None:
            return [arith.fptosi(self._integers(32), total) for total in totals]
        return totals

    def _without_padding(
        self, lines: _Lines, weights: Values, totals: Values
    ) -> tuple[Values, Values]:
        """Emit weights that are 0 for padding lines, and totals with those products."""
        if sees_no_padding(self.geometry):
            return weights, totals
        inside = [*map(self._is_inside, lines.tops(self.geometry.dilation[0]))]
        kept = [self._mask_lines(weight, inside) for weight in weights]
        if self._has_zeros_around:
            return kept, totals
        around = self._join_lines([self._padding_pixel] * len(inside))
        more = constant(self._sum_type, 0)
        is_float = self.mma is None
        for weight, own in zip(weights, kept, strict=True):  # bits of one, or of both
            missing = (arith.subf if is_float else arith.xori)(weight, own)
            more = self._multiply_add(around, missing, more)
        add_up = arith.addf if is_float else arith.addi
        return kept, [add_up(total, more) for total in totals]

    def _mask_lines(self, weight: Value, inside: Sequence[Value]) -> Value:
        """Emit a weight with zeros for the lines that are outside of the image."""
        if self.mma is None:
            (is_inside,) = inside
            return arith.select(is_inside, weight, constant(weight.type, 0))
        i32 = ir.IntegerType.get_signless(32)
        mask = constant(i32, 0)
        for place, is_inside in enumerate(inside):
            bits = constant(i32, _signed(0xFF << 8 * place))
            mask = arith.ori(mask, arith.select(is_inside, bits, constant(i32, 0)))
        return arith.andi(weight, vectors.repeat(mask, self.sweep.lanes))

    def _is_inside(self, top: Value) -> Value:
        """Emit whether a line number is one of the image's, by unsigned comparison."""
        return int_compare("ult", top, index(self.geometry.size[0]))

    def _add_lines(
        self,
        rows: ResultRows,
        lines: _Lines,
        columns: tuple[Value, int],
        weights: Sequence[Value],
        totals: Values,
    ) -> Values:
        """Emit `totals` plus the products of some lines of the windows."""
        found = list(totals)
        begins = self._begins(rows, lines)
        for pixel, uses in rows_by_pixel(self.geometry, rows).items():
            x = self._pixel(begins, pixel, *columns)
            for row, position in uses:
                found[row] = self._multiply_add(x, weights[position], found[row])
        if rows.inside is None or self._has_zeros_around:
            return found
        around = self._join_lines([self._padding_pixel] * len(begins))
        for position, inside in enumerate(rows.inside):
            for row in {*range(rows.count)} - {*inside}:
                weight = weights[position]
                found[row] = self._multiply_add(around, weight, found[row])
        return found

    # ---- operands -------------------------------------------------------------------

    def _begins(self, rows: ResultRows, lines: _Lines) -> list[Value]:
        """Emit the offsets at which the windows' lines begin, clamped to the image."""
        shape = self.geometry
        found = []
        for top in lines.tops(shape.dilation[0]):
            if not sees_no_padding(shape):
                top = index_minimum(index_maximum(top, 0), shape.size[0] - 1)
            distance = arith.subi(top, lines.first)
            found.append(
                add(rows.left, scale(distance, shape.size[1] * shape.channels))
            )
        return found

    def _pixel(
        self, begins: Sequence[Value], pixel: int, column: Value, count: int
    ) -> Value:
        """Emit the load of a pixel's channels in several lines, as one factor."""
        inner = add(column, pixel * self.geometry.channels)
        loaded = [self._load(self.image, add(at, inner), count) for at in begins]
        return self._join_lines(loaded)

    def _weights(self, lines: _Lines, column: Value, count: int) -> Values:
        """Emit the loads of several lines' weights, one factor for each position."""
        shape = self.geometry
        found = []
        for position in range(shape.window[1]):
            places = [line * shape.window[1] + position for line in lines.numbers]
            loaded = [
                self._load(self.weights, add(column, place * shape.channels), count)
                for place in places
            ]
            found.append(self._join_lines(loaded, is_weight=True))
        return found

    def _load(self, memory: Value, at: Value, count: int) -> Value:
        """Emit the load of a vector of bytes."""
        return vectors.load(memory, at, self.sweep.lanes, count)

    @property
    def _padding_pixel(self) -> Value:
        """The byte vector that stands for a pixel of the padding."""
        signed = (self.fill + 128) % 256 - 128
        return constant(self._integers(8), signed)

    def _join_lines(self, loaded: Sequence[Value], *, is_weight: bool = False) -> Value:
        """Emit bytes of several lines as one factor: words of four bytes, or f32."""
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

    @property
    def _has_zeros_around(self) -> bool:
        """Return whether products with padding are 0."""
        return self.fill == 0 and not (self.mma and self.mma.offset)

    # ---- products -------------------------------------------------------------------

    @property
    def _offsets(self) -> int:
        """The instruction's offset repeated in all bytes of a word, as an i32."""
        assert self.mma is not None
        return _signed((self.mma.offset & 0xFF) * 0x01010101)

    def _multiply_add(self, x: Value, weight: Value, total: Value) -> Value:
        """Emit `total` plus the products of a pixel and a weight."""
        if self.mma is None:
            return vectors.multiply_add(x, weight, total)
        byte = ir.IntegerType.get_signless(8)
        factors = (vectors.as_elements(each, byte) for each in (x, weight))
        return vectors.call_intrinsic(self.mma.intrinsic, [total, *factors], total.type)

    def _without_offset(self, weights: Sequence[Value], totals: Values) -> Values:
        """Emit `totals` less what the instruction's offset has added to them."""
        if self.mma is None or not self.mma.offset:
            return totals
        excess = constant(self._sum_type, 0)
        offsets = constant(self._integers(32), self._offsets)
        for weight in weights:
            excess = self._multiply_add(offsets, weight, excess)
        return [arith.subi(total, excess) for total in totals]

    @property
    def _sum_type(self) -> Type:
        """The vector type of sums."""
        if self.mma is None:
            return vectors.vector_type(self.sweep.lanes)
        return self._integers(32)

    def _integers(self, bits: int) -> Type:
        """Return the vector type of integers of `bits` bits."""
        element = ir.IntegerType.get_signless(bits)
        return vectors.vector_type(self.sweep.lanes, element)


def _signed(word: int) -> int:
    """Return the signed 32-bit integer with the bits of an unsigned one."""
    return word - (word >> 31 << 32)
