"""Kernels without reductions: elementwise ops and movement.

A program computes some rows and columns of each statement. Columns are the last loops
of the result; where a source lies along another loop, that is the last of the rows, so
that neighbours are read together as well as written.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce

from aotc.dialects.movement.views import View
from aotc.dialects.types import (
    Shape,
    Size,
    ceil_divide,
    compare_sizes,
    element_count,
    maximum,
)
from aotc.kernels.gpu import ops
from aotc.kernels.gpu.frames import Frame, Reindexing, TileAxis, axis_of, batch_of
from aotc.kernels.gpu.kernel import Writing
from aotc.kernels.gpu.machines import Gpu
from aotc.kernels.gpu.tiles import TileEvaluator
from aotc.kernels.schedule import Schedule
from aotc.kernels.terms import Statement, Term
from aotc.kernels.typical import typical_size
from aotc.mlir import Value

COLUMNS = 1024  # of a program, where all lies along the columns
_SIDE = 64  # of a tile that turns rows into columns
_LONG = 16  # neighbours in memory that are worth to be read, or written, together


@dataclass(frozen=True)
class ElementTile(Schedule):
    """The schedule of an elementwise or data-movement kernel on a GPU.

    Args:
        rows: of a tile.
        columns: of it.
        warps: that compute it.
    """

    rows: int
    columns: int
    warps: int = 4


@dataclass(frozen=True)
class Split:
    """A statement's loops, split into batch, rows and columns of a tile."""

    batch: tuple[int, ...]
    rows: tuple[int, ...]
    columns: tuple[int, ...]

    @classmethod
    def of(cls, statement: Statement) -> Split:
        """Split a copy statement's loops so that reads and writes are coalesced."""
        sizes = statement.nest.sizes
        loops = range(len(sizes))
        last = next((n for n in reversed(loops) if sizes[n] != 1), 0)
        for read in statement.reads():
            view = read.views[-1]
            other = fastest_loop(view) if len(read.views) == 1 else None
            if other is not None and other < last:
                columns = _merging(view, last, other + 1)
                rows = _merging(view, other, 0)
                if _is_wide(columns, sizes):
                    rest = {n for n in loops if n <= last} - {*columns, *rows}
                    return cls(
                        tuple(sorted(rest)), rows, (*columns, *loops[last + 1 :])
                    )
        return cls((), (), tuple(loops))


def _merging(view: View, last: int, least: int) -> tuple[int, ...]:
    """Return the loops up to `last` that merge into one stride of the source."""
    first, flat = last, view.flat()
    while first > least and len(flat.group(range(first - 1, last + 1))) == 1:
        first -= 1
    return tuple(range(first, last + 1))


def _is_wide(loops: tuple[int, ...], sizes: Shape) -> bool:
    """Return whether loops have enough elements for a side of a tile."""
    return typical_size(element_count(tuple(sizes[n] for n in loops)), _SIDE) >= _LONG


def fastest_loop(view: View) -> int | None:
    """Return the loop along which a view reads long contiguous runs, or None."""
    if view.fill is not None or element_count(view.shape) == 0:
        return None
    for loop, strides in enumerate(view.flat().axes):
        if strides and not strides[-1].repeats and strides[-1].step == 1:
            is_long = compare_sizes(strides[-1].size, ">=", _LONG)
            return loop if is_long else None
    return None


def plan(term: Term, machine: Gpu) -> ElementTile:
    """Return the schedule for a term of copy statements on a chip."""
    splits = [(Split.of(each), each.nest.sizes) for each in term.statements]
    turned = [(split, sizes) for split, sizes in splits if split.rows]
    if not turned:
        return ElementTile(1, COLUMNS)
    return ElementTile(
        max(_side(split.rows, sizes) for split, sizes in turned),
        max(_side(split.columns, sizes) for split, sizes in turned),
    )


