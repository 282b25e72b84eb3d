"""Transposes: elements are read side by side, and written side by side.

A transpose is of some axes, once those that stay together are one. Along one of them
elements lie side by side where they are read, along the last one where they are
written:

- The same axis: its runs are copied.
- Two long ones: squares of as many elements as a vector has, both ways, are transposed
  in registers. So all of a line of the cache is used when it is there.
- A short one, as the channels of an image: its vectors are mixed, or taken apart.

Of narrow elements, those that stay side by side are moved as words of 32 bits. What is
rounded to such is so as it is read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from aotc.dialects.lowering.scalars import int_compare
from aotc.dialects.movement.views import StridedLoop
from aotc.dialects.ops.shape import Transpose
from aotc.dialects.types import Tensor, static_size
from aotc.kernels.cpu import loops, vectors
from aotc.kernels.cpu.arguments import KernelArguments
from aotc.kernels.cpu.rounding import round_to
from aotc.kernels.cpu.runs import write_run
from aotc.kernels.cpu.vectors import add, index, scale
from aotc.kernels.cpu.walks import parts
from aotc.kernels.planning.movement import MovementBlocks
from aotc.kernels.planning.transposing import TransposeLoops, loops_of
from aotc.mlir import Function, Value, arith


def write(
    function: Function,
    anchor: Transpose,
    schedule: MovementBlocks,
    arguments: KernelArguments,
) -> None:
    """Emit the body of a transpose's kernel."""
    nest = loops_of(anchor)
    assert nest is not None
    dtype = Tensor.of(anchor.y).dtype
    kernel = _TransposeKernel(nest, schedule.lanes, schedule.block, dtype, arguments)
    if nest.is_of_runs:
        kernel.write_runs()
    elif nest.is_of_few:
        kernel.write_few()
    else:
        kernel.write_squares()


_Place: TypeAlias = tuple[Value, Value]  # of an element, in the operand and the result


