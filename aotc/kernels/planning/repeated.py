"""Plan kernels of elementwise ops alone: the ops that have one, how it is cut up.

IREE computes what several dispatches read once and stores it for all of them. Of a
norm in a training step that is one more tensor that is written, kept until the
derivative and read there, where a kernel computes it again of what it reads anyway. So
a kernel is for elementwise ops of which others compute some as well (`split-reductions`
leaves each reader of a norm its own).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from aotc.dialects.functions.walking import defining_op, has_one_use, users_of
from aotc.dialects.graph import GraphOp
from aotc.dialects.ops.activation import Gelu
from aotc.dialects.ops.binary import Binary
from aotc.dialects.ops.selection import Cast, Clamp, Select
from aotc.dialects.ops.shape import Broadcast
from aotc.dialects.ops.unary import Unary
from aotc.dialects.patterns.values import made_by
from aotc.dialects.types import Size, Tensor, ceil_divide, element_count
from aotc.kernels import grain
from aotc.kernels.elementwise import BY_ROWS, FLOATS, Elementwise, condition_of
from aotc.kernels.machine import Machine
from aotc.kernels.operands import Whole, is_repeated, operand_of
from aotc.kernels.planning.movement import MovementBlocks
from aotc.kernels.typical import ROWS, typical_size
from aotc.mlir import Value

ANCHORS = (Unary, Binary, Clamp, Gelu, Select, Cast)
_DEEPEST = 8  # ops, from the last one to one that others compute as well


def plan(op: GraphOp, machine: Machine) -> MovementBlocks | None:
    """Return the schedule of elementwise ops, some computed twice; None if no kernel.

    Rows are those of the last axis, whose length is static.
    """
    kind = Tensor.of(op.results[0])
    if kind.rank == 0 or not isinstance(kind.shape[-1], int) or 0 in kind.shape:
        return None
    dtypes = tuple(dtype for dtype in FLOATS if dtype in machine.dtypes)
    known = Elementwise(BY_ROWS, [kind.rank - 1], dtypes)
    width, rows = kind.shape[-1], typical_size(rows_of(op), ROWS)
    if not machine.half_fills(width) or rows * width < grain.elements(grain.LEAST):
        return None
    if not _can_be_last(op, known) or _is_read_by_elements(op):
        return None
    if not any(map(_is_repeated, _ops_behind(op, known, _DEEPEST))):
        return None
    block = max(1, grain.elements(grain.MOVEMENT) // width)
    return MovementBlocks(machine.lanes, min(block, rows))


def workgroups(op: GraphOp, schedule: MovementBlocks) -> tuple[Size, Size]:
    """Return the numbers of workgroups: one for each block of rows, and 1."""
    return ceil_divide(rows_of(op), schedule.block), 1


def rows_of(op: GraphOp) -> Size:
    """Return how many rows an op's result has: all but its last axis."""
    return element_count(Tensor.of(op.results[0]).shape[:-1])


def views(op: GraphOp) -> Mapping[Value, Value]:
    """Map each operand that is a broadcast to its source in memory."""
    found = {x: operand_of(x) for x in op.operands if is_repeated(x)}
    return {x: read.source for x, read in found.items() if read.in_memory}


def operands_made_elementwise(op: GraphOp) -> Sequence[Value]:
    """Return the operands that are no broadcasts, which a prologue may compute."""
    return [x for x in op.operands if not is_repeated(x)]


def _can_be_last(op: GraphOp, elementwise: Elementwise) -> bool:
    """Return whether a kernel can end with an op and read its broadcast operands."""
    if not elementwise.takes(op) or (
        isinstance(op, Select) and condition_of(op) is None
    ):
        return False
    return not any(
        is_repeated(x) and isinstance(elementwise.operand(x), Whole)
        for x in op.operands
    )


def _is_read_by_elements(op: GraphOp) -> bool:
    """Return whether an op's only reader is an elementwise op of the same shape."""
    shape = Tensor.of(op.results[0]).shape
    readers = users_of(op.results)
    return len(readers) == 1 and all(
        isinstance(each, GraphOp)
        and type(each).on_scalars
        and Tensor.of(each.results[0]).shape == shape
        for each in readers
    )


def _ops_behind(op: GraphOp, elementwise: Elementwise, depth: int) -> Iterator[GraphOp]:
    """Yield an op and the ops before it that its kernel can compute, up to a depth."""
    yield op
    for value in op.operands:
        made = defining_op(value)
        if not isinstance(made, GraphOp) or not depth or not has_one_use(value):
            continue
        if not is_repeated(value) and elementwise.takes(made):
            yield from _ops_behind(made, elementwise, depth - 1)


def _is_repeated(op: GraphOp) -> bool:
    """Return whether another op computes the same, from equal operands."""
    kind = Tensor.of(op.results[0])
    whole = [x for x in op.operands if not is_repeated(x) and Tensor.of(x) == kind]
    attributes = dict(op.operation.attributes)
    return any(
        isinstance(other, type(op))
        and other != op
        and dict(other.operation.attributes) == attributes
        and all(map(_are_equal, op.operands, other.operands))
        for other in users_of(_alike(whole[:1]))
    )


def _alike(values: Sequence[Value]) -> list[Value]:
    """Return values and other casts of their sources, all of the first one's type."""
    found = dict.fromkeys(values)
    for value in values:
        made = made_by(value, Cast)
        casts = [] if made is None else users_of([made.x])
        found |= dict.fromkeys(x.y for x in casts if isinstance(x, Cast))
    return [value for value in found if Tensor.of(value) == Tensor.of(values[0])]


def _are_equal(one: Value, other: Value) -> bool:
    """Return whether two values are the same, equal casts or equal broadcasts."""
    if one == other or other in _alike([one]):
        return True
    both = [made_by(x, Broadcast) for x in (one, other)]
    first, second = both
    if first is None or second is None:
        return False
    is_alike = first.axes == second.axes and Tensor.of(first.y) == Tensor.of(second.y)
    return is_alike and first.x == second.x
