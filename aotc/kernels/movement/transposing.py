"""Transposes: elements are read side by side, and written side by side.

A transpose is of some axes, once those that stay together are one. Along one of them
elements lie side by side where they are read, along the last one where they are
written:

- The same axis: its runs are copied.
- Two long ones: squares of as many elements as a vector has, both ways, are transposed
  in registers. So all of a line of the cache is used when it is there.
- A short one, as the channels of an image: its vectors are mixed, or taken apart.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from aotc.dialects.graph import GraphOp
from aotc.dialects.lowering.scalars import int_compare
from aotc.dialects.ops.shape import Reshape, Transpose
from aotc.dialects.types import (
    Size,
    Tensor,
    ceil_divide,
    element_count,
    static_size,
)
from aotc.dialects.views import Loop, View, common_loops
from aotc.dialects.walking import defining_op
from aotc.kernels import grain, vectors
from aotc.kernels.arguments import Arguments
from aotc.kernels.machine import Machine
from aotc.kernels.movement.runs import write_run
from aotc.kernels.movement.schedule import DTYPES, FEW_ROWS, MovementBlocks
from aotc.kernels.movement.views import view_through
from aotc.kernels.vectors import add, index, scale
from aotc.kernels.walks import parts
from aotc.mlir import Function, Value, arith, func

_FEW = 4  # vectors that are mixed
_SQUARES = 4  # beside each other in the result


@dataclass(frozen=True)
class _Nest:
    """How a transpose is gone through.

    Args:
        outer: loops that workgroups go through; steps are those in the operand and in
            the result.
        long: that a workgroup goes through a block of.
        last: that lies side by side in the result; if that is `long`, in the operand.
    """

    outer: Sequence[Loop]
    long: Loop
    last: Loop

    @property
    def is_of_runs(self) -> bool:
        """Whether elements side by side stay so."""
        return self.last.steps == (1, 1)

    @property
    def is_of_few(self) -> bool:
        """Whether a short axis and the long one are a run, of one or the other."""
        few = self.last.size
        return isinstance(few, int) and few <= _FEW and few in self.long.steps

    def rows(self, lanes: int) -> int:
        """How many elements along `last` a workgroup has."""
        assert isinstance(self.last.size, int)
        whole = self.is_of_runs or self.is_of_few
        return self.last.size if whole else lanes * _SQUARES

    def workgroups(self, schedule: MovementBlocks) -> tuple[Size, Size]:
        """How many there are: blocks of the long axis, and all that is around."""
        blocks = ceil_divide(self.long.size, schedule.block)
        parts = ceil_divide(self.last.size, self.rows(schedule.lanes))
        return blocks, element_count((*(axis.size for axis in self.outer), parts))


def plan(op: Transpose, machine: Machine) -> MovementBlocks | None:
    """The schedule of a transpose; None where there is no kernel for it.

    What is before and after it is in memory anyway: IREE makes one dispatch of a
    transpose and what it computes around it.
    """
    source = Tensor.of(op.x)
    size = element_count(source.shape)
    is_small = isinstance(size, int) and size < grain.elements(grain.LEAST)
    if source.dtype not in DTYPES or is_small:
        return None
    nest, lanes = _nest_of(op), machine.lanes
    if nest is None or not (_is_in_memory(op.x) and _is_for_memory(op.y)):
        return None
    assert isinstance(nest.last.size, int)
    block = grain.elements(grain.MOVEMENT)
    if nest.is_of_runs:
        outer = element_count(tuple(axis.size for axis in (*nest.outer, nest.long)))
        is_long = nest.last.size > block
        is_for_one = is_long and (not isinstance(outer, int) or outer < FEW_ROWS)
        if is_for_one or not machine.half_fills(nest.last.size):
            return None
        return MovementBlocks(lanes, max(1, block // nest.last.size))
    assert isinstance(nest.long.size, int)
    shorter = min(nest.last.size, nest.long.size)
    if not nest.is_of_few and not machine.half_fills(shorter):
        return None
    squares = max(1, block // (lanes * nest.rows(lanes)))
    return MovementBlocks(lanes, lanes * squares)


def _is_in_memory(value: Value) -> bool:
    """Whether a value is an argument, or what a kernel has made."""
    made = defining_op(value)
    if isinstance(made, Reshape):
        return _is_in_memory(made.x)
    return made is None or isinstance(made, func.CallOp)


def _is_for_memory(value: Value) -> bool:
    """Whether kernels read a value, or callers."""
    readers = [use.owner.opview for use in value.uses]
    return all(
        _is_for_memory(reader.y)
        if isinstance(reader, Reshape)
        else isinstance(reader, (func.CallOp, func.ReturnOp))
        for reader in readers
    )


def _nest_of(op: Transpose) -> _Nest | None:
    """How a transpose is gone through; None if a call decides about inner axes."""
    found = view_through(op.x, [op])
    if found is None or 0 in Tensor.of(op.y).shape:
        return None
    every = range(len(found.view.axes))
    if len(found.view.group(every)) < 2:
        return None
    written = View.of_memory(Tensor.of(op.y).shape)
    views = [found.view, written]
    *others, last = common_loops(views, [every, every], only_static=True)
    if not isinstance(last.size, int):
        return None
    if last.steps[0] == 1:
        return _Nest(others[:-1], others[-1], last)
    (beside,) = (axis for axis in others if axis.steps[0] == 1)
    others.remove(beside)
    if not isinstance(beside.size, int):
        return None
    if beside.size <= _FEW < last.size and last.steps[0] == beside.size:
        return _Nest(others, last, beside)
    return _Nest(others, beside, last)


def workgroups(op: GraphOp, schedule: MovementBlocks) -> tuple[Size, Size]:
    """How many there are; see `_Nest.workgroups`."""
    assert isinstance(op, Transpose)
    nest = _nest_of(op)
    assert nest is not None
    return nest.workgroups(schedule)


def is_computed(function: Function, anchor: GraphOp) -> bool:
    """Whether a function, which may have been edited, is a transpose alone."""
    *ops, end = function.entry_block.operations
    are_its_own = [*function.entry_block.arguments] == [*anchor.operands]
    return ops == [anchor] and are_its_own and [*end.operands] == [*anchor.results]


def write(
    function: Function, anchor: Transpose, schedule: MovementBlocks, given: Arguments
) -> None:
    """Write the kernel of a region."""
    nest = _nest_of(anchor)
    assert nest is not None
    kernel = _Kernel(nest, schedule.lanes, schedule.block, given)
    if nest.is_of_runs:
        kernel.write_runs()
    elif nest.is_of_few:
        kernel.write_few()
    else:
        kernel.write_squares()


_Place: TypeAlias = tuple[Value, Value]  # of an element, in the operand and the result


@dataclass(frozen=True)
class _Kernel:
    """Writes the work of a workgroup at the insertion point.

    Args:
        nest: what is gone through.
        lanes: of a vector.
        block: of the long axis, that a workgroup has.
        given: where operand and result are.
    """

    nest: _Nest
    lanes: int
    block: int
    given: Arguments

    def write_runs(self) -> None:
        """Copy runs."""
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

        vectors.repeat_for(first, end, 1, copy)

    def write_squares(self) -> None:
        """Transpose squares: a vector has elements that were in as many others."""
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
        """Transpose `rows` times `width` elements; both are at most a vector's."""
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
        """Mix a few vectors, or take them apart."""
        begin = self._outer_place(self.given.workgroup[1])
        is_one_run = self.nest.long.steps[0] == self.nest.last.size  # in the operand
        write = self._take_apart if is_one_run else self._mix
        self._along_long(lambda n, width: write(self._along(begin, n), width))

    def _take_apart(self, begin: _Place, width: int) -> None:
        """Write `width` elements of the long axis, for each index of the short one."""
        (read, written), few, lanes = begin, self.nest.last, self.lanes
        count, run = few.size, self._run(width)
        assert isinstance(count, int)
        found = [self._load(add(read, at), size) for at, size in run]
        for this in range(count):
            places = [divmod(n * count + this, lanes) for n in range(lanes)]
            place = add(written, self.given.scale(index(this), few.steps[1]))
            self._store(vectors.gather(found, places), place, width)

    def _mix(self, begin: _Place, width: int) -> None:
        """Write all indices of the short axis, for `width` of the long one."""
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
        """The vectors of a run of all indices: where they begin, and their lengths."""
        assert isinstance(self.nest.last.size, int)
        return parts(width * self.nest.last.size, self.lanes)

    @property
    def _first(self) -> Value:
        """Of the block of the long axis."""
        return scale(self.given.workgroup[0], self.block)

    def _along_long(self, write: Callable[[Value, int], None]) -> None:
        """Go through the block of the long axis by vectors."""
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
        """Do something with the vectors of an axis that are in a block of it.

        Args:
            block: where it begins, and where it ends if the axis is as long.
            axis: where the last vector begins that is not whole, and its elements.
            visit: is given where a vector begins, and how many elements it has.
        """
        (first, end), (whole, rest), lanes = block, axis, self.lanes
        vectors.repeat_for(
            first, arith.minui(end, whole), lanes, lambda at: visit(at, lanes)
        )
        if rest:
            is_last = int_compare("ugt", end, whole)
            vectors.branch(is_last, lambda: visit(whole, rest), lambda: None)

    def _outer_place(self, number: Value) -> _Place:
        """Return the place of an index of the outer axes, given its number."""
        place = index(0), index(0)
        for axis in reversed(self.nest.outer[1:]):
            size = self.given.size(axis.size)
            place = self._move(place, axis, arith.remui(number, size))
            number = arith.divui(number, size)
        for axis in self.nest.outer[:1]:
            place = self._move(place, axis, number)
        return place

    def _along(self, place: _Place, count: Value) -> _Place:
        """Return the place `count` elements further along the long axis."""
        return self._move(place, self.nest.long, count)

    def _move(self, place: _Place, loop: Loop, count: Value) -> _Place:
        """Return the place `count` elements further along a loop."""
        read, written = place
        read = add(read, self.given.scale(count, loop.steps[0]))
        return read, add(written, self.given.scale(count, loop.steps[1]))

    def _load(self, at: Value, count: int) -> Value:
        return vectors.load(self.given.memories[0], at, self.lanes, count)

    def _store(self, vector: Value, at: Value, count: int) -> None:
        vectors.store(vector, self.given.memories[1], at, self.lanes, count)
