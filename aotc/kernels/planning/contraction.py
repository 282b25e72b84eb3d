"""Plans of products and convolutions."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from aotc.dialects.graph import GraphOp
from aotc.dialects.ops.contraction import DotGeneral, free_axes, is_summed_in_parts
from aotc.dialects.sizes.contracts import Contract
from aotc.dialects.sizes.symbols import known_contracts
from aotc.dialects.types import Size, SymbolicDim, Tensor
from aotc.kernels import grain
from aotc.kernels.facts import bytes_of
from aotc.kernels.geometry import ConvolutionGeometry, geometry_of, known_geometry
from aotc.kernels.layout import windows_of_left
from aotc.kernels.machine import KEPT_BYTES, Machine
from aotc.kernels.packing import packed_shape
from aotc.kernels.planning import dequantized
from aotc.kernels.planning.caches import (
    choose_packed_in_calls,
    displaces_panels,
    gains_by_transposing,
    time_of,
)
from aotc.kernels.planning.joined import Joined, whole_geometry
from aotc.kernels.planning.prologue import is_computed, why_no_prologue
from aotc.kernels.planning.tile import (
    ContractionTile,
    are_panels_outer,
    block_count,
    candidate_tiles,
    choose_interleaved,
    choose_multiplier,
    choose_tile,
    cycles,
    group_count,
    multiplier,
    terms_at_a_time,
    widths_of,
    with_blocks,
)
from aotc.mlir import Function, Value

_MANY = 1 << 17  # bytes of panels that are worth fetching for few tiles
_FEW_TILES = 16  # of a panel
_SHORTEST = 8  # f32 of a vector, of those that may be shorter than the longest
_LEAST_SPLIT = 8  # rows at one distance, where not all are
_WORTH_PACKING = 16  # rows for which it pays to pack the right operand in each call
_WORTH_ADDING = 2  # bytes that are read, by those of products that are then added up
_WORTH_PAIRING = 32  # the same, where it could be read as it lies


def plan(op: GraphOp, machine: Machine) -> ContractionTile | None:
    """Return the tile for a convolution or a product by a weight; None if no kernel."""
    geometry = _geometry_in_reach(op, machine)
    if geometry is None:
        return None
    found = dequantized.plan(op, geometry, machine)
    if found is not None:
        return found
    if not _can_be_packed(geometry):
        return plan_unpacked(op, machine)
    return _choose_packed(geometry, _with_filled_vectors(machine, geometry))


def plan_unpacked(op: GraphOp, machine: Machine) -> ContractionTile | None:
    """Return the tile for a right operand that varies by call; None without a kernel.

    It is read as it lies if its columns are side by side, and what tiles of rows read
    again stays in the second cache. Packing it takes as long as some rows of the
    product, so it pays if there are more, and earlier where terms are multiplied one by
    one as it lies, or brought together by each tile of rows.
    """
    geometry = _geometry_in_reach(op, machine)
    if geometry is None:
        return None
    typical, machine = geometry.typical, _with_filled_vectors(machine, geometry)
    terms = terms_at_a_time(geometry, machine)
    can_be_read = geometry.right_step is not None and geometry.is_float
    lying = _plan_lying(geometry, machine, terms) if can_be_read else None
    is_slow = lying is not None and (
        terms > 1 or displaces_panels(typical, lying, machine)
    )
    least = _WORTH_PAIRING if is_slow else _WORTH_PACKING
    pays = _can_be_packed(geometry) and typical.rows >= least
    if lying and not (pays and is_slow):
        return lying
    return choose_packed_in_calls(typical, machine, terms) if pays else None


def _plan_lying(
    geometry: ConvolutionGeometry, machine: Machine, terms: int
) -> ContractionTile:
    """Return a tile for a right operand that is read in place, not packed.

    Terms that are multiplied at a time are brought together as they are loaded, where
    no run of them ends with fewer.
    """
    pairs = multiplier(geometry, machine, terms).rows == 1 and geometry.ends_with(terms)
    tile = choose_tile(geometry.typical, machine, terms if pairs else 1)
    return replace(tile, packed=0)


def factor_orders(
    op: DotGeneral, machine: Machine, numerics: str, *, by_weight: bool
) -> dict[int, tuple[int, ...]]:
    """Return {0: axis order} in which a product reads its left operand faster; else {}.

    Args:
        op: the product.
        machine: that computes it.
        numerics: what results may be.
        by_weight: whether the right operand is a weight.
    """
    geometry = _geometry_in_reach(op, machine)
    if geometry is None or windows_of_left(op) is not None:
        return {}
    if not gains_by_transposing(geometry, machine):
        return {}
    rank = Tensor.of(op.lhs).rank
    free = free_axes(rank, op.lhs_batch, op.lhs_contract)
    return {0: (*op.lhs_batch, *free, *op.lhs_contract)}


def numbers_products(op: DotGeneral, machine: Machine) -> bool:
    """Return whether a sum over images is better computed as one product per image.

    So is the gradient of the kernel of a convolution of few channels: its tiles read
    all images and what flows back, which do not stay in the second cache, again and
    again. One image does. The products are added up, so they are to be small beside
    what they are of.

    Args:
        op: a product; only one of windows over images is.
        machine: that computes it.
    """
    windows, axes = windows_of_left(op), (op.lhs_contract, op.rhs_contract)
    if windows is None or op.lhs_batch or any(len(x) < 2 or x[0] for x in axes):
        return False
    image, right, result = (bytes_of(value) for value in (windows.x, op.rhs, op.y))
    images = Tensor.of(op.rhs).shape[0]
    if isinstance(image, SymbolicDim) or isinstance(right, SymbolicDim):
        return False
    if isinstance(images, SymbolicDim) or isinstance(result, SymbolicDim):
        return False
    read = image + right
    return read > machine.second_cache and read >= _WORTH_ADDING * images * result


def plan_fetching(op: GraphOp, tile: ContractionTile) -> ContractionTile:
    """Return the tile with prefetching, for weights that come from main memory.

    A tile that is the only one of its packed panel then fetches what it reads some
    steps later. From a cache, it reads faster without.
    """
    geometry = known_geometry(op)
    if not tile.packed or tile.block > 1 or not _fetches(geometry, tile, KEPT_BYTES):
        return tile
    return replace(tile, ahead=1)


def _choose_packed(geometry: ConvolutionGeometry, machine: Machine) -> ContractionTile:
    """Return the tile for a packed right operand, with prefetching where it helps.

    Several tiles of a panel fetch the next panel into the first caches, wherever it is:
    one for each vector of a panel, or more, so that few of their steps are for that.
    Where many tiles share a panel, waiting for it counts little: they fetch only what
    comes from main memory.
    """
    terms = terms_at_a_time(geometry, machine)
    return _fetch_next(geometry, choose_tile(geometry.typical, machine, terms))


def _fetch_next(
    geometry: ConvolutionGeometry, tile: ContractionTile
) -> ContractionTile:
    """Return the tile, prefetching the next panel if several tiles share a panel."""
    least = _MANY if tile.block <= _FEW_TILES else KEPT_BYTES
    several = tile.block >= tile.vectors and tile.block > 1
    if several and _fetches(geometry, tile, least):
        return replace(tile, ahead=1)
    return tile


def plan_alike(
    ops: Sequence[GraphOp],
    tiles: Sequence[ContractionTile],
    contracts: Sequence[Sequence[Contract]],
    machine: Machine,
) -> list[ContractionTile]:
    """Return tiles of one panel width for products that share a weight's packing.

    The panels are those by which the products are slowed down least in all, each by
    what it takes with the tile of its own. A weight that comes from main memory takes
    as long as that, if its sums do not take longer.

    Args:
        ops: the products.
        tiles: of each by itself, packed.
        contracts: of the symbols of each.
        machine: that computes them.
    """
    kinds = {(tile.lanes, tile.terms) for tile in tiles}
    if len({tile.columns for tile in tiles}) == 1 or len(kinds) > 1:
        return [*tiles]
    ((lanes, terms),) = kinds
    machine = replace(machine, lanes=lanes)
    sizes = []
    for op, known in zip(ops, contracts, strict=True):
        with known_contracts(known):
            sizes.append(known_geometry(op).typical)

    def slowdown(vectors: int) -> float:
        return sum(
            time_of(size, choose_tile(size, machine, terms, vectors), machine)
            / time_of(size, own, machine)
            for size, own in zip(sizes, tiles, strict=True)
        )

    widths = [{*widths_of(size, machine)} for size in sizes]
    common = min(sorted(set.intersection(*widths)), key=slowdown)
    found = []
    for op, size, own, known in zip(ops, sizes, tiles, contracts, strict=True):
        with known_contracts(known):
            tile = choose_tile(size, machine, terms, common)
            found.append(own if own.vectors == common else _like(op, tile, own))
    return found


def _like(
    op: GraphOp, tile: ContractionTile, replaced: ContractionTile
) -> ContractionTile:
    """Return a re-planned tile with prefetching as the tile that it replaces has it."""
    tile = _fetch_next(known_geometry(op), tile)
    return plan_fetching(op, tile) if replaced.ahead else tile


def candidates(
    op: GraphOp, machine: Machine, planned: ContractionTile
) -> list[ContractionTile]:
    """Return the tiles worth measuring for a product, the planned one first."""
    geometry = known_geometry(op)
    machine = _with_filled_vectors(machine, geometry)
    if planned.dequantizes:
        return [planned, *([replace(planned, ahead=0)] if planned.ahead else [])]
    tiles = [planned]
    for tile in candidate_tiles(geometry.typical, machine, planned.terms):
        if not planned.packed:
            tiles.append(replace(tile, packed=0))
        elif planned.ahead and tile.block == 1 and _fetches(geometry, tile, KEPT_BYTES):
            tiles.append(replace(tile, ahead=1))
        else:
            tiles.append(_fetch_next(geometry, tile))
    if planned.ahead:
        tiles.append(replace(planned, ahead=0))
    return [*dict.fromkeys(tiles)]


def _fetches(geometry: ConvolutionGeometry, tile: ContractionTile, least: int) -> bool:
    """Return whether panels are read in order and hold at least `least` bytes."""
    if not geometry.is_product or tile.products != 1:
        return False
    if geometry.layout is not None and geometry.layout.splits_rows:
        return False
    if not isinstance(geometry.products, int):
        return False
    panels = geometry.products * tile.panels_of(geometry)
    return panels * tile.panel_size(geometry.depth) * geometry.bytes >= least


def _geometry_in_reach(op: GraphOp, machine: Machine) -> ConvolutionGeometry | None:
    """Return an op's geometry if a contraction kernel would be faster; else None."""
    geometry = geometry_of(op)
    if geometry is None or geometry.groups_together(machine.lanes) > 1:
        return None
    if geometry.is_float and geometry.is_narrow and geometry.groups > 1:
        return None
    if geometry.is_float and geometry.dtype not in machine.dtypes:
        return None
    if choose_multiplier(geometry, machine) is None:
        return None
    if isinstance(op, DotGeneral) and is_summed_in_parts(op):
        return None
    typical, layout = geometry.typical, geometry.layout
    if layout is not None and layout.splits_rows and typical.rows < _LEAST_SPLIT:
        return None
    is_small = typical.flops < grain.LEAST
    is_narrow = not machine.half_fills(geometry.group_features)
    gains = geometry.is_float and _has_windows(geometry)
    return None if is_small or (is_narrow and not gains) else geometry


