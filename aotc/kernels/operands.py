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
    """An operand, as a kernel reads it, whose shape is that of the kernel's rows.

    Args:
        source: what it is made of.
    """

    source: Value

    @property
    def in_memory(self) -> bool:
        """Return whether the source is in memory, as all but constants without axes
        are.
        """
        return not _is_constant(self.source)

    def fits(self, columns: Shape) -> bool:
        """Return whether the operand is of its class, in rows of columns of these
        axes.
        """
        return True


@dataclass(frozen=True)
class Counted(KernelOperand):
    """The index along an axis, or a size: what code knows without memory."""

    @property
    def in_memory(self) -> bool:
        """Return False, as the source is not in memory."""
        return False


@dataclass(frozen=True)
class Whole(KernelOperand):
    """An element of its own for each of the result."""


@dataclass(frozen=True)
class ScalarOperand(KernelOperand):
    """An operand that is one number for all elements."""


@dataclass(frozen=True)
class OfColumns(KernelOperand):
    """An operand read in rows of so many columns.

    Args:
        width: the columns.
    """

    width: Size

    def fits(self, columns: Shape) -> bool:
        """Return whether rows have as many columns."""
        return self.width == element_count(columns)


@dataclass(frozen=True)
class PerColumn(OfColumns):
    """A vector along the columns, which all rows read."""


@dataclass(frozen=True)
class PerRow(OfColumns):
    """An element for each row, which all columns read."""

    width: int


@dataclass(frozen=True)
class PerGroup(OfColumns):
    """A vector along the columns for so many rows, one after the other.

    Args:
        rows: that read one vector.
    """

    width: int
    rows: int


@dataclass(frozen=True)
class SomeColumns(OfColumns):
    """Columns side by side of a tensor that has more of them, along its last axis.

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
    """Return the plainest description of an operand."""
    op = defining_op(value)
    found: KernelOperand | None = None
    if _is_constant(value):
        found = ScalarOperand(value)
    elif is_repeated(value):
        found = _repeated(value)
    elif isinstance(op, Slice):
        found = _some_columns(op)
    return found or Whole(value)


def viewed_operand(value: Value) -> KernelOperand:
    """Return the description of an operand for code that reads through any view."""
    found = operand_of(value)
    if isinstance(defining_op(found.source), (Iota, Dimension)):
        return Counted(found.source)
    if isinstance(found, Whole) and is_repeated(value):
        return viewed_operand(_moves(value)[-1].x)
    return found


def is_repeated(value: Value) -> bool:
    """Return whether an operand repeats something that is smaller in memory."""
    return isinstance([defining_op(value), *_moves(value)][-1], Broadcast)


def _moves(value: Value) -> list[Broadcast | Reshape]:
    """Return the broadcast that makes a value, after the reshapes that follow it."""
    found: list[Broadcast | Reshape] = []
    while isinstance(op := defining_op(value), (Broadcast, Reshape)):
        found.append(op)
        if isinstance(op, Broadcast):
            break
        value = op.x
    return found


def _is_constant(value: Value) -> bool:
    return isinstance(defining_op(value), Constant) and Tensor.of(value).rank == 0


def _repeated(value: Value) -> KernelOperand | None:
    """Return the description of a broadcast's operand; None if there is no class for
    it.
    """
    moves = _moves(value)
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


def _some_columns(op: Slice) -> SomeColumns | None:
    """Return a slice as columns of a tensor in memory; None for other slices.

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
