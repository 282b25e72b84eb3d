"""Where in memory the operands of a product of matrices lie, as distances.

    y[b, m, n] = sum over k of left[b, m, k] * right[b, k, n]

Rows, columns and what is summed over may each be several axes of a tensor, if one
distance leads from each element to the next. So a kernel reads transposed operands, and
one head of many, where they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from aotc.dialects.ops.contraction import DotGeneral, free_axes
from aotc.dialects.types import Size, Tensor, element_count

Axes = tuple[int, ...]


@dataclass(frozen=True)
class BatchAxis:
    """One product for each index of it.

    Args:
        size: how many.
        left: elements from one to the next, in the left operand.
        right: the same in the right one, if that is not packed.
    """

    size: Size
    left: Size
    right: Size


@dataclass(frozen=True)
class Layout:
    """Distances in the operands, in elements.

    Args:
        terms: of each sum.
        row: from one row of the left operand to the next.
        depth: from one element of a row to the next.
        right: from one row of the right operand to the next, where its columns are side
            by side; None where they are not, and it has to be packed.
        batch: the axes of both operands that number products.
    """

    terms: Size
    row: int
    depth: int
    right: int | None
    batch: tuple[BatchAxis, ...] = ()

    @property
    def products(self) -> Size:
        """How many there are."""
        return element_count(tuple(axis.size for axis in self.batch))

    def with_sizes(self, number_of: Callable[[Size], int]) -> Layout:
        """The same for the sizes of one call."""
        batch = (replace(axis, size=number_of(axis.size)) for axis in self.batch)
        return replace(self, terms=number_of(self.terms), batch=tuple(batch))


def layout_of(op: DotGeneral) -> Layout | None:
    """How the operands of a product lie; None if those of the left one lie unevenly."""
    lhs, rhs = Tensor.of(op.lhs), Tensor.of(op.rhs)
    left, right = contracted_axes(op)
    row = _distance(lhs, free_axes(lhs.rank, op.lhs_batch, left))
    depth = _distance(lhs, left)
    if not isinstance(row, int) or not isinstance(depth, int):
        return None
    is_readable = _distance(rhs, free_axes(rhs.rank, op.rhs_batch, right)) == 1
    below = _distance(rhs, right) if is_readable else None
    terms = element_count(tuple(lhs.shape[axis] for axis in left))
    right_step = below if isinstance(below, int) else None
    return Layout(terms, row, depth, right_step, _batch(op))


def contracted_axes(op: DotGeneral) -> tuple[Axes, Axes]:
    """The axes of both operands that are summed over, as they lie in the left one."""
    pairs = sorted(zip(op.lhs_contract, op.rhs_contract, strict=True))
    return tuple(left for left, _ in pairs), tuple(right for _, right in pairs)


def _batch(op: DotGeneral) -> tuple[BatchAxis, ...]:
    """The batch axes, as few as they can be."""
    lhs, rhs = Tensor.of(op.lhs), Tensor.of(op.rhs)
    found: list[BatchAxis] = []
    for left, right in zip(op.lhs_batch, op.rhs_batch, strict=True):
        axis = BatchAxis(lhs.shape[left], _stride(lhs, left), _stride(rhs, right))
        outer = found[-1] if found else None
        if outer and (outer.left, outer.right) == (
            axis.size * axis.left,
            axis.size * axis.right,
        ):
            found[-1] = replace(axis, size=outer.size * axis.size)
        elif axis.size != 1:
            found.append(axis)
    return tuple(found)


def _distance(x: Tensor, axes: Sequence[int]) -> Size | None:
    """Elements from one index of some axes, taken as one, to the next; None if many."""
    longer = [axis for axis in axes if x.shape[axis] != 1]
    for outer, inner in pairwise(longer):
        if _stride(x, outer) != x.shape[inner] * _stride(x, inner):
            return None
    return _stride(x, longer[-1]) if longer else 1


def _stride(x: Tensor, axis: int) -> Size:
    return element_count(x.shape[axis + 1 :])