def _has_windows(geometry: ConvolutionGeometry) -> bool:
    """Return whether a convolution's windows have more than one pixel."""
    return math.prod(geometry.window) > 1


def _with_filled_vectors(machine: Machine, geometry: ConvolutionGeometry) -> Machine:
    """Return the machine with shorter vectors, if full ones would stay half empty.

    Processors that have these add up two a cycle of the shorter ones as well.
    """
    lanes = machine.lanes
    while lanes > _SHORTEST and 2 * geometry.group_features <= lanes:
        lanes //= 2
    is_apt = geometry.dtype == "f32" and _has_windows(geometry)
    return replace(machine, lanes=lanes) if is_apt else machine


def _can_be_packed(geometry: ConvolutionGeometry) -> bool:
    """Return whether a right operand has the static sizes that packing needs.

    Integers have no other kernels, so they may also have one for all: floats of such
    rows are read as they lie.
    """
    layout = geometry.layout
    if layout is None:
        return True
    is_shared = layout.shares_right and not geometry.is_float
    return isinstance(layout.terms, int) and (is_shared or not layout.splits_rows)


def plan_joined(
    ops: Sequence[GraphOp],
    tiles: Sequence[ContractionTile],
    machine: Machine,
    *,
    interleaved: bool,
) -> ContractionTile | None:
    """Return the tile for products of one left operand in one kernel; None if none.

    Args:
        ops: the products, all by weights.
        tiles: the tile of each of them alone.
        machine: that computes them.
        interleaved: whether a panel has the same columns of all of them.

    Returns:
        The best of their own tiles, or of all that have columns of each in a panel;
        None where no panel can, or where one has too few columns to fill a vector.
    """
    geometries = [known_geometry(op) for op in ops]
    whole = whole_geometry(geometries)
    if any(tile.lanes != machine.lanes for tile in tiles):
        return None
    if tiles[0].dequantizes:
        tile = dequantized.plan_joined(
            ops[0], whole, tiles, machine, interleaved=interleaved
        )
    elif interleaved:
        tile = choose_interleaved(whole.typical, len(ops), machine, tiles[0].terms)
    else:
        tile = _best_for_all(geometries, tiles, machine)
    if tile is None:
        return None
    tile = with_blocks(whole.typical, replace(tile, block=1, products=1, ahead=0))
    if tile.block == 1 and any(each.block == 1 and each.ahead for each in tiles):
        tile = replace(tile, ahead=1)
    tile = _fetch_next(whole, tile)
    return replace(tile, interleaved=len(ops) if interleaved else 1)


