"""Decide which operands that change are copied into the order in which they are read.

A tile of rows reads a panel of the right operand again, and a panel all rows of the
left one. Operands that change from call to call lie as whoever made them has left them.
If the lines that are read again do not stay in a cache, a copy in the order in which
they are read costs less than they do.
"""

from __future__ import annotations

from aotc.kernels.geometry import ConvolutionGeometry
from aotc.kernels.machine import KEPT_BYTES, LINE_BYTES, Machine
from aotc.kernels.planning.tile import (
    ContractionTile,
    choose_tile,
    cycles,
    terms_at_a_time,
    widths_of,
)

_FULL_PANELS = 1.1  # by what a product may take longer whose panels are all full
_WORTH_TRANSPOSING = 256  # columns for which it pays to transpose the left operand
_FEW_COLUMNS = 64  # the same, where its lines do not stay in the second cache


def time_of(
    geometry: ConvolutionGeometry, tile: ContractionTile, machine: Machine
) -> float:
    """Return a product's modelled cycles: for its sums, or for reading its weight."""
    weight = geometry.depth * geometry.features * geometry.bytes
    reading = weight / machine.memory_bytes if weight > KEPT_BYTES else 0.0
    sums = cycles(geometry, tile.rows, tile.vectors, machine, tile.terms)
    return max(sums, reading)


def displaces_panels(
    geometry: ConvolutionGeometry, tile: ContractionTile, machine: Machine
) -> bool:
    """Return whether a panel of a right operand read in place misses the L2 cache.

    Args:
        geometry: of static sizes, whose right operand has rows.
        tile: that reads it.
        machine: that computes it.
    """
    assert geometry.right_step is not None
    apart = _shared_bytes(geometry.right_step * geometry.bytes)
    row = max(apart, tile.columns * geometry.bytes)
    return geometry.depth * row > machine.second_cache


def _shared_bytes(distance: int) -> int:
    """Return the largest power of two that divides a distance in bytes.

    Lines so far apart share the places of a cache: each takes as much of it as that.
    """
    return distance & -distance


def gains_by_transposing(geometry: ConvolutionGeometry, machine: Machine) -> bool:
    """Return whether transposing the left operand in each call makes a product faster.

    Where its rows lie side by side, and not the terms of a sum, each step of a tile
    reads another line, of which it needs a few elements. A transpose takes as long as
    some columns of the product.

    Args:
        geometry: of the product.
        machine: that computes it.
    """
    layout, distance = geometry.layout, geometry.left_steps[1] * geometry.bytes
    if layout is None or not isinstance(layout.terms, int):
        return False
    if geometry.is_narrow and terms_at_a_time(geometry, machine) == 1:
        return False
    if layout.splits_rows or distance < LINE_BYTES:
        return False
    lines = geometry.depth * max(LINE_BYTES, _shared_bytes(distance))
    is_displaced = lines > machine.second_cache
    least = _FEW_COLUMNS if is_displaced else _WORTH_TRANSPOSING
    return lines > machine.first_cache and geometry.features >= least


def choose_packed_in_calls(
    geometry: ConvolutionGeometry, machine: Machine, terms: int
) -> ContractionTile:
    """Return the tile for a product whose right operand is packed in each call.

    Panels that are all full are packed by one transpose; others are padded before,
    which takes as long again.
    """
    best = choose_tile(geometry, machine, terms)
    if geometry.features % best.columns == 0:
        return best

    def time(tile: ContractionTile) -> float:
        return time_of(geometry, tile, machine)

    full = (
        choose_tile(geometry, machine, terms, vectors)
        for vectors in widths_of(geometry, machine)
        if geometry.features % (vectors * machine.lanes) == 0
    )
    found = min(full, key=time, default=best)
    return found if time(found) <= _FULL_PANELS * time(best) else best
