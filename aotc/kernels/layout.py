"""Where in memory the operands of a product of matrices lie, as distances.

    y[b, m, n] = sum over k of left[b, m, k] * right[b, k, n]

Rows, columns and what is summed over may each be several axes of a tensor. Where one
distance leads from each element to the next, they are taken as one axis. So a kernel
reads transposed operands, one head of many, and the windows over an image where they
are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from aotc.dialects.ops.contraction import DotGeneral, free_axes
from aotc.dialects.ops.windows import Windows
from aotc.dialects.types import Size, Tensor, element_count
from aotc.mlir import ir

Axes = tuple[int, ...]


@dataclass(frozen=True)
class Axis:
    """An axis of a product.

    Args:
        size: of it.
        left: elements from one index to the next, in the left operand.
        right: the same in the right one, if that is not packed.
    """

    size: Size
    left: Size
    right: Size


@dataclass(frozen=True)
class Layout:
    """Distances in the operands, in elements.

    Args:
        rows: how many there are at one distance.
        row: from one of them to the next.
        sums: the axes that are summed over, as few as they can be.
        batch: the axes that number products: those of the batch, and then those of the
            left operand that are not at one distance.
        is_readable: whether the columns of the right operand are side by side; if not,
            it has to be packed.
        splits_rows: whether some axes of the batch are of the left operand only.
    """

    rows: Size
    row: int
    sums: tuple[Axis, ...]
    batch: tuple[Axis, ...]
    is_readable: bool
    splits_rows: bool

    @property
    def shares_right(self) -> bool:
        """Whether all products have one right operand."""
        return all(axis.right == 0 for axis in self.batch)

    @property
    def products(self) -> Size:
        """How many there are."""
        return element_count(tuple(axis.size for axis in self.batch))

    @property
    def terms(self) -> Size:
        """How many each sum has."""
        return element_count(tuple(axis.size for axis in self.sums))

    @property
    def depth(self) -> int:
        """Elements from one term to the next, in the left operand."""
        return _static(self.sums[-1].left)

    @property
    def right(self) -> int | None:
        """From one row of the right operand to the next; None if it has no rows."""
        return _static(self.sums[-1].right) if self.is_readable else None

    def with_sizes(self, number_of: Callable[[Size], int]) -> Layout:
        """The same for the sizes of one call."""
        batch, sums = (
            tuple(replace(axis, size=number_of(axis.size)) for axis in axes)
            for axes in (self.batch, self.sums)
        )
        return replace(self, rows=number_of(self.rows), sums=sums, batch=batch)


def layout_of(op: DotGeneral) -> Layout | None:
    """How the operands of a product lie; None if a kernel cannot read them so.

    A left operand that is windows over an image is read from the image.
    """
    lhs, rhs = Tensor.of(op.lhs), Tensor.of(op.rhs)
    left, right = contracted_axes(op)
    steps, others = _left_strides(op), _contiguous(rhs)
    sums = _axes(lhs, steps, others, left, right)
    free = free_axes(lhs.rank, op.lhs_batch, left)
    rows = _merge([Axis(lhs.shape[axis], steps[axis], 0) for axis in free])
    inner = rows[-1] if rows else Axis(1, 0, 0)
    inner_steps = inner.left, sums[-1].left, sums[-1].right
    if any(not isinstance(step, int) for step in inner_steps):
        return None
    columns = [
        Axis(rhs.shape[axis], others[axis], 0)
        for axis in free_axes(rhs.rank, op.rhs_batch, right)
    ]
    batch = (
        _axes(lhs, steps, others, op.lhs_batch, op.rhs_batch) if op.lhs_batch else ()
    )
    return Layout(
        rows=inner.size,
        row=_static(inner.left),
        sums=sums,
        batch=(*batch, *rows[:-1]),
        is_readable=[axis.left for axis in _merge(columns)] in ([], [1]),
        splits_rows=len(rows) > 1,
    )


def contracted_axes(op: DotGeneral) -> tuple[Axes, Axes]:
    """The axes of both operands that are summed over, as they lie in the left one."""
    pairs = sorted(zip(op.lhs_contract, op.rhs_contract, strict=True))
    return tuple(left for left, _ in pairs), tuple(right for _, right in pairs)


def windows_of_left(op: DotGeneral) -> Windows | None:
    """The windows that the left operand is, which are read from their image.

    None where the right operand is the same windows, which is read as it lies.
    """
    owner = op.lhs.owner
    if isinstance(owner, ir.Block) or not isinstance(owner.opview, Windows):
        return None
    return None if op.rhs == op.lhs else owner.opview


def _axes(
    lhs: Tensor,
    left_steps: Sequence[Size],
    right_steps: Sequence[Size],
    left: Axes,
    right: Axes,
) -> tuple[Axis, ...]:
    """Axes of both operands, as few as they can be, but at least one."""
    found = _merge(
        [
            Axis(lhs.shape[x], left_steps[x], right_steps[y])
            for x, y in zip(left, right, strict=True)
        ]
    )
    return tuple(found) or (Axis(1, 1, 1),)


def _merge(axes: Sequence[Axis]) -> list[Axis]:
    """Those at one distance as one; none of size 1."""
    found: list[Axis] = []
    for axis in axes:
        outer = found[-1] if found else None
        if axis.size == 1:
            continue
        if outer is not None and (outer.left, outer.right) == (
            axis.size * axis.left,
            axis.size * axis.right,
        ):
            found[-1] = replace(axis, size=outer.size * axis.size)
        else:
            found.append(axis)
    return found


def _left_strides(op: DotGeneral) -> list[Size]:
    """Elements from one index to the next along each axis of the left operand."""
    view = windows_of_left(op)
    if view is None:
        return _contiguous(Tensor.of(op.lhs))
    first, *spatial, last = _contiguous(Tensor.of(view.x))
    moved = [n * step for n, step in zip(view.strides, spatial, strict=True)]
    within = [n * step for n, step in zip(view.dilation, spatial, strict=True)]
    return [first, *moved, *within, last]


def _contiguous(x: Tensor) -> list[Size]:
    return [element_count(x.shape[axis + 1 :]) for axis in range(x.rank)]


def _static(size: Size) -> int:
    known: Any = size
    assert isinstance(known, int)
    return known