def _best_for_all(
    geometries: Sequence[ConvolutionGeometry],
    tiles: Sequence[ContractionTile],
    machine: Machine,
) -> ContractionTile:
    """Return the tile with the fewest modelled cycles in all for some products."""
    typical = [geometry.typical for geometry in geometries]

    def cycles_of_all(tile: ContractionTile) -> float:
        return sum(
            cycles(each, tile.rows, tile.vectors, machine, tile.terms)
            for each in typical
        )

    return min(tiles, key=cycles_of_all)


def workgroups(op: GraphOp, tile: ContractionTile) -> tuple[Size, Size]:
    """Return the numbers of workgroups: panels and blocks of rows, outer ones last.

    Args:
        op: the product in the function of a region.
        tile: of the region.
    """
    joined = Joined.of(op, tile)
    geometry, panels = joined.whole, joined.panels
    blocks = group_count(geometry, tile) * block_count(geometry, tile)
    return (blocks, panels) if are_panels_outer(geometry, tile) else (panels, blocks)


def column_axes(op: GraphOp) -> int:
    """Return how many of the result's last axes belong to the right operand."""
    if not isinstance(op, DotGeneral):
        return 1
    return Tensor.of(op.rhs).rank - len(op.rhs_batch) - len(op.rhs_contract)


