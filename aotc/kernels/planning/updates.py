"""Regions of elementwise ops alone, on tensors of any shapes: how they are cut up.

Such a region has parts, each of elementwise ops over as many elements: the update of a
parameter with its moments is one. All parts are cut into blocks of elements, and blocks
are the workgroups, those of the first part first. What a part writes, no other one
reads, so that results may lie where operands do (`memory_parts`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from aotc.dialects.functions.walking import defining_op
from aotc.dialects.graph import GraphOp
from aotc.dialects.types import Tensor, ceil_divide, element_count
from aotc.kernels.elementwise import FLOATS, OF_NUMBERS, Elementwise
from aotc.kernels.machine import Machine
from aotc.kernels.operands import ScalarOperand, operand_of
from aotc.kernels.schedule import Schedule
from aotc.mlir import Function, Value, ir

BLOCK = 1024  # elements: threads share tensors of some thousands
_ON_PROCESSORS = Elementwise(OF_NUMBERS, (), (*FLOATS, "i32", "bool"))


@dataclass(frozen=True)
class UpdateBlocks(Schedule):
    """The schedule of a region of elementwise ops alone.

    Args:
        lanes: elements of a vector.
        block: elements of a workgroup.
    """

    lanes: int
    block: int = BLOCK


@dataclass(frozen=True)
class RegionPart:
    """Independent elementwise ops of a region, with the values that they read and make.

    Args:
        results: the numbers of the results of the region that it computes.
        values: that have an element for each of its own: arguments that it reads, and
            what it computes.
        elements: how many there are of each.
    """

    results: tuple[int, ...]
    values: frozenset[Value]
    elements: int


def plan(op: GraphOp, machine: Machine) -> UpdateBlocks:
    """Return the schedule of a region of elementwise ops, the same for all."""
    return UpdateBlocks(machine.lanes)


def workgroups(op: GraphOp, schedule: UpdateBlocks) -> tuple[int, int]:
    """Return the workgroup counts of a region: the blocks of all parts together, 1."""
    region = op.operation.block.owner.opview
    return sum(block_count(x, schedule.block) for x in parts_of(region)), 1


def block_count(part: RegionPart, block: int) -> int:
    """Return how many blocks of `block` elements a part has."""
    found = ceil_divide(part.elements, block)
    assert isinstance(found, int)
    return found


def parts_of(function: Function) -> list[RegionPart]:
    """Return the independent parts of a region, by the order of their first results."""
    *_, end = function.entry_block.operations
    groups: list[tuple[list[int], set[Value]]] = []
    for number, value in enumerate(end.operands):
        numbers, near = [number], _values_behind(value)
        for other in [each for each in groups if not near.isdisjoint(each[1])]:
            groups.remove(other)
            numbers, near = [*other[0], *numbers], near | other[1]
        groups.append((numbers, near))
    parts = []
    for numbers, near in sorted(groups, key=lambda each: min(each[0])):
        elements = element_count(Tensor.of(end.operands[numbers[0]]).shape)
        assert isinstance(elements, int)
        parts.append(RegionPart(tuple(sorted(numbers)), frozenset(near), elements))
    return parts


def _values_behind(value: Value) -> set[Value]:
    """Return a value and the values of its shape that it is computed from."""
    found, rest = set[Value](), [value]
    while rest:
        value = rest.pop()
        if value not in found and not isinstance(operand_of(value), ScalarOperand):
            found.add(value)
            op = defining_op(value)
            rest += [] if op is None else op.operands
    return found


def memory_parts(function: Function) -> tuple[list[int], list[int]]:
    """Return which part of a region reads each argument, and which writes each result.

    An argument of which something else is read, too, such as a number by all parts, has
    -1. A result may lie where an argument of its part and of its type does: elements
    are written where they were read.
    """
    arguments: list[Value] = list(function.entry_block.arguments)
    *_, end = function.entry_block.operations
    read, made = [-1] * len(arguments), [-1] * len(end.operands)
    numbers = {operand_of(x).source for x in _read_elsewhere(function)}
    for place, part in enumerate(parts_of(function)):
        for number in part.results:
            made[number] = place
        for number, value in enumerate(arguments):
            if value in part.values and value not in numbers:
                read[number] = place
    return read, made


def _read_elsewhere(function: Function) -> list[Value]:
    """Return the operands of a region's ops that are broadcast scalars."""
    ops = function.entry_block.operations
    values = dict.fromkeys(x for op in ops for x in op.operands)
    return [x for x in values if isinstance(operand_of(x), ScalarOperand)]


def why_misread(function: Function, anchor: GraphOp, schedule: UpdateBlocks) -> str:
    """Return why a kernel would misread arguments of a region; "" if it would not."""
    return why_not_elementwise(function, _ON_PROCESSORS)


def why_not_elementwise(function: Function, elementwise: Elementwise) -> str:
    """Return why a region is not elementwise ops of one shape; "" if it is.

    Args:
        function: the region.
        elementwise: the ops that its kernel computes.
    """
    *_, end = function.entry_block.operations
    is_right = all(_is_computed(x, elementwise) for x in end.operands)
    return "" if is_right else "expected elementwise ops of tensors of one shape"


def _is_computed(value: Value, elementwise: Elementwise) -> bool:
    """Return whether elementwise ops of one static shape compute a value."""
    shape = Tensor.of(value).shape
    if not is_static(shape) or not isinstance(defining_op(value), GraphOp):
        return False
    rest, seen = [value], set[Value]()
    while rest:
        value = rest.pop()
        if value in seen:
            continue
        seen.add(value)
        op = defining_op(value)
        read = elementwise.operand(value)
        if isinstance(read, ScalarOperand):
            if read.in_memory and not isinstance(read.source.owner, ir.Block):
                return False
        elif op is not None:
            takes = isinstance(op, GraphOp) and elementwise.takes(op)
            if not takes or Tensor.of(value).shape != shape:
                return False
            rest += op.operands
        elif read is None or not is_read_whole(value, shape):
            return False
    return True


def is_read_whole(value: Value, shape: Sequence[object]) -> bool:
    """Return whether a tensor in memory can be loaded as vectors of a shape."""
    kind = Tensor.of(value)
    return kind.shape == shape and kind.dtype != "bool"  # of which it has bytes


def is_static(shape: Sequence[object]) -> bool:
    """Return whether a shape has axes, all of static sizes of at least 1."""
    return bool(shape) and all(isinstance(n, int) and n > 0 for n in shape)
