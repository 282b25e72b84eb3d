"""Plans of chains: the number of lines at a time, and the tiles of each stage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from aotc.dialects.graph import GraphOp
from aotc.dialects.ops.convolution import ConvGeneral
from aotc.dialects.types import Size, Tensor
from aotc.kernels.geometry import ConvolutionGeometry, geometry_by_lines
from aotc.kernels.machine import Machine
from aotc.kernels.packing import packed_shape
from aotc.kernels.planning import depthwise
from aotc.kernels.planning.depthwise import Sweep
from aotc.kernels.planning.stages import ChainStages, stages_of
from aotc.kernels.planning.tile import ContractionTile, choose_tile, split_evenly
from aotc.kernels.schedule import Schedule
from aotc.mlir import Function, Value

_BYTES = 4  # of an element
_LEAST = 1 << 19  # bytes between stages that are worth keeping in a cache


@dataclass(frozen=True)
class ChainSchedule(Schedule):
    """The schedule of a chain of convolutions; fields of a missing stage are 0.

    Args:
        lanes: elements of a vector.
        lines: of the result, at most, that all stages compute before the next lines.
        expand_rows: at most, of a tile of the first stage.
        expand_vectors: that the columns of its panels make.
        rows: results beside each other that a tile of the windows has, at most.
        is_unrolled: whether all lines of the window are written out.
        project_rows: at most, of a tile of the last stage.
        project_vectors: that the columns of its panels make.
    """

    lanes: int
    lines: int
    expand_rows: int
    expand_vectors: int
    rows: int
    is_unrolled: int
    project_rows: int
    project_vectors: int

    @property
    def expand(self) -> ContractionTile | None:
        """The tile of the first convolution, its weight not packed; None if absent."""
        if not self.expand_rows:
            return None
        return ContractionTile(
            self.lanes, self.expand_vectors, self.expand_rows, 1, packed=0
        )

    @property
    def project(self) -> ContractionTile | None:
        """The tile of the last convolution, its weight packed; None if absent."""
        if not self.project_rows:
            return None
        return ContractionTile(
            self.lanes, self.project_vectors, self.project_rows, block=1
        )

    def sweep(self, geometry: ConvolutionGeometry) -> Sweep:
        """Return the schedule of the depthwise stage, all channels in one tile."""
        vectors = -(-geometry.groups // self.lanes)
        return Sweep(self.lanes, self.rows, self.is_unrolled, vectors, self.lines)


@dataclass(frozen=True)
class LineBuffers:
    """The sizes of the line buffers between a chain's stages, in elements.

    Args:
        span: lines of the image that a window sees.
        overlap: of them, those that the windows of the next line of results see, too.
        line: of a line of the image.
        expanded: of all lines of it; 0 if it is read where it lies.
        result: of the lines of results that the last stage reads; 0 if there is none.
    """

    span: int
    overlap: int
    line: int
    expanded: int
    result: int

    @classmethod
    def of(cls, stages: ChainStages, schedule: ChainSchedule) -> LineBuffers:
        """Return the sizes of a chain's line buffers under a schedule."""
        shape = geometry_of_stage(stages.depthwise)
        span = (shape.window[0] - 1) * shape.dilation[0] + 1
        windows = (schedule.lines - 1) * shape.strides[0] + span
        line = shape.size[1] * shape.channels
        result = schedule.lines * shape.result[1] * shape.features
        return cls(
            span=span,
            overlap=max(0, span - shape.strides[0]),
            line=line,
            expanded=_buffer_size(windows * line, schedule) if stages.expand else 0,
            result=_buffer_size(result, schedule) if stages.project else 0,
        )

    @property
    def elements(self) -> int:
        """The number of elements of both buffers together."""
        return self.expanded + self.result


