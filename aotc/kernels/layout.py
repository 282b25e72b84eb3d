"""Layout in memory of the operands of a product of matrices, as strides.

    y[b, m, n] = sum over k of left[b, m, k] * right[b, k, n]

Rows, columns and what is summed over may each be several axes of a tensor. Where one
distance leads from each element to the next, they are taken as one axis. So a kernel
reads transposed operands, one head of many, and the windows over an image where they
are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from aotc.dialects.graph import remembered_by_signature, view_of_result
from aotc.dialects.movement.views import StridedLoop, View, common_loops
from aotc.dialects.ops.contraction import DotGeneral
from aotc.dialects.ops.windows import Windows
from aotc.dialects.types import Size, Tensor, element_count, static_size
from aotc.mlir import ir


@dataclass(frozen=True)
class OperandLayout:
    """The memory layout of a product's operands: loops and strides, in elements.

    Args:
        rows: how many there are at one distance.
        row: from one of them to the next.
        sums: the loops that are summed over, as few as they can be; steps are those in
            the left operand and in the right one, if that is not packed.
        batch: the loops that number products: those of the batch, and then those of the
            left operand that are not at one distance.
        is_readable: whether the columns of the right operand are side by side; if not,
            it has to be packed.
        splits_rows: whether some axes of the batch are of the left operand only.
    """

    rows: Size
    row: int
    sums: tuple[StridedLoop, ...]
    batch: tuple[StridedLoop, ...]
    is_readable: bool
    splits_rows: bool

    @property
    def shares_right(self) -> bool:
        """Return whether all products of the batch read the same right operand."""
        return all(loop.steps[1] == 0 for loop in self.batch)

    @property
    def products(self) -> Size:
        """The number of products in the batch."""
        return element_count(tuple(loop.size for loop in self.batch))

    @property
    def terms(self) -> Size:
        """The number of terms in each sum (K)."""
        return element_count(tuple(loop.size for loop in self.sums))

    @property
    def depth(self) -> int:
        """The stride from one term to the next in the left operand, in elements."""
        return static_size(self.sums[-1].steps[0])

    @property
    def right(self) -> int | None:
        """The stride between rows of the right operand; None if it must be packed."""
        return static_size(self.sums[-1].steps[1]) if self.is_readable else None

    def with_sizes(self, number_of: Callable[[Size], int]) -> OperandLayout:
        """Return the layout with symbolic sizes replaced by those of one call."""
        batch, sums = (
            tuple(replace(loop, size=number_of(loop.size)) for loop in loops)
            for loops in (self.batch, self.sums)
        )
        return replace(self, rows=number_of(self.rows), sums=sums, batch=batch)


def layout_of(op: DotGeneral) -> OperandLayout | None:
    """Return the layout of a product's operands; None if a kernel cannot read it.

    A left operand that is windows over an image is read from the image.
    """
    return layout_through(windows_of_left(op), op)


@remembered_by_signature
def layout_through(windows: Windows | None, op: DotGeneral) -> OperandLayout | None:
    """Return a product's layout, its left operand read through `windows`, or None."""
    (nest,) = DotGeneral.nests(op)
    read = _left_view(op, windows), View.identity(Tensor.of(op.rhs).shape)
    found = nest.views(read)
    assert found is not None  # each axis of an operand is one stride
    left, right = both = [view.flat() for view in found]
    batch, lead, columns = (
        _loops_where(both, nest.result_loops, repeats)
        for repeats in ([False, False], [False, True], [True, False])
    )
    sums = common_loops(both, [nest.combined_loops] * 2) or [StridedLoop(1, (1, 1))]
    rows = [StridedLoop(stride.size, (stride.step, 0)) for stride in left.group(lead)]
    inner = rows[-1] if rows else StridedLoop(1, (0, 0))
    if any(not isinstance(n, int) for n in (inner.steps[0], *sums[-1].steps)):
        return None
    return OperandLayout(
        rows=inner.size,
        row=static_size(inner.steps[0]),
        sums=tuple(sums),
        batch=(*common_loops(both, [batch] * 2), *rows[:-1]),
        is_readable=not any(s.step != 1 for s in right.group(columns)),
        splits_rows=len(rows) > 1,
    )


def _loops_where(
    views: Sequence[View], loops: Sequence[int], repeats: Sequence[bool]
) -> list[int]:
    """Return the loops along which each view repeats elements as its flag says."""
    return [
        loop
        for loop in loops
        if [stride.repeats for view in views for stride in view.axes[loop]] == repeats
    ]


def _left_view(op: DotGeneral, windows: Windows | None) -> View:
    """Return the view of a product's left operand in memory, through its windows."""
    if windows is None:
        return View.identity(Tensor.of(op.lhs).shape)
    view = view_of_result(windows, View.identity(Tensor.of(windows.x).shape))
    assert view is not None  # each axis of an image is one stride
    return view


def windows_of_left(op: DotGeneral) -> Windows | None:
    """Return the windows op that makes a product's left operand; None if none does.

    None where the right operand is the same windows, which is read as it lies.
    """
    owner = op.lhs.owner
    if isinstance(owner, ir.Block) or not isinstance(owner.opview, Windows):
        return None
    return None if op.rhs == op.lhs else owner.opview
