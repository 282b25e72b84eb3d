"""Prologues of second operands that a product's kernel computes as it reads them."""

from __future__ import annotations

from collections.abc import Sequence

from aotc.dialects.graph import GraphOp
from aotc.dialects.movement.views import View
from aotc.dialects.ops.selection import Cast
from aotc.dialects.types import Tensor
from aotc.kernels.term_builder import expression_of
from aotc.kernels.terms import Expression, Read
from aotc.mlir import Value


def why_no_prologue(op: GraphOp, packed: Value, *, is_packed: bool) -> str:
    """Return why a kernel cannot compute a product's second operand; "" if it can.

    Args:
        op: the product.
        packed: the argument of the region that holds the operand.
        is_packed: whether that is in another order than the operand.
    """
    factor = expression_of(op, 1)
    if factor is None:
        return "its second operand is no view of what it is made of"
    if factor.is_argument:
        return ""
    if why := _why_not_elementwise(factor):
        return why
    reads = [*factor.reads()]
    held = {read.value for read in reads if read.source == packed}
    if len(held) != 1:
        return "its second operand is not computed of its second argument, once"
    if not is_packed and held != {packed}:
        return "its second operand is computed of a view of its second argument"
    others = [read for read in reads if read.source != packed]
    columns = column_loops(op)
    if all(_is_along(read, columns) for read in others):
        return ""
    return "its second operand is computed of what varies by more than columns"


def is_computed(op: GraphOp) -> bool:
    """Return whether a product's second operand is computed by a prologue."""
    factor = expression_of(op, 1)
    return factor is None or not factor.is_argument


def _why_not_elementwise(factor: Expression) -> str:
    """Return why an operand is not made by elementwise ops alone; "" if it is."""
    if factor.op is None or not factor.op.operands:
        return ""
    if isinstance(factor, Read) or factor.op.results[0] != factor.value:
        return "its second operand is a view of what elementwise ops give"
    if not (type(factor.op).on_vectors or isinstance(factor.op, Cast)):
        return f"its second operand is computed by '{factor.op.OPERATION_NAME}'"
    found = map(_why_not_elementwise, factor.operands)
    return next((why for why in found if why), "")


def column_loops(op: GraphOp) -> list[int]:
    """Return the result's loops that only the second operand varies along: columns."""
    (nest,) = type(op).nests(op)
    left = nest.reads[0](View.identity(Tensor.of(op.operands[0]).shape))
    if left is None:
        return []
    repeats = [all(stride.repeats for stride in axis) for axis in left.axes]
    return [loop for loop in nest.result_loops if repeats[loop]]


def _is_along(read: Read, columns: Sequence[int]) -> bool:
    """Return whether a read gives a number, or a vector along the columns."""
    if read.op is not None:
        return read.is_number
    view = read.view
    if view is None or view.fill is not None:
        return False
    flat = view.flat()
    others = [loop for loop in range(len(flat.axes)) if loop not in columns]
    own = flat.group(columns)
    is_vector = [(s.axis, s.step) for s in own] == [(0, 1)] and flat.begin == (0,)
    repeats = all(stride.repeats for stride in flat.group(others))
    return read.is_number or (repeats and is_vector)
