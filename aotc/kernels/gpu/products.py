"""Kernels of sums of products: contractions, and convolutions as they are.

The elements of windows are read where they lie.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from aotc.dialects.movement.nests import COPY
from aotc.dialects.types import (
    Size,
    Tensor,
    ceil_divide,
    compare_sizes,
    lowered_element,
)
from aotc.kernels.gpu import ops
from aotc.kernels.gpu.frames import Frame, Reindexing, TileAxis, axis_of, batch_of
from aotc.kernels.gpu.kernel import Writing
from aotc.kernels.gpu.machines import Gpu
from aotc.kernels.gpu.matrices import (
    Counts,
    Loops,
    ProductTile,
    factor_dtype,
    fastest,
    joined_nanoseconds,
    total,
    widened,
)
from aotc.kernels.gpu.ops import Int
from aotc.kernels.gpu.tiles import Held, TileEvaluator, cast, write_followers
from aotc.kernels.terms import Expression, Read, Statement, Term
from aotc.mlir import Value, arith

_THIN = 4  # rows, or columns, which are a waste of a tile
_GROUP = 8  # tiles of rows beside each other, whose programs read the same columns
_GAIN = 0.95  # of the time of kernels of their own, at most


@dataclass(frozen=True)
class ProductWithEpilogue:
    """A product of a term, and the statements that follow it, which combine nothing."""

    anchor: Statement
    followers: tuple[Statement, ...]


def groups_of(term: Term) -> list[ProductWithEpilogue]:
    """Return the products of a term, which do not depend on each other.

    None if it is of another form.
    """
    anchors = [each for each in term.statements if each.nest.combine != COPY]
    if not all(map(_is_product, anchors)):
        return []
    if any(each.nest.place is not None for each in term.statements):
        return []
    owners: dict[Value, Statement] = {}
    followers: dict[Statement, list[Statement]] = {each: [] for each in anchors}
    for statement in term.statements:
        read = {owners[r.source] for r in statement.reads() if r.source in owners}
        if statement in followers and not read:
            owners[statement.value] = statement
        elif statement not in followers and len(read) == 1:
            (anchor,) = read
            owners[statement.value] = anchor
            followers[anchor].append(statement)
        else:
            return []
    return [ProductWithEpilogue(each, tuple(own)) for each, own in followers.items()]


def anchor_of(term: Term) -> Statement | None:
    """Return the product of a term; None if it is of another form, or has several."""
    groups = groups_of(term)
    return groups[0].anchor if len(groups) == 1 else None


def _is_product(statement: Statement) -> bool:
    """Return whether a statement is a product of matrices that are not thin."""
    is_product = statement.nest.combine == "add" and len(statement.factors) == 2
    if not (is_product and factor_dtype(statement)):
        return False
    loops = Loops.of(statement)
    sides = (total(statement, own) for own in (loops.rows, loops.columns))
    return not any(compare_sizes(side, "<", _THIN) is True for side in sides)


def plan(term: Term, machine: Gpu) -> ProductTile:
    """Return the schedule of a term on a chip: that which the model finds fastest."""
    return plan_for([each.anchor for each in groups_of(term)], machine)


def plan_for(anchors: Sequence[Statement], machine: Gpu) -> ProductTile:
    """Return the schedule of products that one kernel computes, by the model."""
    return fastest(_counts_of(anchors), factor_dtype(anchors[0]), machine)


def plan_joined(anchors: Sequence[Statement], machine: Gpu) -> ProductTile | None:
    """Return the schedule of one kernel for products; None if it is no faster."""
    joined, dtype = _counts_of(anchors), factor_dtype(anchors[0])

    def time(products: tuple[Counts, ...]) -> float:
        tile = fastest(products, dtype, machine)
        return joined_nanoseconds(tile, products, dtype, machine)

    is_faster = time(joined) < _GAIN * sum(time((each,)) for each in joined)
    return fastest(joined, dtype, machine) if is_faster else None


def _counts_of(anchors: Sequence[Statement]) -> tuple[Counts, ...]:
    return tuple(map(Counts.of, anchors))


def programs(term: Term, schedule: ProductTile) -> Size:
    """Return how many programs there are."""
    counts = [_program_count(each.anchor, schedule) for each in groups_of(term)]
    return sum(counts[1:], start=counts[0])


def _program_count(anchor: Statement, schedule: ProductTile) -> Size:
    loops = Loops.of(anchor)
    rows = ceil_divide(total(anchor, loops.rows), schedule.rows)
    columns = ceil_divide(total(anchor, loops.columns), schedule.columns)
    return total(anchor, loops.batch) * rows * columns


def write(writing: Writing, schedule: ProductTile) -> None:
    """Write the kernel of a term at the insertion point.

    Of several products, a program has a tile of one.
    """
    sizes, groups = writing.sizes, groups_of(writing.term)
    integers = sizes.integers
    program: Int = integers.wide(ops.program_id())
    if len(groups) == 1:
        _ProductWriter(writing, schedule, groups[0], program).write()
        return
    first: Int = 0
    for group in groups:
        end = integers.add(first, sizes.of(_program_count(group.anchor, schedule)))
        begins = integers.is_at_least(program, first)
        number = integers.add(program, integers.multiply(first, -1))
        ops.when(
            arith.andi(begins, integers.is_less(program, end)),
            partial(_write_group, writing, schedule, group, number),
        )
        first = end


def _write_group(
    writing: Writing, schedule: ProductTile, group: ProductWithEpilogue, program: Int
) -> None:
    _ProductWriter(writing, schedule, group, program).write()


class _ProductWriter:
    """A writer of a product and its epilogue, for one tile.

    Args:
        writing: of the term.
        schedule: of it.
        group: the product, and what follows it.
        program: the number of the program, among those of the product.
    """

    def __init__(
        self,
        writing: Writing,
        schedule: ProductTile,
        group: ProductWithEpilogue,
        program: Int,
    ) -> None:
        self._writing, self._schedule, self._group = writing, schedule, group
        self._anchor = anchor = group.anchor
        self._shape, self._loops = anchor.nest.sizes, Loops.of(anchor)
        self._dtype = factor_dtype(anchor)
        sizes = writing.sizes
        batch, row, column = self._place(program)
        self._batch = batch_of(self._shape, self._loops.batch, batch)
        self._rows, self._columns = (
            axis_of(
                sizes, self._shape, loops, sizes.integers.multiply(n, tile), tile, at
            )
            for loops, n, tile, at in (
                (self._loops.rows, row, schedule.rows, 0),
                (self._loops.columns, column, schedule.columns, 1),
            )
        )

    def _place(self, program: Int) -> tuple[Int, Int, Int]:
        """Return the matrix of a program, and the tile of it.

        Programs that run side by side have tiles side by side, a few rows of them, so
        that they read the same factors.
        """
        integers, of = self._writing.sizes.integers, self._writing.sizes.of
        rows = of(
            ceil_divide(total(self._anchor, self._loops.rows), self._schedule.rows)
        )
        columns = of(
            ceil_divide(
                total(self._anchor, self._loops.columns), self._schedule.columns
            )
        )
        matrix = integers.multiply(rows, columns)
        batch: Int = 0
        if self._loops.batch:
            batch = integers.divide(program, matrix)
            program = integers.remainder(program, matrix)
        in_group = integers.multiply(columns, _GROUP)
        group = integers.divide(program, in_group)
        first = integers.multiply(group, _GROUP)
        left = integers.add(rows, integers.multiply(first, -1))
        height = integers.least(left, _GROUP)
        place = integers.remainder(program, in_group)
        row = integers.add(first, integers.remainder(place, height))
        return batch, row, integers.divide(place, height)

    def write(self) -> None:
        """Write the kernel's statements."""
        anchor, schedule = self._anchor, self._schedule
        sums = ops.constant(
            ops.tensor_of(
                (schedule.rows, schedule.columns), lowered_element(anchor.dtype)
            ),
            0,
        )
        sizes = self._writing.sizes
        end = sizes.integers.value(sizes.of(total(anchor, self._loops.summed)))
        step = sizes.integers.value(schedule.depth)
        (sums,) = ops.loop(end, step, [sums], lambda k, held: [self._step(k, held[0])])
        self._write_results(sums)

    def _step(self, k: Value, sums: Value) -> Value:
        """Add the products of some of the depth."""
        left = self._factor(0, self._rows, self._depth(k, 1))
        right = self._factor(1, self._depth(k, 0), self._columns)
        precision = self._writing.precision if self._dtype == "f32" else "ieee"
        return ops.dot(left, right, sums, precision)

    def _depth(self, k: Value, at: int) -> TileAxis:
        sizes, depth = self._writing.sizes, self._schedule.depth
        return axis_of(sizes, self._shape, self._loops.summed, k, depth, at)

    def _factor(self, number: int, rows: TileAxis, columns: TileAxis) -> Value:
        """Return a tile of a factor, which is 0 beyond the depth."""
        frame = Frame(self._writing.sizes, (self._batch, rows, columns))
        loops = Reindexing(self._shape)
        tile = TileEvaluator(frame, self._writing.memories, {}, loops)
        expression = widened(self._anchor.factors[number])
        found = tile.value(expression)
        found = cast(found, Tensor.of(expression.value).dtype, self._dtype)
        found = ops.spread(found, frame.shape)
        depth = columns if number == 0 else rows
        return zero_beyond(found, expression, [depth])

    def _write_results(self, sums: Value) -> None:
        """Compute the epilogue of the sums, and store the results."""
        anchor = self._anchor
        kept = self._shape[: len(anchor.nest.kept)]
        frame = Frame(self._writing.sizes, (self._batch, self._rows, self._columns))
        held: dict[Value, Held] = {}
        tile = TileEvaluator(frame, self._writing.memories, held, Reindexing(kept))
        elements = cast(sums, anchor.dtype, Tensor.of(anchor.value).dtype)
        tile.finish(anchor, elements)
        write_followers(tile, self._group.followers)


def zero_beyond(x: Value, factor: Expression, axes: Sequence[TileAxis]) -> Value:
    """Return a tile of a factor with 0 beyond the ends of axes."""
    open_ended = [axis for axis in axes if not is_zero_beyond(factor, axis)]
    mask = ops.both([axis.inside for axis in open_ended if axis.inside is not None])
    if mask is None:
        return x
    zero = ops.constant(x.type, 0)
    return arith.select(ops.spread(mask, ops.shape_of(x)), x, zero)


def is_zero_beyond(factor: Expression, axis: TileAxis) -> bool:
    """Return whether a factor is read as 0 beyond the end of an axis."""
    if not isinstance(factor, Read):
        return False
    if any(view.fill not in (None, 0) for view in factor.views):
        return False
    strides = (stride for n in axis.loops for stride in factor.views[0].axes[n])
    return any(not stride.repeats for stride in strides)