def _buffer_size(elements: int, schedule: ChainSchedule) -> int:
    """Return a buffer's size, padded for vector moves that read past its end."""
    return (-(-elements // schedule.lanes) + 1) * schedule.lanes


def geometry_of_stage(op: ConvGeneral) -> ConvolutionGeometry:
    """Return a stage's geometry as windows over image lines, asserting there is one."""
    found = geometry_by_lines(op)
    assert found is not None
    return found


def plan(op: GraphOp, machine: Machine) -> ChainSchedule | None:
    """Return the schedule of a chain of convolutions that an op ends; None if none."""
    stages = stages_of(op)
    if stages is None or not depthwise.plan(stages.depthwise, machine):
        return None
    geometries = [geometry_by_lines(each) for each in stages.ops]
    known = [x.typical for x in geometries if x is not None]
    if len(known) < len(geometries) or not _have_kernels(known, machine):
        return None
    if not _pays(stages, known, machine):
        return None
    return _with_lines(stages, _tiles(stages, machine), machine)


def _have_kernels(geometries: Sequence[ConvolutionGeometry], machine: Machine) -> bool:
    """Return whether each stage's dtype, features and lines allow a chain's kernel."""
    return all(
        each.dtype == "f32"
        and machine.half_fills(each.features)
        and min(each.result) >= 2
        for each in geometries
    )


def _pays(
    stages: ChainStages, geometries: Sequence[ConvolutionGeometry], machine: Machine
) -> bool:
    """Return whether a chain in one kernel is faster than its stages as own kernels.

    That is where what it keeps in a cache would be written and read by memory that is
    further away, and where the weights, which each share reads once for some lines, are
    few beside that.
    """
    weights = sum(_BYTES * each.depth * each.features for each in geometries)
    images = geometries[0].images
    assert isinstance(images, int)
    kept = _BYTES * _kept_elements(stages)
    least = min(_LEAST, machine.second_cache // 2)
    return images * kept >= least and 4 * weights <= kept


def _tiles(stages: ChainStages, machine: Machine) -> ChainSchedule:
    """Return a chain's schedule of one line with each stage's fastest register tile."""
    windows = depthwise.plan(stages.depthwise, machine)
    assert windows is not None
    first, last = (
        choose_tile(geometry_of_stage(op).typical, machine) if op else None
        for op in (stages.expand, stages.project)
    )
    return ChainSchedule(
        lanes=machine.lanes,
        lines=1,
        expand_rows=first.rows if first else 0,
        expand_vectors=first.vectors if first else 0,
        rows=windows.rows,
        is_unrolled=windows.is_unrolled,
        project_rows=last.rows if last else 0,
        project_vectors=last.vectors if last else 0,
    )


def _kept_elements(stages: ChainStages) -> int:
    """Return how many elements of one image lie between the stages."""
    shape = geometry_of_stage(stages.depthwise)
    image = shape.size[0] * shape.size[1] * shape.channels if stages.expand else 0
    result = shape.result[0] * shape.result[1] * shape.features
    return image + (result if stages.project else 0)


def _with_lines(
    stages: ChainStages, schedule: ChainSchedule, machine: Machine
) -> ChainSchedule | None:
    """Return the schedule with the most lines whose buffers fit half of L2, or None."""
    total = geometry_of_stage(stages.depthwise).result[0]
    for most in range(total, 0, -1):
        found = replace(schedule, lines=max(split_evenly(total, most)))
        if _BYTES * LineBuffers.of(stages, found).elements <= machine.second_cache // 2:
            return found
    return None


def candidates(
    op: GraphOp, machine: Machine, planned: ChainSchedule
) -> list[ChainSchedule]:
    """Return the schedules worth measuring for a chain, the planned one first."""
    fewer = replace(planned, lines=-(-planned.lines // 2))
    return [*dict.fromkeys([planned, fewer])]


def ops_before(op: GraphOp) -> Sequence[GraphOp]:
    """Return the ops of a chain before its last stage, in order."""
    stages = stages_of(op)
    return () if stages is None else stages.before


def workgroups(op: GraphOp, schedule: ChainSchedule) -> tuple[Size, Size]:
    """Return the numbers of workgroups of a chain: 1, and one for each result line."""
    assert isinstance(op, ConvGeneral)
    return 1, geometry_of_stage(op).lines


def scratch_elements(op: GraphOp, schedule: ChainSchedule) -> int:
    """Return the f32 scratch elements that each share of a chain's workgroups takes."""
    stages = stages_of(op)
    assert stages is not None
    return LineBuffers.of(stages, schedule).elements


def why_misread(function: Function, anchor: GraphOp, schedule: ChainSchedule) -> str:
    """Return why a chain's kernel would misread its region's arguments; "" if not.

    Its kernel reads the weight of the last stage, packed, where the first argument is,
    and the image and the other weights where the arguments are that its stages name.
    """
    stages, tile = stages_of(anchor), schedule.project
    arguments = list(function.entry_block.arguments)
    assert stages is not None  # or it would have no schedule
    first = stages.expand or stages.depthwise
    read: list[Value] = [first.x, first.kernel, stages.depthwise.kernel]
    if tile is not None:
        packed, *arguments = arguments
        expected = packed_shape(anchor, tile)
        if Tensor.of(packed).shape != expected:
            found = Tensor.of(packed).shape
            return f"expected a weight of the shape {expected} first; got {found}"
    if all(value in arguments for value in read):
        return ""
    return "expected its stages to read its arguments"
