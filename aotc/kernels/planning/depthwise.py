"""Plans of windows over images by groups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from aotc.dialects.graph import GraphOp
from aotc.dialects.ops.padding import Pad
from aotc.dialects.patterns.values import made_by
from aotc.dialects.types import Size, Tensor, ceil_divide
from aotc.kernels import grain
from aotc.kernels.elementwise import NARROW
from aotc.kernels.geometry import ConvolutionGeometry, geometry_of, known_geometry
from aotc.kernels.machine import Machine
from aotc.kernels.planning.tile import split_evenly
from aotc.kernels.schedule import Schedule
from aotc.mlir import Value

_MOST_ROWS = 7  # sums of a tile, which leave half of AVX2's registers to the weights
_ROWS_TO_TRY = (3, 5, 7, 10, 14)  # at most, when schedules are measured
_MOST_UNROLLED = 32  # positions of a window, or of a line of it, that are written out
_MOST_PRODUCTS = 128  # of a sum, in a line of a window
MOST_OF_BYTES = 121  # products of a sum of bytes, all of which are written out
_FEW_PRODUCTS = 9  # of a sum of bytes
_WORD = 4  # bytes of a word, each of a line


@dataclass(frozen=True)
class Sweep(Schedule):
    """The schedule of a depthwise convolution or pooling.

    Args:
        lanes: elements of a vector.
        rows: results beside each other that a tile has, at most.
        is_unrolled: whether all lines of the window are written out; else it is a loop.
        vectors: of channels, that a workgroup computes.
        block: lines of results that a workgroup computes.
        terms: lines of a window over bytes that are multiplied at a time.
    """

    lanes: int
    rows: int
    is_unrolled: int
    vectors: int
    block: int
    terms: int = 1

    phrases = {"terms": "{} lines of windows together"}

    def workgroups(self, geometry: ConvolutionGeometry) -> tuple[Size, Size]:
        """Return the numbers of workgroups: blocks of channels, and of lines."""
        needed = ceil_divide(geometry.groups, geometry.groups_together(self.lanes))
        lines = ceil_divide(geometry.lines, self.block)
        return ceil_divide(needed, self.vectors), lines


def plan(op: GraphOp, machine: Machine) -> Sweep | None:
    """Return the schedule of windows over channels or groups; None without a kernel."""
    geometry = geometry_of(op)
    if geometry is None:
        return None
    if not (_has_floats(geometry, machine) or _has_bytes(geometry)):
        return None
    typical = geometry.typical
    if typical.flops < grain.LEAST or not machine.half_fills(geometry.features):
        return None
    if geometry.groups_together(machine.lanes) < 2 or not _is_short(geometry):
        return None
    if not geometry.is_float:
        return _choose_for_bytes(typical, machine)
    return choose_sweep(typical, machine)


def _choose_for_bytes(geometry: ConvolutionGeometry, machine: Machine) -> Sweep:
    """Return the schedule of a depthwise convolution of bytes.

    Weights of u8, which exporters do not write for convolutions, are multiplied as f32.
    """
    known = machine.multipliers_of(geometry.dtype, geometry.right_dtype)
    has_words = any(mma.terms == _WORD and mma.adds for mma in known)
    terms = _WORD if has_words and geometry.right_dtype == "i8" else 1
    has_room = terms > 1 and machine.registers >= 3 * _MOST_ROWS
    is_small = geometry.depth <= _FEW_PRODUCTS  # larger ones would be much code
    most = 2 * _MOST_ROWS if has_room and is_small else _MOST_ROWS
    rows = max(split_evenly(geometry.result[1], most))
    sweep = choose_sweep(geometry, machine)
    return replace(sweep, rows=rows, is_unrolled=1, terms=terms)


def _has_floats(geometry: ConvolutionGeometry, machine: Machine) -> bool:
    """Return whether elements are floats that the machine's kernels can load."""
    return geometry.is_float and geometry.dtype in machine.dtypes


def _has_bytes(geometry: ConvolutionGeometry) -> bool:
    """Return whether an op is a depthwise convolution of bytes with small windows."""
    dtypes = geometry.dtype in NARROW and geometry.right_dtype in NARROW
    is_alone = geometry.channels == geometry.groups == geometry.features
    return dtypes and is_alone and geometry.depth <= MOST_OF_BYTES


@dataclass(frozen=True)
class Image:
    """An image in memory that a depthwise kernel reads, with its padding value.

    Args:
        source: what lies in memory.
        geometry: of it, and of the windows.
        fill: the number around it.
    """

    source: Value
    geometry: ConvolutionGeometry
    fill: int = 0


def image_of(op: GraphOp) -> Image:
    """Return the image that an op reads, before a pad op that adds its margin.

    Convolutions of quantised images have a margin of zero points.
    """
    geometry, x = known_geometry(op), op.operands[0]
    margin = None if geometry.is_float else made_by(x, Pad)
    if margin is None or not _is_around(margin) or any(geometry.padding):
        return Image(x, geometry)
    inner = Tensor.of(margin.x).shape[1:-1]
    missing = (1,) * (2 - len(inner))
    size: Any = (*missing, *inner)
    padding: Any = (*(0,) * len(missing), *margin.low[1:-1])
    geometry = replace(geometry, size=size, padding=padding)
    return Image(margin.x, geometry, int(margin.value))


def _is_around(op: Pad) -> bool:
    """Return whether a pad op adds static spatial margins only."""
    if 0 in Tensor.of(op.x).shape:
        return False
    margins = zip(op.low, op.high, strict=True)
    first, *spatial, last = ([*each] for each in margins)
    sizes = [n for each in spatial for n in each]
    is_static = all(isinstance(n, int) and n >= 0 for n in sizes)
    return is_static and not any((*first, *last, *op.interior))


def views(op: GraphOp) -> Mapping[Value, Value]:
    """Map the padded image of bytes to its source, if the kernel pads it; else {}."""
    if geometry_of(op) is None:
        return {}
    source, x = image_of(op).source, op.operands[0]
    return {} if source == x else {x: source}


def computed_operands(op: GraphOp) -> list[Value]:
    """Return the operand that a prologue may compute: the image, if of floats."""
    geometry = geometry_of(op)
    return [op.operands[0]] if geometry is not None and geometry.is_float else []


def _is_short(geometry: ConvolutionGeometry) -> bool:
    """Return whether a line of a window is short enough to be unrolled."""
    positions = geometry.window[1]
    products = positions * geometry.group_channels
    return positions <= _MOST_UNROLLED and products <= _MOST_PRODUCTS


def workgroups(op: GraphOp, sweep: Sweep) -> tuple[Size, Size]:
    """Return the numbers of workgroups: parts of the channels, and blocks of lines."""
    return sweep.workgroups(known_geometry(op))


def choose_sweep(geometry: ConvolutionGeometry, machine: Machine) -> Sweep:
    """Choose the schedule of windows over images for a machine.

    Args:
        geometry: of static sizes, see `ConvolutionGeometry.typical`.
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
    """Return the schedules worth measuring for an op, the planned one first."""
    geometry = known_geometry(op)
    fitting = [most for most in _ROWS_TO_TRY if 2 * most < machine.registers]
    rows = [max(split_evenly(geometry.result[1], most)) for most in fitting]
    sweeps = [planned, *(replace(planned, rows=count) for count in rows)]
    sweeps.append(replace(planned, vectors=-(-planned.vectors // 2)))
    if geometry.is_float:
        sweeps.append(replace(planned, is_unrolled=0))
    return [*dict.fromkeys(sweeps)]