def second_columns(op: GraphOp, tile: ContractionTile) -> range | None:
    """Return the column axes of the right operand; None unless a prologue may make it.

    Vectors of them are then computed of what lies in memory; of several terms that are
    multiplied at a time there are none.
    """
    if not isinstance(op, DotGeneral) or op.rhs_batch or tile.terms > 1:
        return None
    rank = Tensor.of(op.rhs).rank
    columns = range(len(op.rhs_contract), rank)
    free = free_axes(rank, op.rhs_batch, op.rhs_contract)
    return columns if [*free] == [*columns] else None


def views(op: GraphOp) -> Mapping[Value, Value]:
    """Map each operand that the kernel reads through a view op to its source.

    Windows over an image are read from it, dequantised rows as integers, and rows by a
    dequantised weight as the bf16 that they are.
    """
    windows = windows_of_left(op) if isinstance(op, DotGeneral) else None
    return dequantized.views(op) if windows is None else {windows.y: windows.x}


def cycles_of(
    op: GraphOp,
    tile: ContractionTile,
    machine: Machine,
    number_of: Callable[[Size], int],
) -> int:
    """Return the modelled cycles of a region's products on one core."""
    static = (each.with_sizes(number_of) for each in Joined.of(op, tile).geometries)
    return sum(
        round(cycles(each, tile.rows, tile.vectors, machine, tile.terms))
        for each in static
    )


def _why_not_made(anchor: GraphOp, right: Value, joined: Joined) -> str:
    """Return why a kernel cannot compute a product's right operand; "" if it can."""
    tile = joined.tile
    if tile.dequantizes:
        return dequantized.why_misread(anchor, tile, joined.panels)
    return why_no_prologue(anchor, right, is_packed=bool(tile.packed))


def why_misread(function: Function, anchor: GraphOp, tile: ContractionTile) -> str:
    """Return why a product's kernel would misread its region's arguments; "" if not."""
    left, right = list(function.entry_block.arguments)[:2]
    joined = Joined.of(anchor, tile)
    first, *_ = joined.anchors
    for anchor in joined.anchors:
        through = views(anchor)
        lhs, rhs = (through.get(value, value) for value in anchor.operands)
        if lhs != left:
            return "expected its first argument to be the left operand of its product"
        if tile.dequantizes or is_computed(anchor):
            if why := _why_not_made(anchor, right, joined):
                return why
        elif not tile.packed and rhs not in (left, right):
            return "expected its second argument to be the right operand of its product"
    expected = Tensor.of(first.operands[1]).shape
    if tile.packed and len(joined.anchors) == 1:
        expected = packed_shape(first, tile)
    elif tile.packed:
        own = packed_shape(first, tile.own)
        rank = len(own) - (3 if tile.terms == 1 else 4)
        _, steps, _, *pairs = own[rank:]
        expected = (*own[:rank], joined.panels, steps, tile.columns, *pairs)
    found = Tensor.of(right).shape
    if found == expected:
        return ""
    return f"expected a right operand of the shape {expected}; got {found}"
