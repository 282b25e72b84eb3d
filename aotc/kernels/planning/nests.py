"""Plan regions that are written as the loops of their terms, one after the other.

Such code multiplies slower than that of families with tiles, and reads memory in its
order alone. It is for what a step of a loop computes beside products (`loop`): a few
thousand elements, where a dispatch would take longer than they do.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from aotc.core.dtypes import is_float
from aotc.dialects.graph import GraphOp
from aotc.dialects.movement.nests import COPY
from aotc.dialects.ops.creation import Constant
from aotc.dialects.patterns.values import number_in
from aotc.dialects.types import Size, Tensor, element_count
from aotc.kernels.machine import Machine
from aotc.kernels.schedule import Schedule
from aotc.kernels.term_builder import term_of
from aotc.kernels.terms import Apply, Read, Statement, Term
from aotc.mlir import Function, Value, func

_COMBINED = ("add", "maximum", "minimum", "multiply")
_MOST_ON_STACK = 2048  # elements
_LONGEST = 512  # terms of a sum that is made in order; longer ones lose digits


@dataclass(frozen=True)
class NestSchedule(Schedule):
    """The schedule of a region that is written as plain loops over its term.

    Args:
        lanes: elements of a vector.
    """

    lanes: int


def plan(op: GraphOp, machine: Machine) -> NestSchedule | None:
    """Return the schedule for a region written as plain loops; None if it cannot be."""
    term = term_of(_function_of(op))
    if term is None or not is_writable(term):
        return None
    return NestSchedule(machine.lanes)


def workgroups(op: GraphOp, schedule: NestSchedule) -> tuple[Size, Size]:
    """Return one workgroup along each axis."""
    return 1, 1


def is_writable(term: Term) -> bool:
    """Return whether there is code for each statement of a term."""
    known = {*term.arguments}
    for statement in term.statements:
        if not _is_statement_writable(statement, known):
            return False
        known.add(statement.value)
    return all(is_in_scratch(x) or can_be_on_stack([x]) for x in temporaries_of(term))


def is_in_scratch(value: Value) -> bool:
    """Return whether a temporary is f32, so in scratch memory, not on the stack."""
    return Tensor.of(value).dtype == "f32"


def can_be_on_stack(values: Iterable[Value]) -> bool:
    """Return whether temporaries of other dtypes than f32 fit the stack."""
    sizes = [element_count(Tensor.of(x).shape) for x in values]
    static = [size for size in sizes if isinstance(size, int)]
    return len(static) == len(sizes) and sum(static) <= _MOST_ON_STACK


def temporaries_of(term: Term) -> list[Value]:
    """Return the values of a term that are not results, in order."""
    results = {*term.results}
    values = dict.fromkeys(each.value for each in term.statements)
    return [value for value in values if value not in results]


def scratch_elements(op: GraphOp, schedule: NestSchedule) -> Size:
    """Return how many f32 scratch elements the temporaries of a region take."""
    term = term_of(_function_of(op))
    assert term is not None
    own = filter(is_in_scratch, temporaries_of(term))
    sizes = (element_count(Tensor.of(x).shape) for x in own)
    return sum(sizes, start=0)


def number_of(read: Read) -> float | int | bool | None:
    """Return the number that a read constant's elements all are; None for others.

    Args:
        read: of a term.
    """
    if not isinstance(read.op, Constant):
        return None
    number = number_in(np.asarray(read.op.value))
    found: float | int | bool | None = None if number is None else number.item()
    return found


def applied_in(statement: Statement) -> Iterator[Apply]:
    """Yield the `Apply` expressions in a statement's factors, once for each factor."""
    for factor in statement.factors:
        yield from (node for node in factor.nodes() if isinstance(node, Apply))


def _is_statement_writable(statement: Statement, known: set[Value]) -> bool:
    """Return whether code can be written for a statement, given the known values."""
    nest, place = statement.nest, statement.place()
    if place is None or place.fill is not None:
        return False
    if nest.combine != COPY and not _is_combination_writable(statement):
        return False
    if not all(type(each.op).on_scalars for each in applied_in(statement)):
        return False
    return all(
        read.view is not None
        and read.view.fill is None
        and (read.source in known or number_of(read) is not None)
        for read in statement.reads()
    )


def block_of(statement: Statement) -> int | None:
    """Return how many iterations of the first combined loop form a partial sum.

    None where their number is static: then all iterations are combined in order.
    """
    sizes = [statement.nest.sizes[loop] for loop in statement.nest.combined_loops]
    static = [size for size in sizes if isinstance(size, int)]
    if len(static) == len(sizes):
        return None
    return max(1, _LONGEST // math.prod(static))


def _is_combination_writable(statement: Statement) -> bool:
    """Return whether a statement combines few enough floats, in a fitting dtype."""
    nest = statement.nest
    sizes = [nest.sizes[loop] for loop in nest.combined_loops]
    static = [size for size in sizes if isinstance(size, int)]
    dtypes = {Tensor.of(factor.value).dtype for factor in statement.factors}
    return (
        nest.combine in _COMBINED
        and all(isinstance(size, int) for size in sizes[1:])
        and math.prod(static) <= _LONGEST
        and all(map(is_float, dtypes))
        and (dtypes == {statement.dtype} or statement.dtype == "f32")
    )


def _function_of(op: GraphOp) -> Function:
    """Return the function that an op is in."""
    function = op.operation.parent.opview
    assert isinstance(function, func.FuncOp)
    return function
