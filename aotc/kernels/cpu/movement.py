"""Concatenation: each part is read where it lies, and written where it belongs.

One kernel has all parts of a chain, the elementwise ops that make them, and the
transposes, reshapes and slices that they are seen through (`planning.views`): a skip
connection of a U-Net beside an image that a transposed convolution has enlarged is one
pass over both. A row of the result is the elements from the axis of the concatenation
on. Rows are gone through from the first to the last, and the parts of each side by
side, so that the result is written in order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import gcd

from aotc.dialects.movement.views import Strides, View
from aotc.dialects.ops.slicing import Concatenate
from aotc.dialects.types import Tensor, element_count, static_size
from aotc.kernels.cpu import loops, vectors
from aotc.kernels.cpu.arguments import KernelArguments
from aotc.kernels.cpu.epilogue import Epilogue, VectorPosition
from aotc.kernels.cpu.runs import write_run
from aotc.kernels.cpu.vectors import add, index, scale
from aotc.kernels.planning.movement import (
    MovementBlocks,
    parts_of,
    read_by,
)
from aotc.kernels.planning.views import MemoryView, view_of
from aotc.mlir import Function, Value, arith


def write(
    function: Function,
    anchor: Concatenate,
    schedule: MovementBlocks,
    kernel_arguments: KernelArguments,
) -> None:
    """Emit the body of a kernel of concatenations, of which `anchor` is the last."""
    arguments = list(function.entry_block.arguments)
    *sources, result = kernel_arguments.memories
    memories = dict(zip(arguments, sources, strict=True))
    lanes, parts, column = schedule.lanes, [], 0
    for value in parts_of(anchor):
        parts.append(_RowPart.of(anchor, value, column, lanes))
        column += parts[-1].width
    kernel = _MovementKernel(
        anchor.axis, column, lanes, parts, memories, result, kernel_arguments
    )
    rows = kernel_arguments.size(
        element_count(Tensor.of(anchor.y).shape[: anchor.axis])
    )
    first = scale(kernel_arguments.workgroup[0], schedule.block)
    last = arith.minui(add(first, schedule.block), rows)
    loops.repeat_for(first, last, 1, kernel.write_row)


@dataclass(frozen=True)
class _RowPart:
    """One operand of a concatenation, as a slice of each row of the result.

    Args:
        value: the part.
        column: where it begins in a row.
        width: how many elements of a row it has.
        run: of which so many lie side by side in all that it is computed from.
        views: where that lies.
    """

    value: Value
    column: int
    width: int
    run: int
    views: Mapping[Value, MemoryView]

    @classmethod
    def of(cls, anchor: Concatenate, value: Value, column: int, lanes: int) -> _RowPart:
        """Return a concatenation's operand as the row slice from a column on."""
        first, views = anchor.axis, {}
        width = element_count(Tensor.of(value).shape[first:])
        assert isinstance(width, int)
        for each in read_by(value):
            view = view_of(each, first, lanes)
            assert view is not None
            views[each] = view
        run = gcd(width, *(each.view.run(first) for each in views.values()))
        return cls(value, column, width, run, views)


@dataclass(frozen=True)
class _MovementKernel:
    """An emitter of the rows of a concatenation.

    Args:
        axis: along which parts are concatenated.
        width: of a row.
        lanes: of a vector.
        parts: of a row.
        memories: where the arguments of the region lie.
        result: memory of the result.
        given: the sizes.
    """

    axis: int
    width: int
    lanes: int
    parts: Sequence[_RowPart]
    memories: Mapping[Value, Value]
    result: Value
    given: KernelArguments

    def write_row(self, row: Value) -> None:
        """Emit one row of the result, operand by operand."""
        for part in self.parts:
            begin = add(scale(row, self.width), part.column)

            def write_run(
                number: Value, part: _RowPart = part, begin: Value = begin
            ) -> None:
                self._write_run(part, row, scale(number, part.run), begin)

            if part.run == part.width:
                write_run(index(0))
            else:
                loops.repeat_for(0, part.width // part.run, 1, write_run)

    def _write_run(
        self, part: _RowPart, row: Value, column: Value, begin: Value
    ) -> None:
        """Emit a contiguous run of an operand's elements, computed and stored."""
        places = {
            value: _place(view.view, self.given, row, column, self.axis)
            for value, view in part.views.items()
        }
        sources = {
            value: self.memories[view.source] for value, view in part.views.items()
        }
        machine = self.given.machine
        epilogue = Epilogue(part.value, self.memories, (), self.lanes, machine)

        def write(first: Value, count: int) -> None:
            known = {
                value: [
                    vectors.load(memory, add(places[value], first), self.lanes, count)
                ]
                for value, memory in sources.items()
            }
            here = add(column, first)
            place = VectorPosition(add(begin, here), here, key=0, count=count)
            found = epilogue.compute(part.value, place, known)
            vectors.store(found, self.result, place.at, self.lanes, count)

        write_run(part.run, self.lanes, write)


def _place(
    view: View, arguments: KernelArguments, row: Value, column: Value, first: int
) -> Value:
    """Emit the offset of an element in a viewed source, by row and column.

    Args:
        view: of the memory that it is in.
        arguments: the sizes.
        row: its number along the axes before `first`.
        column: its number along the others.
        first: the axis.
    """
    rank = len(view.axes)
    before, after = (view.group(axes) for axes in (range(first), range(first, rank)))
    begin = add(_distance(arguments, before, row), _distance(arguments, after, column))
    (first_element,) = view.begin
    assert isinstance(first_element, int)
    return add(begin, first_element)


def _distance(arguments: KernelArguments, strides: Strides, number: Value) -> Value:
    """Emit the distance of an element by its number along nested strides."""
    found = index(0)
    for stride in reversed(strides[1:]):
        size = arguments.size(stride.size)
        here = arith.remui(number, size)
        number = arith.divui(number, size)
        found = arith.addi(found, scale(here, static_size(stride.step)))
    if not strides:
        return found
    return arith.addi(found, scale(number, static_size(strides[0].step)))
