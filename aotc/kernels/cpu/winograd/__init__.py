"""Winograd convolutions of 3×3 windows, with their epilogues.

One workgroup computes a block of image tiles and a group of panels of features: it
transforms the inputs of its tiles, multiplies them with the transformed weights, one
product of matrices for each input of a tile, and transforms the sums of each panel
back, with the epilogue (Lavin and Gray, CVPR 2016). What lies between the three stays
in the second cache, in memory that a share of the workgroups has for itself; the
weights stream past it. The blocks of one group come one after the other, so that its
weights come from main memory once.

What lies between is held as words of 32 bits, in memory of f32: an element of f32, two
transformed inputs of bytes, or a sum of these. Of bytes, sums are a power of two too
large, as transformed weights are.

Tiles reach beyond the edges of an image: what they see there are zeros, in a copy, and
what they compute there is not written. If the last block has too few tiles, it begins
earlier and computes some once more, which gives the same numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from aotc.dialects.graph import GraphOp
from aotc.dialects.lowering.scalars import constant, int_compare
from aotc.kernels.cpu import loops, vectors
from aotc.kernels.cpu.arguments import KernelArguments
from aotc.kernels.cpu.contraction.factors import Factors
from aotc.kernels.cpu.epilogue import Epilogue, VectorPosition
from aotc.kernels.cpu.vectors import Values, add, index, scale
from aotc.kernels.cpu.walks import (
    block_bounds,
    branch_at_rest,
    visit_groups,
    visit_parts,
)
from aotc.kernels.cpu.winograd.tiles import ImageTile, for_tiles
from aotc.kernels.cpu.winograd.transforms import transform_tile
from aotc.kernels.geometry import ConvolutionGeometry, known_geometry
from aotc.kernels.machine import PREFETCH_BYTES
from aotc.kernels.planning.tile import split_groups
from aotc.kernels.planning.winograd import (
    LINE,
    WinogradScratch,
    WinogradTile,
    multiplier,
    tile_count,
)
from aotc.kernels.winograd.matrices import filter_scale, matrices
from aotc.mlir import Function, Type, Value, arith


def write(
    function: Function, anchor: GraphOp, tile: WinogradTile, arguments: KernelArguments
) -> None:
    """Emit the body of a Winograd convolution's kernel."""
    epilogue = Epilogue.of(function, anchor, arguments, tile.lanes, packed=1)
    Winograd(known_geometry(anchor), tile, arguments, epilogue).write()


