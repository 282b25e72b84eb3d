"""Reductions along axes: their sizes, and the origin of their elements."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from aotc.dialects.functions.walking import backward_slice, defining_op, has_one_use
from aotc.dialects.graph import GraphOp
from aotc.dialects.ops.creation import Constant
from aotc.dialects.ops.normalization import AlongAxis, Normalize
from aotc.dialects.ops.quantization import ByteSoftmax
from aotc.dialects.ops.reduction import Reduction
from aotc.dialects.ops.selection import Cast, Compare, Select
from aotc.dialects.ops.shape import Broadcast
from aotc.dialects.types import Size, Tensor, element_count
from aotc.kernels.elementwise import ALIKE, NARROW, Elementwise
from aotc.kernels.operands import Whole
from aotc.mlir import Value


@dataclass(frozen=True)
class MatrixBatch:
    """A batch of matrices, contiguous in memory, that an op reduces along their rows.

    Args:
        count: of matrices; a call may decide it.
        length: rows of each.
        width: columns of each; 1 where rows of memory are gone along.
    """

    count: Size
    length: int
    width: int = 1

    @classmethod
    def of(cls, op: GraphOp) -> MatrixBatch | None:
        """Return an op's operand as matrices; None unless reduced axes are adjacent."""
        shape, axes = Tensor.of(op.operands[0]).shape, reduced_axes(op)
        if not axes or axes != tuple(range(axes[0], axes[-1] + 1)):
            return None
        length = element_count(shape[axes[0] : axes[-1] + 1])
        width = element_count(shape[axes[-1] + 1 :])
        if not isinstance(length, int) or not isinstance(width, int):
            return None
        return cls(element_count(shape[: axes[0]]), length, width)


def known_matrices(op: GraphOp) -> MatrixBatch:
    """Return the matrices of an op, asserting there are some; see `MatrixBatch.of`."""
    found = MatrixBatch.of(op)
    assert found is not None
    return found


def reduced_axes(op: GraphOp) -> tuple[int, ...]:
    """Return the axes that a reduction, norm, softmax or scan goes along."""
    if isinstance(op, AlongAxis | ByteSoftmax):
        return (op.axis,)
    assert isinstance(op, (Normalize, Reduction))
    return tuple(sorted(op.axes))


def leading_axes(op: GraphOp) -> tuple[int, ...]:
    """Return the reduced axes that lead the shape; only the first if all are."""
    axes, rank = reduced_axes(op), Tensor.of(op.operands[0]).rank
    count = sum(axis == place for place, axis in enumerate(axes))
    return axes[: count if count < rank else 1]


def is_in_memory(value: Value, columns: Sequence[int], dtypes: Iterable[str]) -> bool:
    """Return whether a reduction's operand is in memory or computed by its kernel.

    Else IREE's code computes them with the sum, where the kernel would have them
    written to memory first.
    """
    elementwise = Elementwise(ALIKE, columns, (*dtypes, "i32"), NARROW)

    def is_computed(value: Value) -> bool:
        op = defining_op(value)
        if not isinstance(op, GraphOp) or isinstance(op, (Broadcast, Constant)):
            return False
        if not has_one_use(value):
            return False
        is_asked = isinstance(op, (Cast, Compare, Select))
        return elementwise.takes(op) if is_asked else op.on_vectors

    return all(
        is_computed(each) or _is_written(each, columns)
        for each in backward_slice([value], is_computed)
    )


def _is_written(value: Value, columns: Sequence[int]) -> bool:
    """Return whether a reduction finds a value in memory, or can read its broadcast."""
    op = defining_op(value)
    if not isinstance(op, GraphOp) or type(op).in_memory:
        return True
    is_repeated = isinstance(op, (Broadcast, Constant))
    if not is_repeated and not has_one_use(value):
        return True  # for its other readers
    if Tensor.of(value).dtype in NARROW:
        return True  # by a kernel that quantises
    if not is_repeated:
        return False
    read = Elementwise(ALIKE, columns, ("f32", "i32")).operand(value)
    return read is not None and not isinstance(read, Whole)
