"""Tensors that are others in another order: where their elements lie in memory.

A transpose, a reshape, a slice or several of them move nothing: the elements of an
axis are still at even distances, or at those of several axes, one inside the other. An
image whose pixels lie by phases (`subpixel_convolution`) has an axis of rows and
phases, and one of columns and phases.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from aotc.dialects.functions.walking import defining_op
from aotc.dialects.graph import view_of_result
from aotc.dialects.movement.views import View
from aotc.dialects.ops.shape import Reshape, Transpose
from aotc.dialects.ops.slicing import Slice
from aotc.dialects.types import Tensor, element_count
from aotc.mlir import Value

Move: TypeAlias = Reshape | Slice | Transpose


@dataclass(frozen=True)
class MemoryView:
    """A tensor as a strided view of another tensor's memory.

    Args:
        source: the other.
        view: of its memory, flat; only sizes of strides may be what a call decides.
    """

    source: Value
    view: View


def view_of(value: Value, first: int, least: int) -> MemoryView | None:
    """Return a tensor as a view of the earliest source that it can be read from.

    Args:
        value: the tensor.
        first: the axis from which on elements are to lie side by side.
        least: so many of them, unless there are fewer.

    Returns:
        None if not even its own memory can be read: an axis but the first is symbolic.
    """
    whole = element_count(Tensor.of(value).shape[first:])
    moves: list[Move] = []
    while isinstance(op := defining_op(value), (Reshape, Slice, Transpose)):
        moves.append(op)
        value = op.x
    while moves:
        found = view_through(value, moves)
        run = 0 if found is None else found.view.run(first)
        if run >= least or whole == run:
            return found
        value = moves.pop().y
    return view_through(value, ())


def view_through(value: Value, moves: Sequence[Move]) -> MemoryView | None:
    """Return the view of a tensor that a chain of moves makes; None if it is no view.

    None if that is no view, or one whose distances only a call decides.
    """
    view: View | None = View.of_memory(Tensor.of(value).shape)
    for op in reversed(moves):
        view = None if view is None else view_of_result(op, view)
    if view is None or not isinstance(view.begin[0], int):
        return None
    steps = [stride.step for axis in view.axes for stride in axis]
    is_static = all(isinstance(step, int) for step in steps)
    return MemoryView(value, view) if is_static else None
