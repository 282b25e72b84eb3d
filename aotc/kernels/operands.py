"""Operands of elementwise ops as the kernel reads them from memory.

    operand_of(graph.broadcast(%bias))  →  PerColumn(%bias, width=64)

The pass that forms regions asks whether a kernel takes such an operand
(`aotc.kernels.capabilities`), and the code that writes the kernel how it is read. Both
ask `operand_of`, which says it from how elements lie (`aotc.dialects.movement.views`),
so one cannot take what the other does not read.
"""

from __future__ import annotations

from dataclasses import dataclass

from aotc.dialects.functions.walking import defining_op
from aotc.dialects.graph import view_of_result
from aotc.dialects.movement.views import Stride, View
from aotc.dialects.ops.creation import Constant, Dimension, Iota
from aotc.dialects.ops.shape import Broadcast, Reshape
from aotc.dialects.ops.slicing import Slice
from aotc.dialects.types import Shape, Size, Tensor, element_count
from aotc.mlir import Value, func


@dataclass(frozen=True)
class KernelOperand:
    """An elementwise op's operand as a kernel reads it, in rows of columns.

    Args:
        source: what it is made of.
    """

    source: Value

    @property
    def in_memory(self) -> bool:
        """Return whether kernels load the operand: all but scalar constants."""
        return not _is_constant(self.source)

    def fits(self, columns: Shape) -> bool:
        """Return whether the operand fits rows whose columns have these sizes."""
        return True


@dataclass(frozen=True)
class Counted(KernelOperand):
    """An index along an axis, or a size, that code computes without memory."""

    @property
    def in_memory(self) -> bool:
        """Return False, as the source is not in memory."""
        return False


@dataclass(frozen=True)
class Whole(KernelOperand):
    """An operand with the result's shape: one element for each of the result."""


@dataclass(frozen=True)
class ScalarOperand(KernelOperand):
    """An operand of one element, broadcast to all elements of the result."""


@dataclass(frozen=True)
class OfColumns(KernelOperand):
    """An operand whose reading depends on the number of columns of a row.

    Args:
        width: the columns.
    """

    width: Size

    def fits(self, columns: Shape) -> bool:
        """Return whether rows have this operand's number of columns."""
        return self.width == element_count(columns)


@dataclass(frozen=True)
class PerColumn(OfColumns):
    """A vector along the columns, broadcast to all rows."""


@dataclass(frozen=True)
class PerRow(OfColumns):
    """An element for each row, broadcast to all columns."""

    width: int


@dataclass(frozen=True)
class PerGroup(OfColumns):
    """A vector along the columns for each group of `rows` consecutive rows.

    Args:
        rows: that read one vector.
    """

    width: int
    rows: int


@dataclass(frozen=True)
class SomeColumns(OfColumns):
    """A slice of contiguous columns of a wider tensor, along its last axis.

    Args:
        first: of them.
        stride: columns of the tensor.
    """

    width: int
    first: int
    stride: int

    def fits(self, columns: Shape) -> bool:
        """Return whether rows have as many columns, along one axis."""
        return columns == (self.width,)


def operand_of(value: Value) -> KernelOperand:
    """Return how a kernel reads a value in rows of columns: its broadcast pattern."""
    op = defining_op(value)
    found: KernelOperand | None = None
    if _is_constant(value):
        found = ScalarOperand(value)
    elif is_repeated(value):
        found = _broadcast_pattern(value)
    elif isinstance(op, Slice):
        found = _column_slice(op)
    return found or Whole(value)


def viewed_operand(value: Value) -> KernelOperand:
    """Return how a kernel reads a value if it can read through any view."""
    found = operand_of(value)
    if isinstance(defining_op(found.source), (Iota, Dimension)):
        return Counted(found.source)
    if isinstance(found, Whole) and is_repeated(value):
        return viewed_operand(_broadcast_chain(value)[-1].x)
    return found


def is_repeated(value: Value) -> bool:
    """Return whether a value is a broadcast (perhaps reshaped) of a smaller tensor."""
    return isinstance([defining_op(value), *_broadcast_chain(value)][-1], Broadcast)


def _broadcast_chain(value: Value) -> list[Broadcast | Reshape]:
    """Return the reshapes that end in a value, last first, and then any broadcast."""
    found: list[Broadcast | Reshape] = []
    while isinstance(op := defining_op(value), (Broadcast, Reshape)):
        found.append(op)
        if isinstance(op, Broadcast):
            break
        value = op.x
    return found


def _is_constant(value: Value) -> bool:
    """Return whether a value is a constant without axes."""
    return isinstance(defining_op(value), Constant) and Tensor.of(value).rank == 0


def _broadcast_pattern(value: Value) -> KernelOperand | None:
    """Return how a broadcast value repeats its source; None for unknown patterns."""
    moves = _broadcast_chain(value)
    op = moves[-1]
    shape = Tensor.of(op.x).shape
    if all(size == 1 for size in shape):
        return ScalarOperand(op.x)
    view: View | None = View.of_memory(shape)
    for move in reversed(moves):
        view = None if view is None else view_of_result(move, view)
    if view is None:
        return None
    match view.group(range(len(view.axes))):
        case (Stride(size=width, axis=0, step=1),) | (
            Stride(axis=None),
            Stride(size=width, axis=0, step=1),
        ):
            return PerColumn(op.x, width)
        case (Stride(axis=0, step=1), Stride(size=int(width), axis=None)):
            return PerRow(op.x, width)
        case (
            Stride(axis=0),
            Stride(size=int(rows), axis=None),
            Stride(size=int(width), axis=0, step=1),
        ):
            return PerGroup(op.x, width, rows)
    return None


def _column_slice(op: Slice) -> SomeColumns | None:
    """Return a slice op as contiguous columns of a tensor in memory; else None.

    What is computed of a slice alone would have to be computed whole.
    """
    source = defining_op(op.x)
    if source is not None and not isinstance(source, func.CallOp):
        return None
    *rows, stride = Tensor.of(op.x).shape
    is_whole = op.sizes[:-1] == tuple(rows) and not any(op.start[:-1])
    match op.start[-1], op.sizes[-1], stride:
        case int(first), int(width), int(stride) if is_whole and op.strides[-1] == 1:
            return SomeColumns(op.x, width, first, stride)
    return None
