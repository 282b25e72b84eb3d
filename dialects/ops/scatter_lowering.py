"""Lowering of scatters: `iree_linalg_ext.scatter` on a table of rows.

The table has one row for each position that can be written (batches and indexed axes,
taken together) and one column for each element of a window:

    positions[n]      the row of update n, in range
    updates[n, c]     what does not count ("drop") is the reduction's start
    table[r, c]       the reduction over all updates of row r, in order

Note [scatter]: IREE goes through the updates one after the other, at a cost of size(x)
+ size(updates) and in the same order on every target. The table starts as a fill, and x
is combined with it afterwards, because IREE 3.13 writes into its caller's buffer where
an op starts from an argument of the program. An x that is a fill is the start itself.
"""

import math as pymath
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from aotc.core import dtypes as dt
from aotc.dialects import iree_text
from aotc.dialects.iree_text import bodies
from aotc.dialects.lowering import Lowering
from aotc.dialects.lowering.conversion import accumulator, conversion
from aotc.dialects.lowering.scalars import Body
from aotc.dialects.lowering.sources import filled_with
from aotc.dialects.movement.permutations import inverse
from aotc.dialects.ops.indexing import IndexMap, checked_indices
from aotc.dialects.types import (
    Tensor,
    bounds,
    element_count,
    lowered_element,
    minimum,
)
from aotc.mlir import Value, arith, ir

if TYPE_CHECKING:
    from aotc.dialects.ops.reduction import Reduction


@dataclass(frozen=True)
class Scattering:
    """A scatter to be lowered: destination type, updates, index map and reduction.

    Args:
        x: the type of the whole.
        updates: the type of what is written.
        indices: the type of each array of indices.
        at: how their axes belong together.
        reduction: the class of the reduction op that combines.
    """

    x: Tensor
    updates: Tensor
    indices: Tensor
    at: IndexMap
    reduction: "type[Reduction]"

    @property
    def dtype(self) -> str:
        """The dtype that updates are combined in."""
        return accumulator(self.x.dtype)

    @property
    def combine(self) -> Body:
        """The function that emits the combination of two elements."""
        return self.reduction.combine["f" if dt.is_float(self.dtype) else self.dtype[0]]

    @property
    def start(self) -> float | int:
        """The neutral element of the reduction."""
        return self.reduction.start(self.dtype)

    @property
    def rows(self) -> list[int]:
        """The axes of x that select a row of the table that updates are written to."""
        return [*map(self.at.source, self.at.shared_axes), *self.at.axes]

    @property
    def columns(self) -> list[int]:
        """The axes of x that select a column of the table."""
        return [self.at.source(axis) for axis in self.at.window]

    @property
    def expanded_table(self) -> Tensor:
        """The type of the table with an axis for each axis of x."""
        sizes = [self.x.shape[axis] for axis in (*self.rows, *self.columns)]
        return Tensor(tuple(sizes), self.dtype)

    @property
    def table(self) -> Tensor:
        """The type of the table of rows and columns that updates are written to."""
        return _matrix(self.expanded_table, len(self.rows))


def _matrix(kind: Tensor, leading: int) -> Tensor:
    """Return the type with `leading` axes merged into one, the others into another."""
    sizes = kind.shape[:leading], kind.shape[leading:]
    return kind.with_shape([element_count(part) for part in sizes])


def lower_scatter(
    low: Lowering,
    scatter: Scattering,
    x: Value,
    updates: Value,
    indices: Sequence[Value],
) -> Value:
    """Emit a scatter as linalg and IREE's scatter op; return its lowered result."""
    start = filled_with(x)
    if start is not None and scatter.dtype != scatter.x.dtype:
        start = conversion(scatter.x.dtype, scatter.dtype)(start)
    first = low.scalar(scatter.dtype, scatter.start) if start is None else start
    written = _write(low, scatter, first, updates, indices)
    written = _in_order_of_x(
        low, scatter, low.reshape(written, scatter.table, scatter.expanded_table)
    )
    wide = scatter.x.with_dtype(scatter.dtype)
    if start is None:
        before = low.convert(x, scatter.x, scatter.dtype)
        written = low.pointwise([before, written], wide, scatter.combine)
    return low.convert(written, wide, scatter.x.dtype)


