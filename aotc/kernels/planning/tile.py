"""Tiles of contractions: the parts kept in registers and in caches, and by whom."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

from aotc.core.dtypes import bits
from aotc.dialects.types import Size, bounds, ceil_divide, element_count, static_size
from aotc.kernels import grain
from aotc.kernels.bit_planes import in_planes
from aotc.kernels.geometry import ConvolutionGeometry
from aotc.kernels.machine import KEPT_BYTES, Machine, Mma
from aotc.kernels.schedule import Schedule


@dataclass(frozen=True)
class ContractionTile(Schedule):
    """The schedule of a matrix product or convolution: register tile and blocks.

    Args:
        lanes: elements of a vector.
        vectors: that the columns of a panel make.
        rows: at most, of one tile of accumulators.
        block: tiles of rows, or lines of an image, that one workgroup computes.
        products: that one workgroup computes, of a batch of them.
        packed: 1 if the right operand is packed by panels, 0 if it is read as it lies.
        terms: of a sum that are multiplied at a time, which lie together in the packed
            operand: a power of two, at most 32.
        ahead: 1 if tiles fetch what of the packed operand is read after them, or the
            only one what it reads later.
        interleaved: how many products have the same columns in a panel, side by side.
        group: of a right operand that is dequantised: terms of a sum that have one
            scale; 0 for others.
        bits: of its integers in memory; 0 for others.
        across: of one that is dequantised by blocks of columns: columns that have one
            scale, in each term; 0 for others.
    """

    lanes: int
    vectors: int
    rows: int
    block: int
    products: int = 1
    packed: int = 1
    ahead: int = 0
    interleaved: int = 1
    terms: int = 1
    group: int = 0
    bits: int = 0
    across: int = 0

    phrases = {
        "packed": "right operand as it lies",
        "terms": "{} terms together",
        "ahead": "fetches ahead",
        "group": "scales of {} terms",
        "bits": "{} bits",
        "across": "scales of {} columns",
    }

    @property
    def dequantizes(self) -> bool:
        """Return whether the kernel dequantises the right operand's integers."""
        return bool(self.group or self.across)

    @property
    def has_planes(self) -> bool:
        """Return whether the packed operand's integers are stored in bit planes."""
        return in_planes(self.bits)

    def panel_size(self, depth: int) -> int:
        """Return the elements of a packed panel, padded to whole groups of terms."""
        return -(-depth // self.terms) * self.terms * self.columns

    @property
    def columns(self) -> int:
        """The number of columns of a panel."""
        return self.lanes * self.vectors

    @property
    def own(self) -> ContractionTile:
        """The tile of one product alone, if panels interleave several products."""
        return replace(self, vectors=self.vectors // self.interleaved, interleaved=1)

    def panels(self, features: int) -> int:
        """Return the number of panels for `features` columns, the last padded."""
        return -(-features // self.own.columns)

    def panels_of(self, geometry: ConvolutionGeometry) -> int:
        """Return the number of panels of a geometry, each within one group."""
        return geometry.groups * self.panels(geometry.group_features)


def split_evenly(count: int, most: int) -> list[int]:
    """Split a count into parts of at most `most` that differ by one at most."""
    parts = -(-count // most)
    least, more = divmod(count, parts)
    return [least + 1] * more + [least] * (parts - more)


def split_groups(count: int, most: int) -> list[tuple[int, int, int]]:
    """Split a count as `split_evenly`; return (start, size, repetitions) by size.

    `(0, 5, 2), (10, 4, 1)` for 14 in parts of at most 5.
    """
    parts = -(-count // most)
    least, more = divmod(count, parts)
    groups = [(0, least + 1, more), (more * (least + 1), least, parts - more)]
    return [group for group in groups if group[2]]


PART = 272  # terms of rows that are widened together; a power of two would alias rows
_MOST_ROWS, _MOST_VECTORS = 14, 8
_MOST_CANDIDATES = 8  # of rows and vectors, to measure
# of a vector, in multiply-adds, beside which most of it is done
_WIDENING = {"f32": 0.0, "bf16": 0.5, "f16": 0.25, "i8": 0.5, "u8": 0.5}
_WORKGROUPS = 128  # so many can be shared evenly, see `aotc.kernels.sharing`
_FEWER_WORKGROUPS = 32  # where each block of rows reads panels from memory again


def choose_multiplier(geometry: ConvolutionGeometry, machine: Machine) -> Mma | None:
    """Return the multiply-add instruction for an op's operands; None if none fits."""
    dtypes = geometry.dtype, geometry.right_dtype
    found = machine.multipliers_of(*dtypes, geometry.within)
    return next((mma for mma in found if _can_multiply(geometry, mma)), None)


def _can_multiply(geometry: ConvolutionGeometry, mma: Mma) -> bool:
    """Return whether an instruction's terms are contiguous or can be interleaved."""
    if geometry.has_runs_of(mma.terms):
        return True
    return mma.rows == 1 and geometry.interleaves_runs_of(mma.terms)


def multiplier(geometry: ConvolutionGeometry, machine: Machine, terms: int) -> Mma:
    """Return the multiply-add instruction that multiplies `terms` terms at a time."""
    return machine.multiplier_of(geometry.dtype, geometry.right_dtype, terms)


def widens(geometry: ConvolutionGeometry, mma: Mma) -> bool:
    """Return whether a kernel first copies left rows, widened, to a buffer.

    Rows of narrow elements are copied, in the type that they are multiplied in, unless
    they are multiplied as they are and each run is a multiple of the instruction's
    terms.

    Args:
        geometry: what is computed.
        mma: what multiplies them.
    """
    if not geometry.is_narrow or 1 not in geometry.left_steps:
        return False
    is_kept = bits(mma.factor) == bits(geometry.dtype) and not mma.offset
    is_whole = geometry.left_steps[1] == 1 and geometry.ends_with(mma.terms)
    return not (is_kept and is_whole)


def terms_at_a_time(geometry: ConvolutionGeometry, machine: Machine) -> int:
    """Return how many terms the instruction for an op multiplies at a time."""
    mma = choose_multiplier(geometry, machine)
    return 1 if mma is None else mma.terms


@lru_cache(maxsize=1024)  # a program has few shapes, and many products of each
def choose_tile(
    geometry: ConvolutionGeometry,
    machine: Machine,
    terms: int = 1,
    vectors: int | None = None,
) -> ContractionTile:
    """Return the tile with the fewest modelled cycles for an op (see `cycles`).

    Args:
        geometry: of static sizes, see `ConvolutionGeometry.typical`.
        machine: that computes it.
        terms: that are multiplied at a time.
        vectors: of a panel; None for as many as are best.
    """
    ranked = _ranked_tiles(geometry, machine, terms)
    found = (each for each in ranked if vectors in (None, each.vectors))
    return with_blocks(geometry, next(found))


def widths_of(geometry: ConvolutionGeometry, machine: Machine) -> range:
    """Return the numbers of vectors that a panel can have."""
    return range(1, _most_vectors(geometry, machine) + 1)


def choose_interleaved(
    geometry: ConvolutionGeometry, count: int, machine: Machine, terms: int = 1
) -> ContractionTile | None:
    """Return the best tile whose panels have equal shares for `count` matrix products.

    Args:
        geometry: of one product with the features of all of them.
        count: of the products.
        machine: that computes them.
        terms: that are multiplied at a time.

    Returns:
        None where there are no registers for a vector of each.
    """
    ranked = _ranked_tiles(geometry, machine, terms)
    return next((tile for tile in ranked if tile.vectors % count == 0), None)


def candidate_tiles(
    geometry: ConvolutionGeometry, machine: Machine, terms: int = 1
) -> list[ContractionTile]:
    """Return the tiles worth measuring for an op, that of `choose_tile` first.

    These are the ones that the model ranks highest, each with blocks as `choose_tile`
    makes them; and the first with blocks of half the size. None has larger blocks: one
    thread may be faster by them, but several could share the work less evenly.
    """
    ranked = _ranked_tiles(geometry, machine, terms)[:_MOST_CANDIDATES]
    tiles = [with_blocks(geometry, tile) for tile in ranked]
    first = tiles[0]
    if first.products == 1:
        tiles.append(replace(first, block=-(-first.block // 2)))
    return list(dict.fromkeys(tiles))


@lru_cache(maxsize=1024)
def _ranked_tiles(
    geometry: ConvolutionGeometry, machine: Machine, terms: int
) -> tuple[ContractionTile, ...]:
    """Return all tiles that fit the registers, those of fewest cycles first."""
    tiles = [
        ContractionTile(machine.lanes, vectors, rows, block=1, terms=terms)
        for vectors in widths_of(geometry, machine)
        for rows in _rows_to_try(geometry, vectors, machine, terms)
    ]
    return tuple(
        sorted(
            tiles,
            key=lambda tile: cycles(geometry, tile.rows, tile.vectors, machine, terms),
        )
    )


def with_blocks(
    geometry: ConvolutionGeometry, tile: ContractionTile
) -> ContractionTile:
    """Return the tile with the work of one workgroup chosen (`block`, `products`)."""
    tile = replace(tile, block=_choose_block(geometry, tile))
    return replace(tile, products=_choose_products(geometry, tile))


def block_count(geometry: ConvolutionGeometry, tile: ContractionTile) -> Size:
    """Return into how many workgroups the rows of a panel are split."""
    if geometry.is_product:
        return ceil_divide(geometry.rows, tile.rows * tile.block)
    return ceil_divide(geometry.lines, tile.block)


def are_panels_outer(geometry: ConvolutionGeometry, tile: ContractionTile) -> bool:
    """Return whether the loop over panels is outside of that over blocks of rows.

    Then a weight that does not stay in the caches is read once, and by one of the
    threads, while the rows stay there. Else all panels are used for a block of rows.
    """
    weight = element_count((geometry.depth, geometry.features, geometry.bytes))
    pixels = geometry.images, *geometry.size
    rows = element_count((*pixels, geometry.channels, geometry.bytes))
    if geometry.products != 1 or not tile.packed:
        return False
    if not isinstance(weight, int) or not isinstance(rows, int):
        return False
    return weight > KEPT_BYTES and 2 * rows <= KEPT_BYTES


def group_count(geometry: ConvolutionGeometry, tile: ContractionTile) -> Size:
    """Return into how many workgroups the products of a batch are split."""
    return ceil_divide(geometry.products, tile.products)


def row_counts(geometry: ConvolutionGeometry, tile: ContractionTile) -> list[int]:
    """Return the rows of smaller tiles, for calls whose rows do not split evenly.

    A call of n * (n - 1) rows or more, and of some fewer, is split into tiles of n rows
    and of n - 1. All tiles of another call have one number of rows: half of n, or as
    often half of that as there are not too few rows for.
    """
    least, _ = bounds(geometry.rows)
    found: list[int] = []
    count = tile.rows
    if least < count * (count - 1):
        while not found or count > max(1, least):
            count = -(-count // 2)
            found.append(count)
    return found


def _most_vectors(geometry: ConvolutionGeometry, machine: Machine) -> int:
    """Return the most vectors that a panel may have."""
    return min(_MOST_VECTORS, -(-geometry.group_features // machine.lanes))


def _rows_to_try(
    geometry: ConvolutionGeometry, vectors: int, machine: Machine, terms: int
) -> Iterator[int]:
    """Yield the rows per tile to try, rising: even splits whose sums fit the registers.

    Args:
        geometry: of the windows.
        vectors: of a row's sums.
        machine: that computes them.
        terms: of a sum that are multiplied at a time.
    """
    width, mma = _run_length(geometry), multiplier(geometry, machine, terms)
    spare = mma.spare + (vectors + 1 if mma.offset else 0)  # its sums, and its vector
    if widens(geometry, mma):
        most = most_rows(vectors, PART, machine, spare=max(1, spare))
    else:
        step = geometry.left_steps[0] * geometry.bytes // 4
        most = most_rows(vectors, step, machine, spare=spare)
    for rows in range(1, min(width, most) + 1):
        if max(split_evenly(width, rows)) == rows or rows == 1:
            yield rows


def most_rows(vectors: int, step: int, machine: Machine, *, spare: int = 0) -> int:
    """Return the most rows whose sums and operands fit the registers.

    Of the vectors and the rows' elements, the fewer are held, and one of the others.
    Rows that begin a multiple of a way of the first cache from each other share its
    lines: more of them than it has ways would displace one another.

    Args:
        vectors: of sums that each row has.
        step: elements from one row to the next, in memory.
        machine: that computes them.
        spare: registers for something else, such as what is widened.
    """
    aliased = 4 * step % machine.way_bytes == 0
    most = min(_MOST_ROWS, machine.ways) if aliased else _MOST_ROWS
    for rows in range(most, 1, -1):
        if rows * vectors + min(rows, vectors) + 1 + spare <= machine.registers:
            return rows
    return 1


def cycles(
    geometry: ConvolutionGeometry,
    rows: int,
    vectors: int,
    machine: Machine,
    terms: int = 1,
) -> float:
    """Return the modelled cycles of a contraction on one core, for a tile's size.

    What a tile reads again of a panel that is not in the first cache, and of the rows,
    adds to the time of its sums (`Machine.tile_cycles`); the weights were fitted to
    measurements of 34 shapes. Narrow elements take operations that widen them: of a
    panel in each step, of rows once in a tile. A step is that of as many terms as are
    multiplied at a time.
    """
    mma = multiplier(geometry, machine, terms)
    is_widened = bits(mma.factor) != bits(geometry.dtype)
    widening = _WIDENING[geometry.dtype] if is_widened else 0.0
    copied = 32 * machine.lanes // bits(mma.factor)  # elements of a vector
    is_copied = widens(geometry, mma)
    whole, rest = divmod(geometry.group_features, vectors * machine.lanes)
    panels = [(vectors, whole), (-(-rest // machine.lanes), int(rest > 0))]
    total = 0.0
    for width, count in panels:
        for _, size, times in split_groups(_run_length(geometry), rows):
            whole_rows = -(-size // mma.rows) * mma.rows
            busy = whole_rows * width * mma.operations + widening * width
            busy += width if mma.offset else 0
            if is_copied and terms > 1 and geometry.left_steps[1] != 1:
                busy += 2 * terms  # rows are loaded, brought together, and stored
            elif is_copied:  # of the rows: a vector is loaded, and stored
                busy += (2 + widening) * terms * size / copied
            steps = -(-geometry.depth // terms)
            total += times * count * machine.tile_cycles(steps, size, width, busy)
    panel_bytes = geometry.depth * vectors * machine.lanes * geometry.bytes
    reread = 0.0 if panel_bytes <= machine.first_cache // 2 else 0.1
    reread = reread if panel_bytes <= 0.6 * machine.second_cache else 0.3
    total *= static_size(geometry.products if geometry.is_product else geometry.lines)
    total *= geometry.groups
    return total * (with_reloads(rows, vectors) + reread / rows)


def with_reloads(rows: int, vectors: int) -> float:
    """Return the factor by which reloading operands lengthens a tile's cycles."""
    return 1 + 0.2 * (rows + vectors) / (rows * vectors)


def _choose_block(geometry: ConvolutionGeometry, tile: ContractionTile) -> int:
    """Return how many tiles of rows one workgroup computes."""
    tiles = _tile_count(geometry, tile.rows)
    panels = static_size(geometry.products) * tile.panels_of(geometry)
    is_cached = geometry.depth * geometry.features * geometry.bytes <= KEPT_BYTES
    wanted = -(-(_WORKGROUPS if is_cached else _FEWER_WORKGROUPS) // panels)
    worth = max(1, static_size(geometry.flops) // (grain.PRODUCT * panels))
    return -(-tiles // min(wanted, worth, tiles))


def _choose_products(geometry: ConvolutionGeometry, tile: ContractionTile) -> int:
    """Return how many products of a batch one workgroup computes."""
    products = static_size(geometry.products)
    panels = products * tile.panels_of(geometry)
    if block_count(geometry, tile) != 1:
        return 1
    worth = -(-grain.PRODUCT * panels // static_size(geometry.flops))
    return max(1, min(worth, panels // _WORKGROUPS, products))


def _run_length(geometry: ConvolutionGeometry) -> int:
    """Return how many contiguous result rows are split into tiles of rows."""
    return static_size(geometry.rows) if geometry.is_product else geometry.result[1]


def _tile_count(geometry: ConvolutionGeometry, rows: int) -> int:
    """Return how many units workgroups share: tiles of rows, or image lines."""
    if geometry.is_product:
        return len(split_evenly(static_size(geometry.rows), rows))
    return static_size(geometry.lines)
