"""Kernels of elementwise ops alone, on tensors of any shapes.

A program computes a run of elements of one part (`aotc.kernels.planning.updates`): the
programs of the first part come first. So one launch has the updates of many parameters.
"""

from __future__ import annotations

from aotc.core.dtypes import bits
from aotc.dialects.graph import GraphOp
from aotc.dialects.types import Size, Tensor
from aotc.kernels.elementwise import OF_NUMBERS, Elementwise
from aotc.kernels.gpu import elements, ops
from aotc.kernels.gpu.elements import ElementTile
from aotc.kernels.gpu.kernel import Writing
from aotc.kernels.gpu.lifting import can_lift
from aotc.kernels.gpu.machines import Gpu
from aotc.kernels.planning.updates import (
    RegionPart,
    block_count,
    memory_parts,
    parts_of,
    why_not_elementwise,
)
from aotc.kernels.terms import Statement, Term
from aotc.mlir import Function, Value, arith

_DTYPES = ("f32", "bf16", "f16", "i32", "bool")


def plan(term: Term, machine: Gpu) -> ElementTile:
    """Return the schedule of a term of elementwise ops, the same for all."""
    return ElementTile(1, elements.COLUMNS)


def plan_op(op: GraphOp, machine: Gpu) -> ElementTile:
    """Return the schedule of an elementwise op, the same for all."""
    return ElementTile(1, elements.COLUMNS)


def workgroups(op: GraphOp, schedule: ElementTile) -> tuple[Size, Size]:
    """Return the number of program instances of an op's region, and 1."""
    region = op.operation.block.owner.opview
    return sum(block_count(x, schedule.columns) for x in parts_of(region)), 1


def safe_parts(function: Function) -> tuple[list[int], list[int]]:
    """Return a region's `memory_parts`, but -1 where updating in place would race.

    A thread reads and writes the same elements where all have one width: Triton gives
    a thread as many neighbours as fit into some bytes. One element is read by all.
    """
    read, made = memory_parts(function)
    *_, end = function.entry_block.operations
    memory = [*zip(function.entry_block.arguments, read, strict=True)]
    memory += zip(end.operands, made, strict=True)
    for place, part in enumerate(parts_of(function)):
        widths = {bits(Tensor.of(x).dtype) for x, own in memory if own == place}
        if len(widths) > 1 or part.elements == 1:
            read, made = ([-1 if x == place else x for x in y] for y in (read, made))
    return read, made


def why_misread(function: Function, anchor: GraphOp, schedule: ElementTile) -> str:
    """Return why a kernel would misread arguments of a region; "" if it would not."""
    known = Elementwise(OF_NUMBERS, (), _DTYPES, lifts=can_lift)
    return why_not_elementwise(function, known)


def programs(term: Term, schedule: ElementTile) -> Size:
    """Return the number of program instances of a kernel of elementwise ops."""
    return sum(block_count(x, schedule.columns) for x in parts_of(term.function))


def write(writing: Writing, schedule: ElementTile) -> None:
    """Emit the body of a kernel of elementwise ops at the insertion point."""
    parts = parts_of(writing.term.function)
    number, first = ops.program_id(), 0
    integers = writing.sizes.integers
    for part in parts:
        last = first + block_count(part, schedule.columns)
        statements = _statements_of(part, writing.term)

        def write_part(
            first: int = first, statements: list[Statement] = statements
        ) -> None:
            place = integers.add(integers.wide(number), -first)
            found = [*elements.compute(writing, statements, schedule, place)]
            for tile, statement, made in found:  # all is read before
                tile.store(statement, made)

        if len(parts) == 1:
            write_part()
        else:
            ops.when(_is_between(number, first, last), write_part)
        first = last


def _statements_of(part: RegionPart, term: Term) -> list[Statement]:
    """Return the statements whose values belong to a part of the region."""
    return [each for each in term.statements if each.value in part.values]


def _is_between(number: Value, first: int, last: int) -> Value:
    """Emit the condition first <= number < last."""
    signed = arith.CmpIPredicate
    bounds = [ops.constant(number.type, x) for x in (first, last)]
    is_at_least = arith.cmpi(signed.sge, number, bounds[0])
    return arith.andi(is_at_least, arith.cmpi(signed.slt, number, bounds[1]))