@dataclass(frozen=True)
class Winograd:
    """An emitter of one workgroup's part of a Winograd convolution.

    Args:
        geometry: of the convolution.
        tile: how it is cut up.
        given: the memories of the operands first, and that of the share.
        epilogue: makes the results of the sums.
    """

    geometry: ConvolutionGeometry
    tile: WinogradTile
    given: KernelArguments
    epilogue: Epilogue

    @property
    def _factors(self) -> Factors:
        """The loads and multiply-adds for the dtype of transformed inputs."""
        dtypes = self.geometry.dtype, self.geometry.right_dtype
        mma = multiplier(self.geometry, self.given.known_machine)
        assert mma is not None
        return Factors(dtypes, self.tile.lanes, mma)

    @property
    def _scratch(self) -> WinogradScratch:
        """The layout of the scratch memory."""
        return WinogradScratch.of(self.geometry, self.tile)

    def _place(self, first: int) -> Value:
        """Emit the offset of word `first` of the share's scratch memory."""
        return add(self.given.own.begin, first)

    def write(self) -> None:
        """Emit the work of one workgroup: transforms, products and epilogue."""
        block, group = self.given.workgroup
        count = self.given.size(tile_count(self.geometry, self.tile.outputs))
        first = scale(block, self.tile.block)
        first = arith.minsi(first, add(count, -self.tile.block))
        for_tiles(first, self.geometry, self.tile, self._write_input)
        panels = self.tile.panels(self.geometry.features)

        def write_panel(panel: Value) -> None:
            self._write_products(panel)
            self._write_results(panel, first)

        bounds = block_bounds(group, self.tile.group, panels)
        loops.repeat_for(*bounds, 1, write_panel)

    # ---- inputs ---------------------------------------------------------------------

    def _write_input(self, tile: ImageTile) -> None:
        """Emit the input transform of one tile, padded by a copy at edges."""
        shape, size = self.geometry, self.tile.size
        top = add(scale(tile.line, self.tile.outputs), -shape.padding[0])
        left = add(scale(tile.position, self.tile.outputs), -shape.padding[1])
        pixel = add(scale(tile.image, shape.size[0]), top)
        pixel = add(scale(pixel, shape.size[1]), left)
        begin = scale(pixel, shape.channels)
        line = shape.size[1] * shape.channels
        image = self.given.memories[0]

        def write_inside() -> None:
            self._transform_input(tile, image, begin, (line, shape.channels), False)

        def write_edge() -> None:
            copy = self._place(self._scratch.first_pixel)
            self._copy_padded(begin, top, left, copy)
            channels = self._scratch.channels
            steps = size * channels, channels
            self._transform_input(tile, self.given.own.memory, copy, steps, True)

        loops.branch(self._is_inside(top, left), write_inside, write_edge)

    def _is_inside(self, top: Value, left: Value) -> Value | bool:
        """Emit whether a tile's input lies inside of the image."""
        lines, positions = (n - self.tile.size + 1 for n in self.geometry.size)
        if min(lines, positions) <= 0:
            return False
        # a line before the first one is a large number without a sign
        return arith.andi(
            int_compare("ult", top, index(lines)),
            int_compare("ult", left, index(positions)),
        )

    def _copy_padded(self, begin: Value, top: Value, left: Value, copy: Value) -> None:
        """Emit a copy of a tile's input, with zeros for padding.

        Args:
            begin: of the tile in the image; before it perhaps.
            top: its first line.
            left: its first position.
            copy: where to.
        """
        shape, size, lanes = self.geometry, self.tile.size, self.tile.lanes
        channels, image = self._scratch.channels, self.given.memories[0]
        zeros = vectors.splat(0.0, lanes)

        def copy_pixel(line: Value, position: Value) -> None:
            number = add(scale(line, size), position)
            to = add(copy, scale(number, channels))
            number = add(scale(line, shape.size[1]), position)
            start = add(begin, scale(number, shape.channels))

            def copy_channels() -> None:
                def copy_vector(word: Value, count: int) -> None:
                    x = self._load_inputs(image, start, word, count)
                    self._store(x, add(to, word))

                visit_parts(shape.channels // self.tile.terms, lanes, copy_vector)

            def write_zeros() -> None:
                loops.repeat_for(
                    0,
                    channels,
                    lanes,
                    lambda n: self._store(zeros, add(to, n)),
                )

            is_pixel = arith.andi(
                int_compare("ult", add(top, line), index(shape.size[0])),
                int_compare("ult", add(left, position), index(shape.size[1])),
            )
            loops.branch(is_pixel, copy_channels, write_zeros)

        loops.repeat_for(
            0,
            size,
            1,
            lambda line: loops.repeat_for(
                0, size, 1, lambda position: copy_pixel(line, position)
            ),
        )

    def _transform_input(
        self,
        tile: ImageTile,
        memory: Value,
        begin: Value,
        steps: tuple[int, int],
        is_copy: bool,
    ) -> None:
        """Emit the transform of a tile's input, B' d B, for all channels.

        Args:
            tile: the tile.
            memory: that has it.
            begin: of the tile there.
            steps: from a line to the next there, and from a pixel to the next.
            is_copy: whether that is a copy in words, with zeros behind the last one.
        """
        size, lanes, scratch = self.tile.size, self.tile.lanes, self._scratch
        to = add(self._place(0), scale(tile.number, scratch.channels))

        def load(word: Value, step: int, count: int) -> Value:
            if is_copy:
                return self._load(add(add(begin, word), step), self._factors.element)
            return self._load_inputs(memory, add(begin, step), word, count)

        def transform(word: Value, count: int) -> None:
            inputs = [
                [load(word, i * steps[0] + j * steps[1], count) for j in range(size)]
                for i in range(size)
            ]
            found = transform_tile(matrices(self.tile.outputs).input, inputs)
            start = add(to, word)
            for number, x in enumerate(x for row in found for x in row):
                self._store(x, add(start, number * scratch.inputs))

        words = self.geometry.channels // self.tile.terms
        visit_parts(scratch.channels if is_copy else words, lanes, transform)

    def _load_inputs(
        self, image: Value, begin: Value, word: Value, count: int
    ) -> Value:
        """Emit the load of a vector of a pixel's channels, in the dtype multiplied in.

        Args:
            image: the memory.
            begin: of the pixel.
            word: the first channel, as the number of a word.
            count: of the words that are there.
        """
        terms, lanes = self.tile.terms, self.tile.lanes
        at = add(begin, scale(word, terms))
        if terms > 1:  # whole vectors
            return self._factors.rows(image, at, terms * lanes)
        return vectors.load(image, at, lanes, count)

    # ---- words ----------------------------------------------------------------------

    def _load(self, at: Value, element: Type) -> Value:
        """Emit the load of a vector of scratch memory."""
        x = vectors.load(self.given.own.memory, at, self.tile.lanes)
        return vectors.as_elements(x, element)

    def _store(self, x: Value, at: Value) -> None:
        """Emit the store of a vector to scratch memory."""
        memory = self.given.own.memory
        vectors.store(vectors.bitcast_to_floats(x), memory, at, self.tile.lanes)

    # ---- products -------------------------------------------------------------------

    def _write_products(self, panel: Value) -> None:
        """Emit the products of transformed inputs and weights, for one panel."""
        scratch, tile = self._scratch, self.tile
        size = self.geometry.channels * tile.columns
        begin = scale(panel, tile.products * size)

        def write_product(number: Value) -> None:
            left = add(self._place(0), scale(number, scratch.inputs))
            to = add(self._place(scratch.first_sum), scale(number, scratch.sums))
            right = add(begin, scale(number, size))
            for group in split_groups(tile.block, tile.rows):
                fetches = group[0] == 0
                write = partial(self._write_tile, (left, right, to), fetches=fetches)
                visit_groups([group], write)

        loops.repeat_for(0, tile.products, 1, write_product)

    def _write_tile(
        self,
        places: tuple[Value, Value, Value],
        row: Value,
        rows: int,
        *,
        fetches: bool,
    ) -> None:
        """Emit a register tile of one product, stored to scratch memory.

        Args:
            places: where the product begins in inputs, weights and sums.
            row: its first one.
            rows: so many.
            fetches: whether it fetches the weights that are read later.
        """
        left, right, to = places
        begin = add(left, scale(row, self._scratch.channels))
        sums = self._sum((begin, right), rows, fetches=fetches)
        start = add(to, scale(row, self.tile.columns))
        for place, x in enumerate(sums):
            self._store(x, add(start, place * self.tile.lanes))

    def _sum(self, begin: tuple[Value, Value], rows: int, *, fetches: bool) -> Values:
        """Emit the sums over all channels of a register tile, row by row."""
        tile, step, factors = self.tile, self._scratch.channels, self._factors
        weights, terms = self.given.memories[1], self.tile.terms

        def add_products(word: Value, sums: Values) -> Values:
            left = add(begin[0], word)
            right = add(begin[1], scale(word, terms * tile.columns))
            if fetches:
                for line in range(0, tile.columns, LINE):
                    ahead = terms * (line + PREFETCH_BYTES // 4)
                    vectors.prefetch(weights, add(right, ahead))

            def element(row: int) -> Value:
                x = vectors.load_element(self.given.own.memory, add(left, row * step))
                every = vectors.repeat(x, tile.lanes)
                return vectors.as_elements(every, factors.element)

            def column(number: int) -> Value:
                at = add(right, number * factors.run_lanes)
                return factors.columns(weights, at, tile.lanes)

            sizes = rows, tile.vectors
            return vectors.outer_product(
                element, column, sizes, sums, factors.multiply_add
            )

        zeros = [factors.zero] * (rows * tile.vectors)
        return loops.loop(0, self.geometry.channels // terms, 1, zeros, add_products)

    # ---- results --------------------------------------------------------------------

    def _write_results(self, panel: Value, first: Value) -> None:
        """Emit the output transform of a panel's sums, with epilogue and stores."""
        lanes, features = self.tile.lanes, self.geometry.features
        whole, rest = divmod(features, lanes)
        padded = (whole + (rest > 0)) * lanes
        begin, end = block_bounds(panel, self.tile.columns, padded)

        def write_tile(tile: ImageTile) -> None:
            def write_vector(column: Value) -> None:
                at = arith.subi(column, begin)
                branch_at_rest(
                    (whole, rest),
                    lambda: int_compare("slt", column, index(whole * lanes)),
                    lambda: self._write_clipped_tile(tile, at, column, lanes),
                    lambda: self._write_clipped_tile(tile, at, column, rest),
                )

            loops.repeat_for(begin, end, lanes, write_vector)

        for_tiles(first, self.geometry, self.tile, write_tile)

    def _write_clipped_tile(
        self, tile: ImageTile, at: Value, column: Value, count: int
    ) -> None:
        """Emit the output transform of a tile, clipped at the image's borders."""
        lines, positions = self.geometry.result

        def write_lines(number: int) -> None:
            self._write_either(
                tile.position,
                positions,
                lambda width: self._write_outputs(
                    tile, (number, width), (at, column, count)
                ),
            )

        self._write_either(tile.line, lines, write_lines)

    def _write_either(
        self, number: Value, size: int, write: Callable[[int], None]
    ) -> None:
        """Emit a branch: all of a tile's outputs along an axis, or those that exist."""
        whole, rest = divmod(size, self.tile.outputs)
        branch_at_rest(
            (whole, rest),
            lambda: int_compare("slt", number, index(whole)),
            lambda: write(self.tile.outputs),
            lambda: write(rest),
        )

    def _write_outputs(
        self,
        tile: ImageTile,
        counts: tuple[int, int],
        vector: tuple[Value, Value, int],
    ) -> None:
        """Emit the output transform of one vector, A' m A, with its epilogue.

        Args:
            tile: the tile.
            counts: how many outputs along both axes.
            vector: where it begins in a row of the sums, its first feature, and how
                many features it has.
        """
        at, column, count = vector
        size, scratch = self.tile.size, self._scratch
        begin = add(self._place(scratch.first_sum), at)
        begin = add(begin, scale(tile.number, self.tile.columns))
        kind = self._factors.zero.type.element_type
        sums = [
            [
                self._load(add(begin, (i * size + j) * scratch.sums), kind)
                for j in range(size)
            ]
            for i in range(size)
        ]
        found = transform_tile(matrices(self.tile.outputs).output, sums)
        shape = self.geometry
        line = add(
            scale(tile.image, shape.result[0]), scale(tile.line, self.tile.outputs)
        )
        pixel = add(
            scale(line, shape.result[1]), scale(tile.position, self.tile.outputs)
        )
        start = add(scale(pixel, shape.features), column)
        outputs = [(i, j) for i in range(counts[0]) for j in range(counts[1])]
        offsets = [(i * shape.result[1] + j) * shape.features for i, j in outputs]
        places = [
            VectorPosition(add(start, offset), column, 0, count) for offset in offsets
        ]
        self.epilogue.write(places, [self._unscale(found[i][j]) for i, j in outputs])

    def _unscale(self, total: Value) -> Value:
        """Emit a result divided by the factor of integer weights."""
        if self.geometry.is_float:
            return total
        bits = filter_scale(self.tile.outputs).bit_length() - 1
        return arith.shrsi(total, constant(total.type, 2 * bits))
