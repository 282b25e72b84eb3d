"""A loop as one kernel: its steps one after the other, each by the kernels of its body.

What is carried has two places, which a step reads and writes in turns, or, where a step
reads an element for the next one alone, the place of the result. Elements of scanned
values and of stacks are parts of the memory of all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from aotc.dialects.graph import GraphOp
from aotc.dialects.types import Size, Tensor, element_count
from aotc.kernels.cpu import loops, vectors
from aotc.kernels.cpu.arguments import KernelArguments
from aotc.kernels.cpu.room import Room
from aotc.kernels.cpu.vectors import add, index
from aotc.kernels.planning.scan import ScanLoop
from aotc.kernels.schedule import Schedule
from aotc.mlir import Function, Operation, Value, arith, func

_LANES = 16  # elements that are copied at a time


def write(
    function: Function,
    anchor: Operation,
    schedule: Schedule,
    arguments: KernelArguments,
) -> None:
    """Emit the body of a kernel that runs a whole scan; `anchor` is the scan's call."""
    loop = ScanLoop.of(anchor)
    operands = arguments.operands_of(function)
    results = dict(arguments.results_of(function))
    taken = [operands[value] for value in loop.call.operands]
    made = [results[value] for value in loop.call.results]
    _ScanWriter(loop, taken, made, arguments, Room(arguments)).write()


@dataclass(frozen=True)
class _ScanWriter:
    """An emitter of a scan: its steps, and the copies of carried values.

    Args:
        loop: that is written.
        taken: the memory of each operand of it.
        made: that of each result.
        given: the arguments of the kernel.
        room: for what steps hold.
    """

    loop: ScanLoop
    taken: Sequence[Value]
    made: Sequence[Value]
    given: KernelArguments
    room: Room

    def write(self) -> None:
        """Emit the loop over steps, with copies of carried values before and after."""
        loop, scan = self.loop, self.loop.scan
        carried = [self._carried_places(n) for n in range(scan.carries)]
        between = {x: self._part(x, *self.room.take(x, 1)) for x in loop.between()}
        values, zero = loop.carried(), index(0)
        for x, place_at, first in zip(values, carried, self.taken, strict=False):
            self._copy(first, place_at(zero), x)
        length = self.given.size(scan.length)

        def write_step(number: Value) -> None:
            turn = arith.remui(number, index(2))
            other = arith.subi(index(1), turn)
            place = number
            if scan.reverse:
                place = arith.subi(arith.subi(length, index(1)), number)
            old = [place_at(turn) for place_at in carried]
            new = [place_at(other) for place_at in carried]
            self._write_step(place, old, new, between)

        loops.repeat_for(0, length, 1, write_step)
        turn = arith.remui(length, index(2))
        for number, (x, place_at) in enumerate(zip(values, carried, strict=True)):
            if number not in loop.updated_in_place:
                self._copy(place_at(turn), self.made[number], x)

    def _carried_places(self, number: int) -> Callable[[Value], Value]:
        """Return a function of a turn (0 or 1) that emits a carried value's memref."""
        if number in self.loop.updated_in_place:
            return lambda turn: self.made[number]
        value = self.loop.carried()[number]
        memory, begin = self.room.take(value, 2)
        return lambda turn: self._turn(value, memory, begin, turn)

    def _write_step(
        self,
        place: Value,
        old: Sequence[Value],
        new: Sequence[Value],
        between: dict[Value, Value],
    ) -> None:
        """Emit one step: the body's kernels, and copies of values it only returns."""
        loop, scan = self.loop, self.loop.scan
        arguments = [*loop.body.entry_block.arguments]
        scanned = zip(
            arguments[scan.carries : scan.first_capture],
            self.taken[scan.carries : scan.first_capture],
            strict=True,
        )
        each = [self._element(x, memory, place) for x, memory in scanned]
        captured = self.taken[scan.first_capture :]
        known = dict(zip(arguments, [*old, *each, *captured], strict=True))
        returned = loop.returned
        stacked = zip(returned[scan.carries :], self.made[scan.carries :], strict=True)
        homes = [*new, *(self._element(x, memory, place) for x, memory in stacked)]
        for op in loop.ops:
            if isinstance(op, GraphOp):  # which keeps elements where they are
                known[op.results[0]] = known[op.operands[0]]
                continue
            assert isinstance(op, func.CallOp)
            for value in op.results:
                number = loop.home(value)
                known[value] = between[value] if number is None else homes[number]
            self._call(op, known)
        for number, (value, home) in enumerate(zip(returned, homes, strict=True)):
            is_there = loop.home(value) == number and isinstance(
                getattr(value.owner, "opview", None), func.CallOp
            )
            if not is_there:
                self._copy(known[value], home, value)

    def _call(self, call: func.CallOp, known: dict[Value, Value]) -> None:
        """Emit a region's kernel inline, on the memory of its operands and results."""
        region = next(x for op, x in self.loop.regions() if op == call)
        memories = [known[x] for x in (*call.operands, *call.results)]
        inner = replace(self.given, memories=memories, scratch=self.room.rest)
        self.given.write_region(region, inner)

    def _element(self, value: Value, memory: Value, place: Value) -> Value:
        """Emit a memref of one element of a scanned or stacked sequence."""
        size = element_count(Tensor.of(value).shape)
        return self._slice(memory, self.given.scale(place, size), size)

    def _turn(self, value: Value, memory: Value, begin: Value, turn: Value) -> Value:
        """Emit a memref of one of a carried value's two buffers."""
        size = element_count(Tensor.of(value).shape)
        at = add(begin, self.given.scale(turn, size))
        return self._slice(memory, at, size)

    def _part(self, value: Value, memory: Value, begin: Value) -> Value:
        """Emit a memref of a value in scratch memory, from an offset on."""
        return self._slice(memory, begin, element_count(Tensor.of(value).shape))

    def _slice(self, memory: Value, begin: Value, size: Size) -> Value:
        """Emit a memref of some elements of another memref."""
        count = size if isinstance(size, int) else self.given.size(size)
        return vectors.part_of(memory, begin, count)

    def _copy(self, source: Value, target: Value, value: Value) -> None:
        """Emit a copy of all elements of `value` from one memref to another."""
        size = element_count(Tensor.of(value).shape)
        end = self.given.size(size)
        whole = arith.subi(end, arith.remui(end, index(_LANES)))
        first: Value | int = 0
        if Tensor.of(value).dtype != "bool":

            def copy_vector(at: Value) -> None:
                vector = vectors.load_as_is(source, at, _LANES)
                vectors.store(vector, target, at, _LANES)

            loops.repeat_for(0, whole, _LANES, copy_vector)
            first = whole

        def copy_element(at: Value) -> None:
            element = vectors.load_element_as_is(source, at)
            vectors.store_element(element, target, at)

        loops.repeat_for(first, end, 1, copy_element)
