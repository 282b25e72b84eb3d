"""Which windows over images by groups have a kernel, and how they are cut up."""

from __future__ import annotations

from dataclasses import dataclass, replace

from aotc.dialects.graph import GraphOp
from aotc.dialects.types import Size, ceil_divide
from aotc.kernels import grain
from aotc.kernels.geometry import Geometry, geometry_of, known_geometry
from aotc.kernels.machine import Machine
from aotc.kernels.planning.tile import split_evenly
from aotc.kernels.schedule import Schedule

_MOST_ROWS = 7  # sums of a tile, which leave half of AVX2's registers to the weights
_ROWS_TO_TRY = (3, 5, 7, 10, 14)  # at most, when schedules are measured
_MOST_UNROLLED = 32  # positions of a window, or of a line of it, that are written out
_MOST_PRODUCTS = 128  # of a sum, in a line of a window


@dataclass(frozen=True)
class Sweep(Schedule):
    """How the work is cut up.

    Args:
        lanes: elements of a vector.
        rows: results beside each other that a tile has, at most.
        is_unrolled: whether all lines of the window are written out; else it is a loop.
        vectors: of channels, that a workgroup computes.
        block: lines of results that a workgroup computes.
    """

    lanes: int
    rows: int
    is_unrolled: int
    vectors: int
    block: int

    def workgroups(self, geometry: Geometry) -> tuple[Size, Size]:
        """How many there are, along channels and lines."""
        needed = ceil_divide(geometry.groups, geometry.groups_together(self.lanes))
        lines = ceil_divide(geometry.lines, self.block)
        return ceil_divide(needed, self.vectors), lines


def plan(op: GraphOp, machine: Machine) -> Sweep | None:
    """How an op is cut up; None where there is no kernel for it."""
    geometry = geometry_of(op)
    if geometry is None or geometry.dtype not in machine.dtypes:
        return None
    typical = geometry.typical
    if typical.flops < grain.LEAST or not machine.half_fills(geometry.features):
        return None
    if geometry.groups_together(machine.lanes) < 2 or not _is_short(geometry):
        return None
    return choose_sweep(typical, machine)


def _is_short(geometry: Geometry) -> bool:
    """Whether a line of a window is short enough to be written out."""
    positions = geometry.window[1]
    products = positions * geometry.group_channels
    return positions <= _MOST_UNROLLED and products <= _MOST_PRODUCTS


def workgroups(op: GraphOp, sweep: Sweep) -> tuple[Size, Size]:
    """How many there are: parts of the channels, and blocks of lines."""
    return sweep.workgroups(known_geometry(op))


def choose_sweep(geometry: Geometry, machine: Machine) -> Sweep:
    """How windows over images are cut up for a machine.

    Args:
        geometry: of static sizes, see `Geometry.typical`.
        machine: that computes it.
    """
    total, flops = geometry.lines, geometry.flops
    assert isinstance(total, int)
    assert isinstance(flops, int)
    products = geometry.depth  # of a sum
    vectors = -(-geometry.groups // geometry.groups_together(machine.lanes))
    line = flops // total
    if line > grain.LINE_OF_WINDOWS:
        vectors = max(
            split_evenly(vectors, -(-grain.LINE_OF_WINDOWS * vectors // line))
        )
    block = min(total, -(-grain.WINDOWS // line))
    return Sweep(
        lanes=machine.lanes,
        rows=max(split_evenly(geometry.result[1], _MOST_ROWS)),
        is_unrolled=int(products <= _MOST_UNROLLED),
        vectors=vectors,
        block=max(split_evenly(total, block)),
    )


def candidates(op: GraphOp, machine: Machine, planned: Sweep) -> list[Sweep]:
    """The ways to cut up that may be better than the planned one, which comes first."""
    geometry = known_geometry(op)
    fitting = [most for most in _ROWS_TO_TRY if 2 * most < machine.registers]
    rows = [max(split_evenly(geometry.result[1], most)) for most in fitting]
    sweeps = [planned, *(replace(planned, rows=count) for count in rows)]
    sweeps.append(replace(planned, vectors=-(-planned.vectors // 2)))
    sweeps.append(replace(planned, is_unrolled=0))
    return [*dict.fromkeys(sweeps)]
