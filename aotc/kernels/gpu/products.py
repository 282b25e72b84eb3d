"""Kernels of sums of products: contractions, and convolutions as they are.

The elements of windows are read where they lie.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from aotc.dialects.functions.walking import in_order
from aotc.dialects.movement.nests import COPY
from aotc.dialects.types import (
    Size,
    Tensor,
    ceil_divide,
    compare_sizes,
    lowered_element,
    same_count,
)
from aotc.kernels.gpu import ops
from aotc.kernels.gpu.frames import Frame, Reindexing, TileAxis, axis_of, batch_of
from aotc.kernels.gpu.kernel import Writing
from aotc.kernels.gpu.machines import Gpu
from aotc.kernels.gpu.matrices import (
    Counts,
    Loops,
    ProductTile,
    before_widening,
    factor_dtype,
    fastest,
    joined_nanoseconds,
    total,
)
from aotc.kernels.gpu.ops import Int
from aotc.kernels.gpu.tiles import Held, TileEvaluator, cast, write_followers
from aotc.kernels.terms import Apply, Expression, Read, Statement, Term
from aotc.mlir import Operation, Value, arith

_THIN = 4  # rows, or columns, which are a waste of a tile
_GROUP = 8  # tiles of rows beside each other, whose programs read the same columns
_GAIN = 0.95  # of the time of kernels of their own, at most
_WARP = 32  # threads, at least
_REGISTERS, _OF_ALL = 255, 1 << 16  # of a thread, and of all that run side by side
_OTHERS = 40  # that hold neither sums nor what is made of them
_OF_FUNCTIONS = 2  # values that a tanh or an exponential takes besides
_NARROW = 32  # columns of a strip, at least


@dataclass(frozen=True)
class ProductWithEpilogue:
    """A product of a term, and the copy statements that compute its epilogue."""

    anchor: Statement
    followers: tuple[Statement, ...]


def groups_of(term: Term) -> list[ProductWithEpilogue]:
    """Return a term's independent products with their epilogues; [] for other terms."""
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
    """Return the statement of a term's only product; None for other terms."""
    groups = groups_of(term)
    return groups[0].anchor if len(groups) == 1 else None


def _is_product(statement: Statement) -> bool:
    """Return whether a statement is a product with enough rows and columns."""
    is_product = statement.nest.combine == "add" and len(statement.factors) == 2
    if not (is_product and factor_dtype(statement)):
        return False
    loops = Loops.of(statement)
    sides = (total(statement, own) for own in (loops.rows, loops.columns))
    return not any(compare_sizes(side, "<", _THIN) is True for side in sides)


def plan(term: Term, machine: Gpu) -> ProductTile:
    """Return the schedule of least modelled time for a term of products."""
    return plan_for([each.anchor for each in groups_of(term)], machine)


def plan_for(anchors: Sequence[Statement], machine: Gpu) -> ProductTile:
    """Return the schedule of least modelled time for products in one kernel."""
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
    """Return the typical sizes of each product."""
    return tuple(map(Counts.of, anchors))


def programs(term: Term, schedule: ProductTile) -> Size:
    """Return the number of program instances of a kernel of products."""
    counts = [_program_count(each.anchor, schedule) for each in groups_of(term)]
    return sum(counts[1:], start=counts[0])


def _program_count(anchor: Statement, schedule: ProductTile) -> Size:
    """Return the number of program instances for one product: its tiles."""
    loops = Loops.of(anchor)
    rows = ceil_divide(total(anchor, loops.rows), schedule.rows)
    columns = ceil_divide(total(anchor, loops.columns), schedule.columns)
    return total(anchor, loops.batch) * rows * columns


