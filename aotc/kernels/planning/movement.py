"""Plans of concatenations."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from aotc.dialects.functions.walking import defining_op
from aotc.dialects.graph import GraphOp
from aotc.dialects.ops.creation import Constant
from aotc.dialects.ops.shape import Broadcast, Reshape, Transpose
from aotc.dialects.ops.slicing import Concatenate, Slice
from aotc.dialects.types import Size, Tensor, ceil_divide, element_count
from aotc.kernels import grain
from aotc.kernels.elementwise import ALIKE, FLOATS, Elementwise
from aotc.kernels.machine import Machine
from aotc.kernels.operands import is_repeated
from aotc.kernels.planning.views import view_of
from aotc.kernels.schedule import Schedule
from aotc.kernels.typical import typical_size
from aotc.mlir import Function, Value

FEW_ROWS = 8  # long ones, which threads would have too few of to share
_MOST_PARTS = 8


@dataclass(frozen=True)
class MovementBlocks(Schedule):
    """The schedule of a concatenation, transpose or other kernel that goes by rows.

    Args:
        lanes: elements of a vector.
        block: rows of a workgroup; of a transpose, elements of its long axis.
    """

    lanes: int
    block: int


def plan(op: Concatenate, machine: Machine) -> MovementBlocks | None:
    """Return the schedule of a concatenation; None if it gets no kernel.

    It is the last one of a chain, and not along the first axis that has elements beside
    each other: IREE copies such parts without a dispatch. All but the first axes are
    static, and rows of each part have half a vector at least. A few long rows are left
    to IREE, which shares parts of them between threads.
    """
    result, parts = Tensor.of(op.y), [Tensor.of(x) for x in parts_of(op)]
    if not moves(result.dtype, machine) or len(parts) > _MOST_PARTS or is_inner(op):
        return None
    rows = element_count(result.shape[: op.axis])
    widths = [element_count(part.shape[op.axis :]) for part in parts]
    static = [width for width in widths if isinstance(width, int)]
    is_static = all(isinstance(size, int) for size in result.shape[1:])
    if rows == 1 or not is_static or len(static) < len(parts):
        return None
    width = sum(static)
    is_small = isinstance(rows, int) and rows * width < grain.elements(grain.LEAST)
    block = grain.elements(grain.MOVEMENT)
    is_long = width > block and typical_size(rows, 1) < FEW_ROWS
    if is_small or is_long or not machine.half_fills(min(static)):
        return None
    return MovementBlocks(machine.lanes, max(1, block // width))


def moves(dtype: str, machine: Machine) -> bool:
    """Return whether kernels can load and store vectors of a dtype."""
    return dtype == "i32" or dtype in machine.dtypes


def row_axes(op: GraphOp) -> int:
    """Return how many of a concatenation's last axes are contiguous rows."""
    assert isinstance(op, Concatenate)
    return Tensor.of(op.y).rank - op.axis


def source(op: Concatenate, schedule: MovementBlocks, value: Value) -> Value | None:
    """Return the value in memory that a kernel reads in place of a view, or None."""
    view = view_of(value, op.axis, schedule.lanes)
    return None if view is None else view.source


def is_inner(op: GraphOp) -> bool:
    """Return whether an op is a concatenation that only the next of its chain reads."""
    if not isinstance(op, Concatenate):
        return False
    readers = [use.owner.opview for use in op.y.uses]
    return len(readers) == 1 and _continues(readers[0], op)


def _continues(reader: object, op: Concatenate) -> bool:
    """Return whether `reader` concatenates along the same axis as `op`."""
    return isinstance(reader, Concatenate) and reader.axis == op.axis


def parts_of(op: Concatenate) -> list[Value]:
    """Return the operands that a chain of concatenations joins, in order."""
    found: list[Value] = []
    rest = [op.rhs, op.lhs]
    while rest:
        value = rest.pop()
        inner = defining_op(value)
        if isinstance(inner, Concatenate) and is_inner(inner) and inner.axis == op.axis:
            rest += [inner.rhs, inner.lhs]
        else:
            found.append(value)
    return found


def workgroups(op: Concatenate, schedule: MovementBlocks) -> tuple[Size, Size]:
    """Return the numbers of workgroups: one for each block of rows, and 1."""
    rows = element_count(Tensor.of(op.y).shape[: op.axis])
    return ceil_divide(rows, schedule.block), 1


def is_read(value: Value) -> bool:
    """Return whether a kernel loads a value, perhaps through views."""
    made = defining_op(value)
    return made is None or isinstance(made, (Reshape, Slice, Transpose))


def read_by(value: Value) -> Iterator[Value]:
    """Yield the values that a kernel loads to compute another one.

    What elementwise ops repeat is not among it.
    """
    made = defining_op(value)
    if is_read(value):
        yield value
    elif made is not None and not isinstance(made, (Broadcast, Constant)):
        for operand in made.operands:
            yield from read_by(operand)


def why_misread(
    function: Function, anchor: Concatenate, schedule: MovementBlocks
) -> str:
    """Return why a concatenation's kernel would misread its region; "" if not."""
    is_right = _is_computed(function, anchor, schedule)
    return "" if is_right else "expected parts of its arguments in a concatenation"


def _is_computed(
    function: Function, anchor: Concatenate, schedule: MovementBlocks
) -> bool:
    """Return whether a concatenation's kernel computes all that a region does.

    Args:
        function: the region, which may have been edited.
        anchor: of it.
        schedule: how it is cut up.
    """
    first, rank = anchor.axis, Tensor.of(anchor.y).rank
    *ops, end = function.entry_block.operations
    prologue = Elementwise(ALIKE, range(first, rank), (*FLOATS, "i32"))
    others = (Concatenate, Broadcast, Constant, Reshape, Slice, Transpose)
    if list(end.operands) != [anchor.y] or not all(
        isinstance(op, GraphOp) and (isinstance(op, others) or prologue.takes(op))
        for op in ops
    ):
        return False
    for value in (value for part in parts_of(anchor) for value in read_by(part)):
        view = view_of(value, first, schedule.lanes)
        if view is None or defining_op(view.source) is not None:
            return False
    read = (prologue.operand(op.y) for op in ops if isinstance(op, Broadcast))
    return all(each is not None and not is_repeated(each.source) for each in read)