def _side(loops: tuple[int, ...], sizes: Shape) -> int:
    """Return the power of two, up to a limit, that covers some loops."""
    total = typical_size(element_count(tuple(sizes[loop] for loop in loops)), _SIDE)
    found = _LONG
    while found < min(total, _SIDE):
        found *= 2
    return found


def programs(term: Term, schedule: ElementTile) -> Size:
    """Return the number of program instances of a kernel of copy statements."""
    counts = [_count(each, schedule) for each in term.statements]
    return reduce(maximum, counts)  # 0 where a call has no elements


def _count(statement: Statement, schedule: ElementTile) -> Size:
    """Return the number of program instances that a statement needs."""
    split, sizes = Split.of(statement), statement.nest.sizes
    count = element_count(tuple(sizes[loop] for loop in split.batch))
    for loops, tile in (
        (split.rows, schedule.rows),
        (split.columns, schedule.columns),
    ):
        if loops:
            total = element_count(tuple(sizes[loop] for loop in loops))
            count = count * ceil_divide(total, tile)
    return count


def write(writing: Writing, schedule: ElementTile) -> None:
    """Emit the body of a kernel of copy statements at the insertion point.

    A program takes part in each statement that has so many. Statements of the same
    loops share a tile, and so what they read.
    """
    number = writing.sizes.integers.wide(ops.program_id())
    for tile, statement, elements in compute(
        writing, writing.term.statements, schedule, number
    ):
        tile.store(statement, elements)


def compute(
    writing: Writing,
    statements: Sequence[Statement],
    schedule: ElementTile,
    number: ops.Int,
) -> Iterator[tuple[TileEvaluator, Statement, Value]]:
    """Emit a program's computations; yield (tile, statement, elements) to store.

    Args:
        writing: of the kernel.
        statements: of it.
        schedule: how they are cut up.
        number: of the program.
    """
    tiles: dict[tuple[Shape, Split], TileEvaluator] = {}
    is_one = len({_key_of(each) for each in statements}) == 1
    for statement in statements:
        key = _key_of(statement)
        if key not in tiles:
            count = None if is_one else _count(statement, schedule)
            tiles[key] = _tile(writing, statement, schedule, number, count)
        tile, (factor,) = tiles[key], statement.factors
        elements = ops.spread(tile.value(factor), tile.frame.shape)
        if statement.nest.place is None:
            tile.held[statement.value] = tile.hold(statement, elements)
        yield tile, statement, elements


def _key_of(statement: Statement) -> tuple[Shape, Split]:
    """Return a statement's loop sizes and split, by which statements share a tile."""
    return statement.nest.sizes, Split.of(statement)


def _tile(
    writing: Writing,
    statement: Statement,
    schedule: ElementTile,
    number: ops.Int,
    taking: Size | None,
) -> TileEvaluator:
    """Emit the indices of a program's tile of a statement; return its evaluator.

    Args:
        writing: of the kernel.
        statement: what is computed.
        schedule: how it is cut up.
        number: of the program.
        taking: how many programs take part; None for all of them.
    """
    sizes, shape = writing.sizes, statement.nest.sizes
    integers, split = sizes.integers, Split.of(statement)
    rest, guard = number, None
    if taking is not None:
        guard = integers.is_less(integers.value(rest), sizes.of(taking))
    axes: list[TileAxis] = []
    for loops, tile, at in (
        (split.columns, schedule.columns, 1),
        (split.rows, schedule.rows, 0),
    ):
        if loops or at == 1:
            total = element_count(tuple(shape[loop] for loop in loops))
            count = sizes.of(ceil_divide(total, tile))
            number, rest = integers.remainder(rest, count), integers.divide(rest, count)
            first = integers.multiply(number, tile)
            axes.insert(0, axis_of(sizes, shape, loops, first, tile, at))
    axes.insert(0, batch_of(shape, split.batch, rest))
    frame = Frame(sizes, tuple(axes), guard)
    return TileEvaluator(frame, writing.memories, {}, Reindexing(shape))
