"""Tiles that programs compute, and where the elements of views lie for them.

A frame has axes: loops of a statement that one index goes through, the last one
fastest. A batch axis has one index for a program, rows and columns a range of them.
What a view reads goes along an axis in strides; strides of neighbouring loops that
merge need no division.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from aotc.dialects.movement.views import Strides, View, split
from aotc.dialects.sizes import affine
from aotc.dialects.types import (
    Shape,
    Size,
    SymbolicDim,
    compare_sizes,
    element_count,
    maximum,
    minimum,
    same_count,
)
from aotc.kernels.gpu import ops
from aotc.kernels.gpu.ops import IndexArithmetic, Int
from aotc.mlir import AffineExpr, Value, ir


class KernelSizes:
    """An emitter of symbolic sizes as integers of a GPU kernel.

    Args:
        integers: their arithmetic.
        symbols: the argument of the kernel that each symbol is.
    """

    def __init__(self, integers: IndexArithmetic, symbols: Sequence[Value]) -> None:
        self.integers, self._symbols = integers, symbols

    def of(self, size: Size) -> Int:
        """Return a static size as an int; emit a symbolic one as a value."""
        return self._of(size.expr) if isinstance(size, SymbolicDim) else size

    def _of(self, expr: AffineExpr) -> Int:
        """Emit an affine expression of symbols as an integer."""
        found = affine.extremum(expr)
        if found is not None:
            kind, *pair = found
            is_most = kind == "max"
            choose = self.integers.most if is_most else self.integers.least
            return choose(*map(self._of, pair))
        expr = expr.maybe_downcast()
        if isinstance(expr, ir.AffineConstantExpr):
            return int(expr.value)
        if isinstance(expr, ir.AffineSymbolExpr):
            position: int = expr.position
            return self._symbols[position]
        assert isinstance(expr, ir.AffineBinaryExpr)
        left, right = self._of(expr.lhs), self._of(expr.rhs)
        if isinstance(expr, ir.AffineAddExpr):
            return self.integers.add(left, right)
        if isinstance(expr, ir.AffineMulExpr):
            return self.integers.multiply(left, right)
        if isinstance(expr, ir.AffineModExpr):
            return self.integers.remainder(left, right)
        if isinstance(expr, ir.AffineCeilDivExpr):
            less = self.integers.add(right, -1)
            left = self.integers.add(left, less)
        return self.integers.divide(left, right)


@dataclass(frozen=True)
class TileAxis:
    """An axis of a program's tile: loops that one linear index goes through.

    Args:
        loops: of the statement, rising.
        total: how many indices there are.
        first: the index, or that of the first element of a tile.
        along: the distances of the elements of a tile from that one; None for a batch.
        inside: the mask of the indices that there are; None if all of a tile are.
    """

    loops: tuple[int, ...]
    total: Size
    first: Int
    along: Value | None = None
    inside: Value | None = None


@dataclass(frozen=True)
class Offset:
    """The offsets of a tile's elements in memory: a base, distances from it, and masks.

    Args:
        number: of the first one.
        along: the distances, a tile; 0 where all are one element.
        masks: where they are elements of the view, and of the source.
    """

    number: Int = 0
    along: Int = 0
    masks: tuple[Value, ...] = ()


@dataclass(frozen=True)
class Reindexing:
    """A change of loops: views over some loops become views over other loops.

    Args:
        shape: the sizes of the other loops.
        parts: the sizes that each loop is split into; None for loops that follow each
            other as they do there.
        order: of all parts.
    """

    shape: Shape
    parts: tuple[Shape, ...] | None = None
    order: tuple[int, ...] = ()

    @classmethod
    def of(cls, shape: Shape, read: View) -> Reindexing | None:
        """Return the reindexing from loops that read a value to loops over it, or None.

        None where they do not read each element of it once.

        Args:
            shape: the sizes of the loops over the value, in the order of its elements.
            read: the view of the value that has the loops as its axes.
        """
        axes = read.flat().axes
        rest = {n: s for n, s in enumerate(s for own in axes for s in own)}
        order: list[int] = []
        reached: Size = 1
        while rest:
            found = [n for n, s in rest.items() if same_count((s.step,), (reached,))]
            if not found or rest[found[0]].repeats:
                return None
            order.insert(0, found[0])
            reached = reached * rest.pop(found[0]).size
        parts = tuple(tuple(stride.size for stride in own) for own in axes)
        return cls(shape, parts, tuple(order))

    def view(self, view: View) -> View | None:
        """Return a view over the old loops as one over the new ones, or None."""
        if self.parts is not None:
            pieces: list[Strides] = []
            for own, sizes in zip(view.axes, self.parts, strict=True):
                found = split(own, sizes)
                if found is None:
                    return None
                pieces += found
            view = view.with_axes(pieces[n] for n in self.order)
        return view if view.shape == self.shape else view.reshape(self.shape)


@dataclass(frozen=True)
class WithoutLoop(Reindexing):
    """A reindexing that drops a loop along which reads are constant.

    Args:
        loop: of it.
    """

    loop: int = 0

    @classmethod
    def of_loops(cls, shape: Shape, loop: int) -> WithoutLoop:
        """Return the reindexing that drops one loop and keeps the others."""
        return cls((*shape[:loop], *shape[loop + 1 :]), loop=loop)

    def view(self, view: View) -> View | None:
        """Return a view without the dropped loop; None if it varies along that."""
        if any(not stride.repeats for stride in view.axes[self.loop]):
            return None
        axes = (*view.axes[: self.loop], *view.axes[self.loop + 1 :])
        return super().view(view.with_axes(axes))


@dataclass(frozen=True)
class Frame:
    """The axes of a program's tile, which together cover all loops of a statement.

    Args:
        sizes: writes sizes.
        axes: that together have each loop once.
        guard: whether the program takes part at all; None if it does.
    """

    sizes: KernelSizes
    axes: tuple[TileAxis, ...]
    guard: Value | None = None

    def offset(self, view: View, *inner: View) -> Offset:
        """Emit the offsets at which the tile reads a source, through nested views.

        Args:
            view: of the source, or of what the next view gives.
            inner: the views of each other after it, the last one of the source.
        """
        if inner:
            masks, axes = self._places(view)
            found = Frame(self.sizes, axes).offset(*inner)
            return replace(found, masks=(*masks, *found.masks))
        if view.fill is None:
            ((number, along),) = self._along(view.flat())
            return Offset(number, along, self._masks(view))
        integers = self.sizes.integers
        masks, axes = self._places(view)
        number, along = 0, 0
        for axis, step in zip(axes, _distances(view.source), strict=True):
            by = self.sizes.of(step)
            number = integers.add(number, integers.multiply(axis.first, by))
            along = integers.add(along, integers.multiply(axis.along or 0, by))
        return Offset(number, along, masks)

    def _places(self, view: View) -> tuple[tuple[Value, ...], tuple[TileAxis, ...]]:
        """Emit masks of a source's indices inside of it, and these as tile axes."""
        integers, masks = self.sizes.integers, [*self._masks(view)]
        axes = []
        for axis, ((first, rest), size) in enumerate(
            zip(self._along(view), view.source, strict=True)
        ):
            if view.fill is not None:
                index = integers.value(integers.add(first, rest))
                is_below, is_above = _may_be_outside(view, axis)
                if is_below:
                    masks.append(integers.is_at_least(index, 0))
                if is_above:
                    masks.append(integers.is_less(index, self.sizes.of(size)))
            along = None if isinstance(rest, int) else rest
            axes.append(TileAxis((axis,), size, first, along))
        return tuple(masks), tuple(axes)

    def index(self, view: View, axis: int) -> Value:
        """Emit the index along an axis of a view's source, for each tile element."""
        first, along = self._along(view)[axis]
        integers = self.sizes.integers
        return integers.value(integers.add(first, along))

    def strides(self, view: View) -> list[Strides]:
        """Return a view's strides in memory along each tile axis."""
        flat = view.flat()
        return [flat.group(axis.loops) for axis in self.axes]

    def _along(self, view: View) -> list[tuple[Int, Int]]:
        """Emit, for each axis of a view's source, the index as (base, distances)."""
        integers = self.sizes.integers
        numbers: list[Int] = [self.sizes.of(n) for n in view.begin]
        tiles: list[Int] = [0] * len(view.begin)
        for axis in self.axes:
            inner: Size = 1
            strides = view.group(axis.loops)
            for place, stride in reversed([*enumerate(strides)]):
                if stride.axis is not None:
                    at, step = stride.axis, self.sizes.of(stride.step)
                    first, along = axis.first, axis.along or 0
                    if len(strides) > 1:
                        index = self._index(axis, inner, stride.size if place else None)
                        is_tile = axis.along is not None
                        first, along = (0, index) if is_tile else (index, 0)
                    moved, further = (
                        integers.multiply(x, step) for x in (first, along)
                    )
                    numbers[at] = integers.add(numbers[at], moved)
                    tiles[at] = integers.add(tiles[at], further)
                inner = inner * stride.size
        return [*zip(numbers, tiles, strict=True)]

    def _index(self, axis: TileAxis, inner: Size, size: Size | None) -> Int:
        """Emit one stride's digit of an axis's linear index (index / inner % size)."""
        integers = self.sizes.integers
        whole = integers.add(axis.first, axis.along or 0)
        index = integers.divide(whole, self.sizes.of(inner))
        return index if size is None else integers.remainder(index, self.sizes.of(size))

    def _masks(self, view: View) -> tuple[Value, ...]:
        """Return the masks of the tile axes along which a view varies."""
        found = [
            axis.inside
            for axis in self.axes
            if any(not s.repeats for s in view.group(axis.loops))
        ]
        return tuple(mask for mask in (self.guard, *found) if mask is not None)

    @property
    def inside(self) -> list[Value]:
        """The masks of indices that exist, of each axis that has one; and the guard."""
        masks = [self.guard, *(axis.inside for axis in self.axes)]
        return [mask for mask in masks if mask is not None]

    @property
    def shape(self) -> ops.Shape | None:
        """The (rows, columns) of the whole tile; None if every axis is a batch axis."""
        along = [axis.along for axis in self.axes if axis.along is not None]
        return ops.common_shape(along)


