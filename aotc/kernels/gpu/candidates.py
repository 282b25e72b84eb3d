"""The schedules of GPU kernels that are worth a measurement, for each form of terms."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

from aotc.kernels.gpu import matrices, products
from aotc.kernels.gpu.attention import GpuAttentionTile
from aotc.kernels.gpu.machines import Gpu
from aotc.kernels.gpu.rows import ReduceTile
from aotc.kernels.terms import Term

MOST = 28  # of a kernel
_PER_TILE = 2  # of a product with tiles of the same rows and columns
_FEW, _MANY = 1 << 8, 1 << 13  # elements of a tile of rows


def candidates(term: Term, form: str, machine: Gpu, planned: object) -> Sequence[Any]:
    """Return the schedules to measure for a term's GPU kernel, the planned one first.

    Args:
        term: of a region.
        form: of the kernel, a key of `FORMS`.
        machine: the chip.
        planned: the schedule that the model of the chip chooses.
    """
    found = _of_form(term, form, machine)
    return [planned, *(each for each in found if each != planned)][:MOST]


def _of_form(term: Term, form: str, machine: Gpu) -> Sequence[Any]:
    """Return the schedules to try for a form of kernels; none for most forms."""
    if form == "product":
        return _of_product(term, machine)
    if form == "rows":
        sizes = product((1, 2, 4, 8, 16, 32, 64), (32, 128, 512, 1024, 4096), (4, 8))
        tiles = (ReduceTile(*each) for each in sizes)
        return [tile for tile in tiles if _FEW <= tile.rows * tile.columns <= _MANY]
    if form == "attention":
        steps = product((16, 32, 64, 128), (32, 64, 128), (4, 8), (2, 3))
        return [GpuAttentionTile(*each) for each in steps]
    return []


def _of_product(term: Term, machine: Gpu) -> list[Any]:
    """Return the schedules to try for a product, those of least modelled time first."""
    anchor = products.groups_of(term)[0].anchor
    counts, dtype = matrices.Counts.of(anchor), matrices.factor_dtype(anchor)
    found = sorted(
        matrices.candidates(counts, dtype, machine),
        key=lambda tile: matrices.nanoseconds(tile, counts, dtype, machine),
    )
    by_tile: dict[tuple[int, int], list[Any]] = {}
    for each in found:
        some = by_tile.setdefault((each.rows, each.columns), [])
        if len(some) < _PER_TILE:
            some.append(each)
    return [each for some in by_tile.values() for each in some]