def strips_of(group: ProductWithEpilogue, schedule: ProductTile) -> int:
    """Return into how many strips of columns a tile's epilogue is split, for registers.

    As few as leave registers for what a thread has of a strip at a time: a gelu and its
    derivative together take six values of each sum, which for 64 sums would spill.
    """
    threads = schedule.warps * _WARP
    sums, values = schedule.rows * schedule.columns // threads, _values_at_once(group)
    room = min(_REGISTERS, _OF_ALL // threads) - _OTHERS - sums
    strips = schedule.strips
    while sums // strips * (values - 1) > room and schedule.columns // strips > _NARROW:
        strips *= 2
    return strips


def _values_at_once(group: ProductWithEpilogue) -> int:
    """Return the peak number of live values per sum in an epilogue."""
    given = group.anchor.value
    count = Tensor.of(given).elements
    factors = (factor for each in group.followers for factor in each.factors)
    nodes = (x for factor in factors for x in factor.nodes() if isinstance(x, Apply))
    made = [x.op for x in nodes if same_count((_elements(x.op),), (count,))]
    if not made:
        return 1
    computed = in_order(made)
    places = {op.results[0]: place for place, op in enumerate(computed)}
    last = {given: 0}
    for place, op in enumerate(computed):
        last |= {x: place for x in op.operands if x in places or x == given}
    most = max(
        1 + sum(places.get(x, -1) < place < end for x, end in last.items())
        for place in range(len(computed))
    )
    return most + _OF_FUNCTIONS * any(type(op).is_approximated for op in computed)


def _elements(op: Operation) -> Size:
    """Return the number of elements of an op's first result."""
    return Tensor.of(op.results[0]).elements


def write(writing: Writing, schedule: ProductTile) -> None:
    """Emit the body of a kernel of products at the insertion point.

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
    """Emit one product and its epilogue for a program's tile."""
    _ProductWriter(writing, schedule, group, program).write()


class _ProductWriter:
    """A writer of a product and its epilogue, for one program's tile.

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
        integers, loops = sizes.integers, self._loops
        first = integers.multiply(row, schedule.rows)
        self._rows = axis_of(sizes, self._shape, loops.rows, first, schedule.rows, 0)
        first = integers.multiply(column, schedule.columns)
        count = max(schedule.strips, strips_of(group, schedule))
        self._width = width = schedule.columns // count
        self._strips = [
            axis_of(sizes, self._shape, loops.columns, begin, width, 1)
            for n in range(count)
            for begin in [integers.add(first, n * width)]
        ]

    def _place(self, program: Int) -> tuple[Int, Int, Int]:
        """Emit a program's (batch entry, tile row, tile column), grouped for caches.

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
        """Emit the loop over the depth, the epilogue and the stores."""
        anchor, schedule = self._anchor, self._schedule
        shape = schedule.rows, self._width
        none = ops.constant(ops.tensor_of(shape, lowered_element(anchor.dtype)), 0)
        sizes = self._writing.sizes
        end = sizes.integers.value(sizes.of(total(anchor, self._loops.summed)))
        step = sizes.integers.value(schedule.depth)
        sums = ops.loop(end, step, [none] * len(self._strips), self._step)
        for columns, own in zip(self._strips, sums, strict=True):
            self._write_results(columns, own)

    def _step(self, k: Value, sums: Sequence[Value]) -> list[Value]:
        """Emit one step of the loop over the depth, for all strips."""
        left = self._factor(0, self._rows, self._depth(k, 1))
        precision = self._writing.precision if self._dtype == "f32" else "ieee"
        return [
            ops.dot(left, self._factor(1, self._depth(k, 0), columns), own, precision)
            for columns, own in zip(self._strips, sums, strict=True)
        ]

    def _depth(self, k: Value, at: int) -> TileAxis:
        """Return the tile axis of a step's slice of the depth."""
        sizes, depth = self._writing.sizes, self._schedule.depth
        return axis_of(sizes, self._shape, self._loops.summed, k, depth, at)

    def _factor(self, number: int, rows: TileAxis, columns: TileAxis) -> Value:
        """Emit the load of a factor's tile, 0 beyond the depth."""
        frame = Frame(self._writing.sizes, (self._batch, rows, columns))
        loops = Reindexing(self._shape)
        tile = TileEvaluator(frame, self._writing.memories, {}, loops)
        expression = before_widening(self._anchor.factors[number])
        found = tile.value(expression)
        found = cast(found, Tensor.of(expression.value).dtype, self._dtype)
        found = ops.spread(found, frame.shape)
        depth = columns if number == 0 else rows
        return zero_beyond(found, expression, [depth])

    def _write_results(self, columns: TileAxis, sums: Value) -> None:
        """Emit the epilogue of the sums of a strip, and the stores of results."""
        anchor = self._anchor
        kept = self._shape[: len(anchor.nest.result_loops)]
        frame = Frame(self._writing.sizes, (self._batch, self._rows, columns))
        held: dict[Value, Held] = {}
        tile = TileEvaluator(frame, self._writing.memories, held, Reindexing(kept))
        elements = cast(sums, anchor.dtype, Tensor.of(anchor.value).dtype)
        tile.finish(anchor, elements)
        write_followers(tile, self._group.followers)


def zero_beyond(x: Value, factor: Expression, axes: Sequence[TileAxis]) -> Value:
    """Emit a factor's tile with 0 beyond the ends of axes, where not 0 already."""
    open_ended = [axis for axis in axes if not is_zero_beyond(factor, axis)]
    mask = ops.both([axis.inside for axis in open_ended if axis.inside is not None])
    if mask is None:
        return x
    zero = ops.constant(x.type, 0)
    return arith.select(ops.spread(mask, ops.shape_of(x)), x, zero)


def is_zero_beyond(factor: Expression, axis: TileAxis) -> bool:
    """Return whether a factor reads as 0 beyond the end of an axis, being masked."""
    if not isinstance(factor, Read):
        return False
    if any(view.fill not in (None, 0) for view in factor.views):
        return False
    strides = (stride for n in axis.loops for stride in factor.views[0].axes[n])
    return any(not stride.repeats for stride in strides)
