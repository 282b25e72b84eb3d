"""Convolutions one after the other, some lines at a time, which stay in a cache.

The block of MobileNetV2 and EfficientNet: pixels times a weight make many channels, a
window goes over each of them, and the pixels of that times a weight make few (Sandler
et al., "MobileNetV2: Inverted Residuals and Linear Bottlenecks", CVPR 2018). Where such
networks begin, the first weight is one of windows.

What lies between is several times as large as what goes in and comes out, and too large
for the caches of a core. So a share of the lines of the result is gone through a few at
a time: the first stage makes the lines of the image that their windows see, and the
others follow before these leave the second cache. Lines that the next windows see as
well are moved to the front. A share computes those itself that lie before its first
ones, which is why there are only as many shares as threads.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from aotc.dialects.lowering.scalars import int_compare
from aotc.dialects.ops.convolution import ConvGeneral
from aotc.kernels.cpu import depthwise, loops, vectors
from aotc.kernels.cpu.arguments import KernelArguments
from aotc.kernels.cpu.contraction import Contraction
from aotc.kernels.cpu.contraction.sums import ProductOffsets, Sums
from aotc.kernels.cpu.depthwise import WindowWriter
from aotc.kernels.cpu.epilogue import Epilogue
from aotc.kernels.cpu.vectors import add, index, scale
from aotc.kernels.cpu.walks import index_maximum, index_minimum
from aotc.kernels.planning.chain import ChainSchedule, LineBuffers, geometry_of_stage
from aotc.kernels.planning.joined import Joined
from aotc.kernels.planning.stages import ChainStages, stages_of
from aotc.kernels.planning.tile import ContractionTile
from aotc.mlir import Function, Value, arith


def write(
    function: Function,
    anchor: ConvGeneral,
    schedule: ChainSchedule,
    arguments: KernelArguments,
) -> None:
    """Emit the body of a convolution chain's kernel, for a run of result lines."""
    stages = stages_of(anchor)
    assert stages is not None
    buffers = LineBuffers.of(stages, schedule)
    chain = _Chain(function, stages, schedule, arguments, buffers)
    chain.write(*arguments.workgroup)


@dataclass(frozen=True)
class _LineRange:
    """A range of result lines of one image, computed by all stages together.

    Args:
        first: of them, among those of all images.
        last: the one after them.
        image: that they are of.
        low: the first line that their windows see, among those of all images; it may
            be padding.
        is_first: whether it is the first of its image in this share, so that nothing
            that its windows see is in the buffer yet.
    """

    first: Value
    last: Value
    image: Value
    low: Value
    is_first: Value


