"""Which second operands of products a kernel computes as it reads them."""

from __future__ import annotations

from collections.abc import Sequence

from aotc.dialects.ops.selection import Cast
from aotc.kernels.terms import Factor, Read, Term
from aotc.mlir import Value


def why_no_prologue(term: Term, packed: Value, *, is_packed: bool) -> str:
    """Return why a kernel cannot compute the second operand; "" if it can.

    Args:
        term: of the region.
        packed: the argument of the region that holds the operand.
        is_packed: whether that is in another order than the operand.
    """
    factor, columns = term.factors[1], column_loops(term)
    if factor.behind_views().op is None:
        return ""
    if why := _why_not_elementwise(factor):
        return why
    reads = [*factor.reads()]
    held = {read.value for read in reads if read.source.value == packed}
    if len(held) != 1:
        return "its second operand is not computed of its second argument, once"
    if not is_packed and held != {packed}:
        return "its second operand is computed of a view of its second argument"
    others = [read for read in reads if read.source.value != packed]
    if all(_is_along(read, columns) for read in others):
        return ""
    return "its second operand is computed of what varies by more than columns"


def _why_not_elementwise(factor: Factor) -> str:
    """Why elementwise ops alone do not make an operand; "" if they do."""
    source = factor.behind_views()
    if source.op is None or not source.op.operands:
        return ""
    if source.value != factor.value:
        return "its second operand is a view of what elementwise ops give"
    if not (type(source.op).on_vectors or isinstance(source.op, Cast)):
        return f"its second operand is computed by '{source.op.OPERATION_NAME}'"
    found = map(_why_not_elementwise, source.operands())
    return next((why for why in found if why), "")


def column_loops(term: Term) -> list[int]:
    """Return the loops over the result along which the first operand is broadcast."""
    left = term.factors[0].view()
    if left is None:
        return []
    repeats = [all(stride.repeats for stride in axis) for axis in left.axes]
    return [loop for loop in term.nest.kept if repeats[loop]]


def _is_along(read: Read, columns: Sequence[int]) -> bool:
    """Whether what is read is a number, or a vector along the columns."""
    if read.source.op is not None:
        return read.source.is_number
    view = read.source.view()
    if view is None or view.fill is not None:
        return False
    flat = view.flat()
    others = [loop for loop in range(len(flat.axes)) if loop not in columns]
    own = flat.group(columns)
    is_vector = [(s.axis, s.step) for s in own] == [(0, 1)] and flat.begin == (0,)
    repeats = all(stride.repeats for stride in flat.group(others))
    return read.source.is_number or (repeats and is_vector)