def axis_of(
    sizes: KernelSizes,
    shape: Shape,
    loops: Sequence[int],
    first: Int,
    tile: int,
    at: int,
) -> TileAxis:
    """Emit the indices of rows or columns of a tile; return them as an axis.

    Args:
        sizes: writes sizes.
        shape: the sizes of all loops.
        loops: of the axis.
        first: the index of the first element.
        tile: how many elements the tile has.
        at: 0 for rows, 1 for columns.
    """
    total = element_count(tuple(shape[loop] for loop in loops))
    integers = sizes.integers
    along = integers.wide(ops.make_range(tile, at))
    inside = None
    if not (isinstance(total, int) and total > 0 and total % tile == 0):
        index = integers.value(integers.add(first, along))
        inside = integers.is_less(index, sizes.of(total))
    return TileAxis(tuple(loops), total, first, along, inside)


def rows_of_program(
    sizes: KernelSizes, shape: Shape, loops: Sequence[int], tile: int
) -> TileAxis:
    """Emit the indices of this program's block of rows; return them as an axis.

    Args:
        sizes: writes sizes.
        shape: the sizes of all loops.
        loops: of the rows.
        tile: how many rows a program has.
    """
    program = sizes.integers.wide(ops.program_id())
    first = sizes.integers.multiply(program, tile)
    return axis_of(sizes, shape, loops, first, tile, 0)


def batch_of(shape: Shape, loops: Sequence[int], index: Int) -> TileAxis:
    """Return a tile axis with a single index for the whole program."""
    total = element_count(tuple(shape[loop] for loop in loops))
    return TileAxis(tuple(loops), total, index)


def _may_be_outside(view: View, axis: int) -> tuple[bool, bool]:
    """Return whether a view's indices may be below 0, and whether beyond the end."""
    strides = [s for own in view.axes for s in own if s.axis == axis]
    first = last = view.begin[axis]
    for stride in strides:
        span = (stride.size - 1) * stride.step
        first = first + minimum(span, 0)
        last = last + maximum(span, 0)
    is_inside = (
        compare_sizes(first, ">=", 0),
        compare_sizes(last, "<", view.source[axis]),
    )
    return is_inside[0] is not True, is_inside[1] is not True


def _distances(shape: Shape) -> list[Size]:
    """Return the row-major strides of a shape."""
    return [element_count(shape[axis + 1 :]) for axis in range(len(shape))]