@dataclass(frozen=True)
class _Chain:
    """An emitter of a chain of convolutions, a few lines at a time.

    Args:
        function: the region.
        stages: of it.
        schedule: how it is cut up.
        given: the arguments of the kernel.
        buffers: of the lines between the stages.
    """

    function: Function
    stages: ChainStages
    schedule: ChainSchedule
    given: KernelArguments
    buffers: LineBuffers

    def write(self, first: Value, last: Value) -> None:
        """Emit a share's work: result lines from `first` to before `last`."""
        shape = geometry_of_stage(self.stages.depthwise)
        height = index(shape.result[0])

        def write_image(image: Value) -> None:
            start = arith.muli(image, height)
            begin, end = (
                index_maximum(start, first),
                index_minimum(add(start, shape.result[0]), last),
            )

            def write_lines(line: Value) -> None:
                inner = scale(arith.subi(line, start), shape.strides[0])
                low = add(add(scale(image, shape.size[0]), inner), -shape.padding[0])
                stop = arith.minsi(add(line, self.schedule.lines), end)
                is_first = int_compare("eq", line, begin)
                self._write_part(_LineRange(line, stop, image, low, is_first))

            loops.repeat_for(begin, end, self.schedule.lines, write_lines)

        images = arith.divui(first, height), arith.ceildivui(last, height)
        loops.repeat_for(*images, 1, write_image)

    def _write_part(self, part: _LineRange) -> None:
        """Emit all stages of the chain for a range of result lines."""
        expand, windows, project = self._stages_of_part()
        image, result = self._begin_of_image(part), self._begin_of_result(part)
        if expand is not None:
            loops.branch(part.is_first, lambda: None, self._move_overlap)
            begin = ProductOffsets(index(0), index(0), image)
            expand.write_lines(*self._lines_to_expand(part), begin)
        windows = replace(windows, begin=(image, result))
        windows.write_lines(index(0), part.first, part.last)
        if project is not None:
            begin = ProductOffsets(result, index(0), index(0))
            project.write_lines(part.first, part.last, begin)

    # ---- where lines are kept -------------------------------------------------------

    def _begin_of_image(self, part: _LineRange) -> Value:
        """Emit the offset at which line 0 of all images would be in the line buffer.

        That is before the scratch begins: only buffered lines are read from there on.
        """
        if self.stages.expand is None:
            return index(0)
        begin = self.given.own.begin
        return arith.subi(begin, scale(part.low, self.buffers.line))

    def _begin_of_result(self, part: _LineRange) -> Value:
        """Emit the offset at which result line 0 would be in the last line buffer."""
        if self.stages.project is None:
            return index(0)
        shape = geometry_of_stage(self.stages.depthwise)
        begin = add(self.given.own.begin, self.buffers.expanded)
        lines = scale(part.first, shape.result[1] * shape.features)
        return arith.subi(begin, lines)

    def _lines_to_expand(self, part: _LineRange) -> tuple[Value, Value]:
        """Emit the bounds of image lines that the first stage has yet to compute."""
        shape, buffers = geometry_of_stage(self.stages.depthwise), self.buffers
        top = scale(part.image, shape.size[0])
        known = arith.select(part.is_first, index(0), index(buffers.overlap))
        lines = add(arith.subi(part.last, part.first), -1)
        bottom = add(add(part.low, scale(lines, shape.strides[0])), buffers.span)
        return index_maximum(add(part.low, known), top), index_minimum(
            bottom, add(top, shape.size[0])
        )

    def _move_overlap(self) -> None:
        """Emit a move of image lines that the next range reads too, to the front.

        By whole vectors, and so a little more: what comes after is made anew. Forwards,
        as the lines are moved towards lower addresses and may lie over each other.
        """
        memory, begin = self.given.own.memory, self.given.own.begin
        lanes, line = self.schedule.lanes, self.buffers.line
        strides = geometry_of_stage(self.stages.depthwise).strides
        distance = self.schedule.lines * strides[0] * line

        def move(at: Value) -> None:
            to = add(begin, at)
            moved = vectors.load(memory, add(to, distance), lanes)
            vectors.store(moved, memory, to, lanes)

        loops.repeat_for(0, self.buffers.overlap * line, lanes, move)

    # ---- what computes a stage ------------------------------------------------------

    def _stages_of_part(
        self,
    ) -> tuple[Contraction | None, WindowWriter, Contraction | None]:
        """Return the first, depthwise and last stage's emitters; None for no stage."""
        stages, cut = self.stages, self.schedule
        shape = geometry_of_stage(stages.depthwise)
        epilogue = self._epilogue_of(stages.depthwise)
        known = self._known | {stages.depthwise.x: self._memory_of(stages.depthwise.x)}
        windows = WindowWriter(
            shape,
            cut.sweep(shape),
            self.given.size(shape.lines),
            depthwise.reduction_of(stages.depthwise, replace(epilogue, memories=known)),
            epilogue,
        )
        expand = project = None
        if stages.expand is not None:
            weight = self._known[stages.expand.kernel]
            expand = self._contraction(stages.expand, weight, cut.expand)
        if stages.project is not None:
            # packed, as the first argument of a region without the anchor's operand
            weight, *_ = self.given.memories
            project = self._contraction(stages.project, weight, cut.project)
        return expand, windows, project

    def _contraction(
        self, op: ConvGeneral, weight: Value, tile: ContractionTile | None
    ) -> Contraction:
        """Return the emitter of a convolution that is the first or last stage."""
        assert tile is not None
        shape = geometry_of_stage(op)
        memories = self._memory_of(op.x), weight
        given = replace(self.given, memories=memories)
        joined, sums = Joined((op,), (shape,), tile), Sums(shape, tile, given)
        return Contraction(joined, 0, given, self._epilogue_of(op), sums)

    def _epilogue_of(self, op: ConvGeneral) -> Epilogue:
        """Return the epilogue that writes a stage's results to a buffer or result."""
        stages, lanes = self.stages, self.schedule.lanes
        results = self.given.results_of(self.function)
        if op is not stages.anchor:
            reader = stages.depthwise if op is stages.expand else stages.project
            assert reader is not None
            results = [(reader.x, self.given.own.memory)]
        return Epilogue(op.results[0], self._known, results, lanes, self.given.machine)

    def _memory_of(self, value: Value) -> Value:
        """Return the memory of an image: an argument's, or the line buffer."""
        return self._known.get(value) or self.given.own.memory

    @property
    def _known(self) -> dict[Value, Value]:
        """The memory of each argument of the region, except a packed one."""
        known = self.given.operands_of(self.function)
        if self.stages.project is not None:
            del known[self.function.entry_block.arguments[0]]
        return known