@dataclass(frozen=True)
class _TransposeKernel:
    """An emitter of one workgroup's part of a transpose.

    Args:
        nest: what is gone through.
        lanes: of a vector.
        block: of the long axis, that a workgroup has.
        dtype: of the result.
        given: where operand and result are.
    """

    nest: TransposeLoops
    lanes: int
    block: int
    dtype: str
    given: KernelArguments

    def write_runs(self) -> None:
        """Emit copies of contiguous runs, for a block of the long axis."""
        long, length = self.nest.long, self.nest.last.size
        assert isinstance(length, int)
        begin = self._outer_place(self.given.workgroup[1])
        first = self._first
        end = arith.minui(add(first, self.block), self.given.size(long.size))

        def copy(number: Value) -> None:
            read, written = self._along(begin, number)
            write_run(
                length,
                self.lanes,
                lambda n, count: self._store(
                    self._load(add(read, n), count), add(written, n), count
                ),
            )

        loops.repeat_for(first, end, 1, copy)

    def write_squares(self) -> None:
        """Emit transposes of square blocks of elements in registers."""
        last, lanes = self.nest.last, self.lanes
        assert isinstance(last.size, int)
        rest = last.size % lanes
        whole = index(last.size - rest)
        rows = self.nest.rows(lanes)
        blocks, number = index(-(-last.size // rows)), self.given.workgroup[1]
        first = scale(arith.remui(number, blocks), rows)
        end = add(first, rows)
        around = self._outer_place(arith.divui(number, blocks))

        def write(place: Value, width: int) -> None:
            begin = self._along(around, place)

            def write_square(row: Value, count: int) -> None:
                self._square(self._move(begin, last, row), width, count)

            self._visit_vectors((first, end), (whole, rest), write_square)

        self._along_long(write)

    def _square(self, begin: _Place, width: int, rows: int) -> None:
        """Emit the transpose of a block of `rows` × `width` elements."""
        (read, written), long, last = begin, self.nest.long, self.nest.last
        found = [
            self._load(add(read, n * static_size(last.steps[0])), width)
            for n in range(rows)
        ]
        found += found[-1:] * (self.lanes - rows)
        for n, vector in enumerate(vectors.transpose(found)[:width]):
            place = add(written, self.given.scale(index(n), long.steps[1]))
            self._store(vector, place, rows)

    def write_few(self) -> None:
        """Emit interleaving, or its inverse, of a short axis with the long one."""
        begin = self._outer_place(self.given.workgroup[1])
        is_one_run = self.nest.long.steps[0] == self.nest.last.size  # in the operand
        write = self._take_apart if is_one_run else self._mix
        self._along_long(lambda n, width: write(self._along(begin, n), width))

    def _take_apart(self, begin: _Place, width: int) -> None:
        """Emit the deinterleaving of `width` elements of the long axis."""
        (read, written), few, lanes = begin, self.nest.last, self.lanes
        count, run = few.size, self._run(width)
        assert isinstance(count, int)
        found = [self._load(add(read, at), size) for at, size in run]
        for this in range(count):
            places = [divmod(n * count + this, lanes) for n in range(lanes)]
            place = add(written, self.given.scale(index(this), few.steps[1]))
            self._store(vectors.gather(found, places), place, width)

    def _mix(self, begin: _Place, width: int) -> None:
        """Emit the interleaving of `width` elements of the long axis."""
        (read, written), few, lanes = begin, self.nest.last, self.lanes
        count, run = few.size, self._run(width)
        assert isinstance(count, int)
        found = [
            self._load(add(read, n * static_size(few.steps[0])), width)
            for n in range(count)
        ]
        for at, size in run:
            places = [divmod(at + n, count)[::-1] for n in range(lanes)]
            self._store(vectors.gather(found, places), add(written, at), size)

    def _run(self, width: int) -> list[tuple[int, int]]:
        """Return (start, length) of the vectors of an interleaved run."""
        assert isinstance(self.nest.last.size, int)
        return parts(width * self.nest.last.size, self.lanes)

    @property
    def _first(self) -> Value:
        """The first index of the workgroup's block of the long axis."""
        return scale(self.given.workgroup[0], self.block)

    def _along_long(self, write: Callable[[Value, int], None]) -> None:
        """Emit a loop over the block of the long axis by vectors."""
        size, first = self.nest.long.size, self._first
        assert isinstance(size, int)
        end, rest = add(first, self.block), size % self.lanes
        self._visit_vectors((first, end), (index(size - rest), rest), write)

    def _visit_vectors(
        self,
        block: tuple[Value, Value],
        axis: tuple[Value, int],
        visit: Callable[[Value, int], None],
    ) -> None:
        """Emit a loop over an axis's vectors in a block, the last one shorter.

        Args:
            block: where it begins, and where it ends if the axis is as long.
            axis: where the last vector begins that is not whole, and its elements.
            visit: is given where a vector begins, and how many elements it has.
        """
        (first, end), (whole, rest), lanes = block, axis, self.lanes
        loops.repeat_for(
            first, arith.minui(end, whole), lanes, lambda at: visit(at, lanes)
        )
        if rest:
            is_last = int_compare("ugt", end, whole)
            loops.branch(is_last, lambda: visit(whole, rest), lambda: None)

    def _outer_place(self, number: Value) -> _Place:
        """Emit the offsets of an index of the outer axes, given its number."""
        place = index(0), index(0)
        for axis in reversed(self.nest.outer[1:]):
            size = self.given.size(axis.size)
            place = self._move(place, axis, arith.remui(number, size))
            number = arith.divui(number, size)
        for axis in self.nest.outer[:1]:
            place = self._move(place, axis, number)
        return place

    def _along(self, place: _Place, count: Value) -> _Place:
        """Emit the offsets `count` elements further along the long axis."""
        return self._move(place, self.nest.long, count)

    def _move(self, place: _Place, loop: StridedLoop, count: Value) -> _Place:
        """Emit the offsets `count` elements further along a loop."""
        read, written = place
        read = add(read, self.given.scale(count, loop.steps[0]))
        return read, add(written, self.given.scale(count, loop.steps[1]))

    def _load(self, at: Value, count: int) -> Value:
        """Emit the load of a vector, narrow elements rounded or joined to words."""
        (memory, result), together = self.given.memories, self.nest.together
        lanes, count = (n * together for n in (self.lanes, count))
        at, element = scale(at, together), result.type.element_type
        if memory.type.element_type != element:
            found = vectors.load(memory, at, lanes, count)
            found = round_to(found, self.dtype, self.given.machine)
        elif together == 1:
            found = vectors.load(memory, at, lanes, count)
        else:
            found = vectors.load_as_is(memory, at, lanes, count)
        if together == 1:
            return found
        return vectors.as_words(vectors.as_stored(found, element))

    def _store(self, vector: Value, at: Value, count: int) -> None:
        """Emit the store of a vector, words split to narrow elements."""
        memory, together = self.given.memories[1], self.nest.together
        if together > 1:
            vector = vectors.as_elements(vector, memory.type.element_type)
        lanes, count = (n * together for n in (self.lanes, count))
        vectors.store(vector, memory, scale(at, together), lanes, count)
