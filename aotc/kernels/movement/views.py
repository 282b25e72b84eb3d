"""Tensors that are others in another order: where their elements lie in memory.

A transpose, a reshape, a slice or several of them move nothing: the elements of an
axis are still at even distances, or at those of several axes, one inside the other. An
image whose pixels lie by phases (`subpixel_convolution`) has an axis of rows and
phases, and one of columns and phases.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from aotc.dialects.ops.shape import Reshape, Transpose
from aotc.dialects.ops.slicing import Slice
from aotc.dialects.types import Shape, Size, Tensor, element_count
from aotc.kernels.arguments import Arguments
from aotc.kernels.epilogue import defining_op
from aotc.kernels.vectors import add, index, scale
from aotc.mlir import Value, arith

Move: TypeAlias = Reshape | Slice | Transpose


@dataclass(frozen=True)
class Stride:
    """Elements at an even distance.

    Args:
        size: how many there are; a call may decide it.
        step: from one to the next, in elements of the memory.
    """

    size: Size
    step: int


Axis = tuple[Stride, ...]  # one inside the other, outer ones first


@dataclass(frozen=True)
class View:
    """Where the elements of a tensor lie.

    Args:
        source: the tensor whose memory holds them.
        axes: of the tensor that is viewed.
        begin: of its first element.
    """

    source: Value
    axes: tuple[Axis, ...]
    begin: int = 0

    @classmethod
    def of_whole(cls, value: Value) -> View | None:
        """A tensor as it lies; None if its axes but the first are not static."""
        shape = Tensor.of(value).shape
        steps = [element_count(shape[axis + 1 :]) for axis in range(len(shape))]
        strides = [
            (Stride(size, step),)
            for size, step in zip(shape, steps, strict=True)
            if isinstance(step, int)
        ]
        return cls(value, tuple(strides)) if len(strides) == len(shape) else None

    def through(self, op: Move) -> View | None:
        """What an op makes of what is viewed; None if it is not of this form."""
        if isinstance(op, Transpose):
            axes = tuple(self.axes[axis] for axis in op.permutation)
            return View(self.source, axes, self.begin)
        return self._slice(op) if isinstance(op, Slice) else self._reshape(op.shape)

    def _slice(self, op: Slice) -> View | None:
        axes, begin = [], self.begin
        cuts = zip(op.start, op.sizes, op.strides, Tensor.of(op.x).shape, strict=True)
        for axis, (start, size, stride, whole) in zip(self.axes, cuts, strict=True):
            if size == whole:
                axes.append(axis)
                continue
            joined, *others = _fewest_strides([axis]) or [Stride(1, 0)]
            if others or not isinstance(start, int):
                return None
            begin += start * joined.step
            axes.append((Stride(size, joined.step * stride),))
        return View(self.source, tuple(axes), begin)

    def _reshape(self, shape: Shape) -> View | None:
        rest = self.strides
        axes = []
        for size in reversed(shape):
            found = _take_inner(rest, size)
            if found is None:
                return None
            axes.append(found)
        return View(self.source, tuple(reversed(axes)), self.begin)

    @property
    def strides(self) -> list[Stride]:
        """All axes in order, by the fewest strides."""
        return _fewest_strides(self.axes)

    def run(self, first: int) -> int:
        """How many elements lie side by side, along the axes from `first` on."""
        strides = _fewest_strides(self.axes[first:])
        size, step = (strides[-1].size, strides[-1].step) if strides else (1, 1)
        return size if step == 1 and isinstance(size, int) else 1

    def place(self, given: Arguments, row: Value, column: Value, first: int) -> Value:
        """Where an element lies, at the insertion point.

        Args:
            given: the sizes.
            row: its number along the axes before `first`.
            column: its number along the others.
            first: the axis.
        """
        before, after = (
            _fewest_strides(self.axes[:first]),
            _fewest_strides(self.axes[first:]),
        )
        begin = add(_distance(given, before, row), _distance(given, after, column))
        return add(begin, self.begin)


def view_of(value: Value, first: int, least: int) -> View | None:
    """A tensor as a view of the first of those it is made of that can be read so.

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
        found = _view_through(value, moves)
        if found is not None and (
            found.run(first) >= least or whole == found.run(first)
        ):
            return found
        value = moves.pop().y
    return View.of_whole(value)


def _view_through(value: Value, moves: Sequence[Move]) -> View | None:
    """What some ops, the last one first, make of a tensor; None if it is no view."""
    found = View.of_whole(value)
    for op in reversed(moves):
        found = None if found is None else found.through(op)
    return found


def _fewest_strides(axes: Iterable[Axis]) -> list[Stride]:
    """The same elements in the same order by the fewest strides."""
    found: list[Stride] = []
    for inner in (stride for axis in axes for stride in axis):
        if inner.size == 1:
            continue
        outer = found[-1] if found else None
        if outer is not None and outer.step == inner.size * inner.step:
            found[-1] = Stride(outer.size * inner.size, inner.step)
        else:
            found.append(inner)
    return found


def _take_inner(strides: list[Stride], size: Size) -> Axis | None:
    """Take an axis of a size from the end of some strides; None if it is none of it."""
    found: list[Stride] = []
    while size != 1:
        if not strides:
            return None
        last = strides.pop()
        if last.size == size:
            return (last, *found)
        if not isinstance(size, int) or not isinstance(last.size, int):
            return None
        if last.size % size == 0:
            strides.append(Stride(last.size // size, last.step * size))
            return (Stride(size, last.step), *found)
        if size % last.size:
            return None
        found.insert(0, last)
        size //= last.size
    return tuple(found)


def _distance(given: Arguments, strides: Sequence[Stride], number: Value) -> Value:
    """How far an element lies from the first one, by its number."""
    found = index(0)
    for stride in reversed(strides[1:]):
        size = given.size(stride.size)
        here = arith.remui(number, size)
        number = arith.divui(number, size)
        found = arith.addi(found, scale(here, stride.step))
    return arith.addi(found, scale(number, strides[0].step)) if strides else found