def _in_order_of_x(low: Lowering, scatter: Scattering, written: Value) -> Value:
    """Emit the expanded table with its axes in the order of x."""
    order = [*scatter.rows, *scatter.columns]
    if order == sorted(order):
        return written
    read = ir.AffineMap.get(len(order), 0, [ir.AffineDimExpr.get(a) for a in order])
    return low.generic(
        [written],
        [read, ir.AffineMap.get_identity(len(order))],
        low.empty(scatter.x.with_dtype(scatter.dtype)),
        ["parallel"] * len(order),
        lambda element, _: element,
    )


def _write(
    low: Lowering,
    scatter: Scattering,
    start: Value,
    updates: Value,
    indices: Sequence[Value],
) -> Value:
    """Emit a table filled with `start` that all updates are scattered into."""
    count = len(scatter.at.along)
    kind = scatter.updates.with_dtype(scatter.dtype)
    updates = low.convert(updates, scatter.updates, scatter.dtype)
    order = [*scatter.at.along, *scatter.at.window]
    ordered = kind.with_shape([kind.shape[axis] for axis in order])
    if scatter.at.mode == "drop" or order != sorted(order):
        updates = _ordered_updates(low, scatter, ordered, order, updates, indices)
    matrix = _matrix(ordered, count)
    updates = low.reshape(updates, ordered, matrix)
    rows, where = _rows(low, scatter, indices)
    column = Tensor((element_count(where.shape), 1), where.dtype)
    rows = low.reshape(rows, where, column)
    start = iree_text.scalar_barrier(start)
    operands = [
        _keep_writable(low, scatter, updates, matrix),
        _keep_writable(low, scatter, rows, column),
        low.empty(scatter.table),
        start,
    ]
    kinds = [value.type for value in operands]
    text = bodies.scatter(f"arith.{scatter.combine.__name__}", *kinds[:3])
    (table,) = iree_text.call("scatter", operands, [kinds[2]], text)
    return table


def _keep_writable(low: Lowering, scatter: Scattering, x: Value, kind: Tensor) -> Value:
    """Emit `x`, a row per update, cut to no rows for a table that has none.

    IREE checks no position: without this, updates of an axis of symbolic size that is
    empty when the model runs would be written past the end of the memory.
    """
    if all(bounds(scatter.x.shape[axis])[0] > 0 for axis in scatter.at.axes):
        return x
    count, columns = kind.shape
    left = minimum(count, count * scatter.table.shape[0])
    return low.slice(x, kind.with_shape((left, columns)), (0, 0), (1, 1))


def _ordered_updates(
    low: Lowering,
    scatter: Scattering,
    ordered: Tensor,
    order: Sequence[int],
    updates: Value,
    indices: Sequence[Value],
) -> Value:
    """Emit updates in the table's order, the neutral element for dropped ones."""
    loops = [ir.AffineDimExpr.get(axis) for axis in inverse(order)]
    inner = [ir.AffineDimExpr.get(loop) for loop in range(len(scatter.at.along))]
    maps = [ir.AffineMap.get(len(order), 0, part) for part in (loops, inner)]

    def body(update: Value, *numbers: Value) -> Value:
        if scatter.at.mode == "clip":
            return update
        _, inside = checked_indices(
            low, scatter.x, scatter.indices, scatter.at, numbers[:-1]
        )
        return arith.select(inside, update, low.scalar(scatter.dtype, scatter.start))

    return low.generic(
        [updates, *indices],
        [maps[0], *(maps[1] for _ in indices), ir.AffineMap.get_identity(len(order))],
        low.empty(ordered),
        ["parallel"] * len(order),
        body,
    )


def _rows(
    low: Lowering, scatter: Scattering, indices: Sequence[Value]
) -> tuple[Value, Tensor]:
    """Emit the table's row index of each update; return also the indices' type."""
    sizes = [scatter.x.shape[axis] for axis in scatter.rows]
    known = [size for size in sizes if isinstance(size, int)]
    dtype = "i32" if pymath.prod(known) < 1 << 31 else "i64"
    rows = Tensor(scatter.indices.shape, dtype)
    batch = [scatter.at.along.index(axis) for axis in scatter.at.shared_axes]

    def body(*numbers: Value) -> Value:
        found, _ = checked_indices(low, scatter.x, scatter.indices, scatter.at, numbers)
        first, *others = [*map(low.loop_index, batch), *found]
        for size, place in zip(sizes[1:], others, strict=True):
            first = arith.addi(arith.muli(first, low.size(size)), place)
        return arith.index_cast(lowered_element(dtype), first)

    return low.pointwise(indices, rows, body), rows
