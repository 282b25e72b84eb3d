"""Plans of Winograd convolutions, with their costs.

Of f32 it rounds otherwise than a direct one. Of bytes it is exact: transformed inputs
and weights are i16, which instructions multiply two by two, and sums are taken modulo
2**32, in which the result, four times as large, has its place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from aotc.core.dtypes import bits
from aotc.dialects.graph import GraphOp
from aotc.dialects.ops.convolution import ConvGeneral
from aotc.dialects.types import Size, ceil_divide
from aotc.kernels.geometry import ConvolutionGeometry, geometry_of, known_geometry
from aotc.kernels.machine import FMA, LINE_BYTES, Machine, Mma
from aotc.kernels.planning.tile import (
    choose_multiplier,
    choose_tile,
    cycles,
    most_rows,
    split_evenly,
    terms_at_a_time,
    with_reloads,
)
from aotc.kernels.schedule import Schedule
from aotc.kernels.winograd.matrices import EXACT, OUTPUTS, WINDOW, filter_scale

LINE = LINE_BYTES // 4  # words of a line of a cache
_MOST_VECTORS = 4
_MOST_PASSES = 4  # of accumulators over one product
_WORKGROUPS = 8  # that are worth it to transform inputs for each of them
_UNSHARED = 0.1  # of the cycles: what each lacking part of these workgroups counts
_GROUP = 64  # features that these compute, at least
_WORTH = 0.65  # of the cycles of a direct convolution; on 7×7 images 0.75 was slower
_WORTH_OF_BYTES = 0.9  # the same; on Zen 5, 0.89 of the model were 0.8 of the time
_TRANSFORM = {2: 70, 4: 200}  # cycles for a vector of a tile, of inputs or results


@dataclass(frozen=True)
class WinogradTile(Schedule):
    """The schedule of one Winograd convolution.

    Args:
        lanes: elements of a vector.
        vectors: that the columns of a panel make.
        rows: at most, of one tile of accumulators: of image tiles.
        outputs: of an image tile, along each axis.
        block: image tiles that one workgroup computes.
        group: panels that one workgroup computes.
        terms: channels that are multiplied at a time: 1 of f32, 2 of i16; as many are
            a word of 32 bits.
    """

    lanes: int
    vectors: int
    rows: int
    outputs: int
    block: int
    group: int
    terms: int = 1

    phrases = {"terms": "{} terms together"}

    @property
    def columns(self) -> int:
        """The number of columns of a panel."""
        return self.lanes * self.vectors

    @property
    def size(self) -> int:
        """Inputs of an image tile, along each axis."""
        return self.outputs + WINDOW - 1

    @property
    def products(self) -> int:
        """The number of matrix products: one for each input of an image tile."""
        return self.size**2

    def panels(self, features: int) -> int:
        """Return the number of panels for `features` columns, the last padded."""
        return -(-features // self.columns)

    def groups(self, features: int) -> int:
        """Return into how many workgroups the panels of a block are split."""
        return -(-self.panels(features) // self.group)


@dataclass(frozen=True)
class WinogradScratch:
    """The layout of the scratch memory of a Winograd kernel, in words of 32 bits.

    Slices begin an odd number of lines from each other, so that what lies at one place
    of all of them does not fall into one set of the first cache.

    Args:
        channels: words of the channels of a pixel, and zeros up to whole vectors.
        inputs: from the transformed inputs of one product to those of the next.
        sums: the same of the products.
        tile: the schedule.
    """

    channels: int
    inputs: int
    sums: int
    tile: WinogradTile

    @classmethod
    def of(cls, geometry: ConvolutionGeometry, tile: WinogradTile) -> WinogradScratch:
        """Return the scratch memory's layout for a convolution and its tile."""
        channels = -(-geometry.channels // (tile.terms * tile.lanes)) * tile.lanes
        return cls(
            channels,
            _odd_lines(tile.block * channels),
            _odd_lines(tile.block * tile.columns),
            tile,
        )

    @property
    def first_sum(self) -> int:
        """The offset of the products' results in scratch memory."""
        return self.tile.products * self.inputs

    @property
    def first_pixel(self) -> int:
        """The offset of the copy of a tile at an image's edge, in scratch memory."""
        return self.first_sum + self.tile.products * self.sums

    @property
    def elements(self) -> int:
        """The number of words of scratch memory."""
        end = self.first_pixel + self.tile.products * self.channels
        return -(-end // LINE) * LINE


def _odd_lines(words: int) -> int:
    """Return a number of words rounded up to an odd number of cache lines."""
    lines = -(-words // LINE)
    return (lines | 1) * LINE


def plan(op: GraphOp, machine: Machine) -> WinogradTile | None:
    """Return the Winograd tile of a convolution; None if a direct one is as fast."""
    geometry = geometry_of(op)
    if geometry is None or not is_window_of_three(op):
        return None
    mma = multiplier(geometry, machine)
    if mma is None:
        return None
    if is_exact(op) and geometry.channels % (mma.terms * machine.lanes):
        return None  # zeros follow the channels of f32 alone
    outputs = EXACT if is_exact(op) else OUTPUTS
    worth = _WORTH_OF_BYTES if is_exact(op) else _WORTH
    return _choose_tile(geometry.typical, machine, outputs, worth)


@lru_cache(maxsize=1024)  # a program has few shapes, and many convolutions of each
def _choose_tile(
    geometry: ConvolutionGeometry,
    machine: Machine,
    outputs: tuple[int, ...],
    worth: float,
) -> WinogradTile | None:
    """Return the tile with the fewest modelled cycles; None if direct is as fast."""
    tiles = [x for count in outputs for x in _tiles(geometry, count, machine)]
    tile = min(tiles, key=lambda tile: _rank(geometry, tile, machine))
    terms = terms_at_a_time(geometry, machine)
    direct = choose_tile(geometry, machine, terms)
    usual = cycles(geometry, direct.rows, direct.vectors, machine, terms)
    usual += _weight_cycles(geometry, WINDOW**2, geometry.bytes, machine)
    least = estimate(geometry, tile, machine)
    return tile if least < worth * usual else None


def plan_unpacked(op: GraphOp, machine: Machine) -> None:
    """Return None: transforming weights in each call would cost what is saved."""


def is_window_of_three(op: GraphOp) -> bool:
    """Return whether an op is a convolution that Winograd kernels compute: 3×3."""
    geometry = geometry_of(op) if isinstance(op, ConvGeneral) else None
    if geometry is None or geometry.groups != 1:
        return False
    if geometry.is_narrow and not is_exact(op):
        return False
    steps = geometry.strides, geometry.dilation
    return geometry.window == (WINDOW, WINDOW) and steps == ((1, 1), (1, 1))


def is_exact(op: GraphOp) -> bool:
    """Return whether Winograd is exact for an op: a convolution of bytes, not too deep.

    Then its results are the graph's, whatever is asked of numerics.
    """
    geometry = geometry_of(op) if isinstance(op, ConvGeneral) else None
    if geometry is None or geometry.is_float or geometry.bytes > 1:
        return False
    return int(filter_scale(*EXACT)) ** 2 * geometry.depth * 2**16 < 2**31


def multiplier(geometry: ConvolutionGeometry, machine: Machine) -> Mma | None:
    """Return the instruction that multiplies transformed inputs; None if none gains.

    i16 that are multiplied one by one take as long as bytes do directly, and so do two
    of them where there are dot products of four bytes.
    """
    if geometry.is_float:
        return FMA
    direct = choose_multiplier(geometry, machine)
    if direct is not None and direct.adds:
        return None
    found = machine.multipliers_of("i16", "i16")
    return next((mma for mma in found if mma.terms * bits(mma.factor) == 32), None)


def _tiles(
    geometry: ConvolutionGeometry, outputs: int, machine: Machine
) -> Iterator[WinogradTile]:
    """Yield tiles whose transformed inputs take half of the L2 cache at most."""
    count, mma = tile_count(geometry, outputs), multiplier(geometry, machine)
    assert isinstance(count, int)
    assert mma is not None
    features, words = geometry.features, geometry.channels // mma.terms
    most_vectors = min(_MOST_VECTORS, -(-features // machine.lanes))
    for vectors in range(1, most_vectors + 1):
        most = most_rows(vectors, words, machine, spare=mma.spare)
        panels = -(-features // (vectors * machine.lanes))
        for block in range(1, min(count, _MOST_PASSES * most) + 1):
            blocks = -(-count // block)
            if block != -(-count // blocks):
                continue  # another one makes as many, with less to compute twice
            groups = min(max(1, features // _GROUP), -(-_WORKGROUPS // blocks))
            rows = max(split_evenly(block, most))
            group = -(-panels // groups)
            sizes = machine.lanes, vectors, rows, outputs, block, group
            tile = WinogradTile(*sizes, terms=mma.terms)
            held = 4 * WinogradScratch.of(geometry, tile).first_sum
            if block == 1 or 2 * held <= machine.second_cache:
                yield tile


def _rank(geometry: ConvolutionGeometry, tile: WinogradTile, machine: Machine) -> float:
    """Return a tile's modelled cycles, with a penalty for too few workgroups."""
    count = tile_count(geometry, tile.outputs)
    assert isinstance(count, int)
    shared = tile.groups(geometry.features) * -(-count // tile.block)
    unshared = _WORKGROUPS / min(_WORKGROUPS, shared) - 1
    return estimate(geometry, tile, machine) * (1 + _UNSHARED * unshared)


def estimate(
    geometry: ConvolutionGeometry, tile: WinogradTile, machine: Machine
) -> float:
    """Return the modelled cycles of a Winograd convolution on one core.

    Args:
        geometry: of static sizes.
        tile: how it is cut up.
        machine: that computes it.
    """
    count, width = tile_count(geometry, tile.outputs), tile.vectors
    mma = multiplier(geometry, machine)
    assert isinstance(count, int)
    assert mma is not None
    blocks, panels = -(-count // tile.block), tile.panels(geometry.features)
    total, words = 0.0, -(-geometry.channels // tile.terms)
    for rows in split_evenly(tile.block, tile.rows):
        busy = rows * width * mma.operations
        total += machine.tile_cycles(words, rows, width, busy)
    total *= blocks * panels * tile.products
    total *= with_reloads(tile.rows, width)
    inputs = tile.groups(geometry.features) * -(-words // tile.lanes)
    results = panels * width
    total += _TRANSFORM[tile.outputs] * blocks * tile.block * (inputs + results)
    size = 4 // tile.terms
    weights = _weight_cycles(geometry, tile.products, size, machine)
    if 2 * size * _weight_count(geometry, tile.products) > machine.second_cache:
        weights *= 1 + (blocks - 1) / 2  # from the cache that cores share
    return total + weights


def _weight_cycles(
    geometry: ConvolutionGeometry, products: int, bytes_each: int, machine: Machine
) -> float:
    """Return the cycles that reading the weights from memory adds.

    Half of them are hidden, but none of those of weights that no cache can hold.
    """
    size = bytes_each * _weight_count(geometry, products)
    hidden = 2 if size <= machine.third_cache else 1
    return size / machine.memory_bytes / hidden


def _weight_count(geometry: ConvolutionGeometry, products: int) -> int:
    """Return the elements of the transformed weights of `products` products."""
    return products * geometry.channels * geometry.features


def tile_count(geometry: ConvolutionGeometry, outputs: int) -> Size:
    """Return the number of image tiles of all results."""
    lines, positions = (-(-size // outputs) for size in geometry.result)
    return geometry.images * lines * positions


def workgroups(op: GraphOp, tile: WinogradTile) -> tuple[Size, Size]:
    """Return the numbers of workgroups: blocks of image tiles, and groups of panels."""
    geometry = known_geometry(op)
    count = tile_count(geometry, tile.outputs)
    return ceil_divide(count, tile.block), tile.groups(geometry.features)


def scratch_elements(op: GraphOp, tile: WinogradTile) -> int:
    """Return how many scratch words each share of the workgroups takes."""
    return WinogradScratch.of(known_geometry(op), tile).elements


def cycles_of(
    op: GraphOp,
    tile: WinogradTile,
    machine: Machine,
    number_of: Callable[[Size], int],
) -> int:
    """Return the modelled cycles of a region's Winograd convolution on one core."""
    return round(estimate(known_geometry(op).with_sizes(number_of), tile, machine))
