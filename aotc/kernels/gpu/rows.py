"""Kernels of reductions, and of cascades of them: sums, softmax, norms, pooling.

Also of products by a vector, which are no work for instructions for matrices.

A program has some rows, which are the loops that are kept, and goes along their
columns, which are those that are combined: all at once where these are few, so that
each element is read once, or else by blocks, in each statement anew.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np

from aotc.core.dtypes import UNSIGNED, bits, is_float, to_numpy
from aotc.dialects.movement.nests import COPY
from aotc.dialects.types import (
    Shape,
    Size,
    Tensor,
    ceil_divide,
    element_count,
    lowered_element,
    same_count,
)
from aotc.kernels.gpu import ops
from aotc.kernels.gpu.elements import fastest_loop
from aotc.kernels.gpu.frames import (
    Frame,
    Reindexing,
    TileAxis,
    axis_of,
    rows_of_program,
)
from aotc.kernels.gpu.kernel import Writing
from aotc.kernels.gpu.lifting import CannotLiftError
from aotc.kernels.gpu.machines import Gpu
from aotc.kernels.gpu.tiles import Held, TileEvaluator, cast
from aotc.kernels.schedule import Schedule
from aotc.kernels.terms import Statement, Term
from aotc.kernels.typical import typical_size
from aotc.mlir import Value, arith

_MOST = 1 << 14  # columns that are computed at once
_ELEMENTS = 1 << 11  # of a tile that is worth a program
_LEAST = 1 << 7  # elements, one for each thread
_BESIDE = 64  # rows that lie side by side in memory, and so are read together
_LINE = 16  # of them that memory has in a line
_USUAL_COLUMNS = 1024
_RESIDENT = 8  # programs that a multiprocessor runs side by side
START = 2000.0  # nanoseconds of a launch
WAIT = 700.0  # nanoseconds until what is asked of memory is there and added up

_COMBINE = {
    "add": (arith.addf, arith.addi, arith.addi),
    "multiply": (arith.mulf, arith.muli, arith.muli),
    "maximum": (arith.maximumf, arith.maxsi, arith.maxui),
    "minimum": (arith.minimumf, arith.minsi, arith.minui),
}


@dataclass(frozen=True)
class ReduceTile(Schedule):
    """The schedule of a kernel of reductions on a GPU.

    Args:
        rows: of a program.
        columns: of a block of them.
        warps: that compute it.
    """

    rows: int
    columns: int
    warps: int = 4


def anchor_of(term: Term) -> Statement | None:
    """Return the first reduction of a term that this form computes; None for others."""
    found = [each for each in term.statements if each.nest.combine != COPY]
    if not found or any(each.nest.place is not None for each in term.statements):
        return None
    is_known = all(each.nest.combine in _COMBINE for each in found)
    are_products = [len(each.factors) > 1 for each in found]
    is_sum = all(each.nest.combine == "add" for each in found if len(each.factors) > 1)
    return found[0] if is_known and is_sum and sum(are_products) <= 1 else None


def _kept(anchor: Statement) -> Shape:
    """Return the sizes of the loops that a reduction keeps."""
    return anchor.nest.sizes[: len(anchor.nest.result_loops)]


def _columns(anchor: Statement) -> Size:
    """Return the number of elements that each result of a reduction combines."""
    return element_count(anchor.nest.sizes[len(anchor.nest.result_loops) :])


@dataclass(frozen=True)
class ReductionWork:
    """The typical sizes and memory traffic of a reduction.

    Args:
        kept: results.
        columns: elements that each is made of.
        moved: bytes that are read and written.
        is_beside: whether neighbours in memory belong to different results.
        is_known: whether calls decide nothing of the columns.
    """

    kept: int
    columns: int
    moved: int
    is_beside: bool
    is_known: bool = True

    @classmethod
    def of(cls, term: Term, anchor: Statement) -> ReductionWork:
        """Return the typical work of a term's reduction."""
        columns, reads = _columns(anchor), anchor.reads()
        loops = [fastest_loop(x.views[-1]) for x in reads if len(x.views) == 1]
        is_beside = any(
            loop in anchor.nest.result_loops for loop in loops if loop is not None
        )
        return cls(
            typical_size(element_count(_kept(anchor)), 1 << 20),
            typical_size(columns, _USUAL_COLUMNS),
            moved_bytes(term),
            is_beside,
            isinstance(columns, int),
        )

    def in_parts(self, parts: int) -> ReductionWork:
        """Return the work of computing partial sums, `parts` for each result."""
        return replace(self, kept=self.kept * parts, columns=self.columns // parts)


def moved_bytes(term: Term) -> int:
    """Return the bytes that a kernel reads and writes in most calls.

    Of a table of which it looks rows up, no more than it reads.
    """
    most: dict[Value, int] = {}
    for statement in term.statements:
        count = typical_size(element_count(statement.nest.sizes), 1 << 20)
        for source in {read.source for read in statement.reads()}:
            most[source] = most.get(source, 0) + count
    found = 0
    for x in (*term.arguments, *term.results):
        kind = Tensor.of(x)
        elements = typical_size(kind.elements, 1 << 20)
        found += min(elements, most.get(x, elements)) * bits(kind.dtype) // 8
    return found


def plan(term: Term, machine: Gpu) -> ReduceTile:
    """Return the schedule for a term of reductions on a chip."""
    anchor = anchor_of(term)
    assert anchor is not None
    return _tile_for(ReductionWork.of(term, anchor), machine)


def _tile_for(work: ReductionWork, machine: Gpu) -> ReduceTile:
    """Return the schedule for a reduction's typical work on a chip."""
    rows, needed = work.kept, power_of_two(work.columns)
    if work.is_beside:
        sides = (min(n, power_of_two(rows)) for n in (_BESIDE, _BESIDE // 2, _LINE))
        tiles = [ReduceTile(n, min(_ELEMENTS // n, needed)) for n in sides]
        return min(tiles, key=lambda tile: _steps(tile, work, machine))
    is_whole = work.is_known and needed <= _MOST
    along = needed if is_whole else _ELEMENTS
    most = min(max(1, _ELEMENTS // along), power_of_two(rows))
    least = min(max(1, _LEAST // along), most)
    filling = power_of_two(rows // (4 * machine.multiprocessors))
    warps = 4 if along <= 2 * _ELEMENTS else 8
    return ReduceTile(min(most, max(least, filling)), along, warps)


def nanoseconds(work: ReductionWork, machine: Gpu) -> float:
    """Return the modelled time of a reduction on a chip.

    Each step of a program waits for memory, which gives no more than its bandwidth.
    """
    steps = _steps(_tile_for(work, machine), work, machine)
    return START + max(work.moved / machine.bandwidth, steps * WAIT)


def _steps(tile: ReduceTile, work: ReductionWork, machine: Gpu) -> int:
    """Return how many steps of program instances run one after the other."""
    count, steps = -(-work.kept // tile.rows), -(-work.columns // tile.columns)
    return -(-count // (_RESIDENT * machine.multiprocessors)) * steps


def power_of_two(count: int) -> int:
    """Return the least power of two that is not less than a count."""
    return 1 << max(0, count - 1).bit_length()


def programs(term: Term, schedule: ReduceTile) -> Size:
    """Return the number of program instances of a kernel of reductions."""
    anchor = anchor_of(term)
    assert anchor is not None
    return ceil_divide(element_count(_kept(anchor)), schedule.rows)


def write(writing: Writing, schedule: ReduceTile) -> None:
    """Emit the body of a kernel of reductions at the insertion point."""
    _RowWriter(writing, schedule).write()


class _RowWriter:
    """A writer of the statements of a reduction's term, for a program's rows.

    Args:
        writing: of the term.
        schedule: of it.
    """

    def __init__(self, writing: Writing, schedule: ReduceTile) -> None:
        anchor = anchor_of(writing.term)
        assert anchor is not None
        self._writing, self._schedule, self._anchor = writing, schedule, anchor
        self._shape, self._kept = anchor.nest.sizes, _kept(anchor)
        self._rows = rows_of_program(
            writing.sizes, self._shape, anchor.nest.result_loops, schedule.rows
        )
        self._held: dict[Value, Held] = {}  # in the frame of the rows alone
        self._wide: dict[Value, Held] = {}  # in that of rows and columns
        columns = _columns(anchor)
        self._is_whole = isinstance(columns, int) and columns <= schedule.columns
        self._whole = self._tile(0) if self._is_whole else None

    def write(self) -> None:
        """Emit all statements of the term, independent reductions together."""
        results = {*self._writing.term.results}
        for group in _together(self._writing.term.statements):
            statement = group[0]
            if statement.nest.combine != COPY:
                self._reduce(group)
            elif same_count(statement.nest.sizes, self._kept):
                self._compute_rows(statement)
            else:
                self._compute_all(statement, is_result=statement.value in results)

    def _tile(self, first: ops.Int) -> TileEvaluator:
        """Return the evaluator of the tile of columns from `first` on."""
        columns = axis_of(
            self._writing.sizes,
            self._shape,
            self._anchor.nest.combined_loops,
            first,
            self._schedule.columns,
            1,
        )
        return self._tile_of((self._rows, columns), self._wide, self._shape)

    def _narrow(self) -> TileEvaluator:
        """Return the evaluator for values of one element per row."""
        return self._tile_of((self._rows,), self._held, self._kept)

    def _tile_of(
        self, axes: tuple[TileAxis, ...], held: dict[Value, Held], shape: Shape
    ) -> TileEvaluator:
        """Return an evaluator for some tile axes and loops."""
        frame = Frame(self._writing.sizes, axes)
        return TileEvaluator(frame, self._writing.memories, held, Reindexing(shape))

    def _reduce(self, statements: Sequence[Statement]) -> None:
        """Emit independent reductions over the columns, and keep their results."""
        for nest in (each.nest for each in statements):
            if nest.sizes != self._shape or nest.reduced != self._anchor.nest.reduced:
                raise CannotLiftError("reductions over other loops")
        dtypes = [each.dtype for each in statements]
        combines = [combination(each.nest.combine, each.dtype) for each in statements]
        shape = self._schedule.rows, self._schedule.columns
        neutral = [
            ops.constant(
                ops.tensor_of(shape, lowered_element(each.dtype)),
                _signed_number(each.nest.start, each.dtype),
            )
            for each in statements
        ]

        def elements(tile: TileEvaluator) -> list[Value]:
            mask = tile.frame.axes[-1].inside
            found = []
            for statement, start in zip(statements, neutral, strict=True):
                made = ops.spread(_product(tile, statement), tile.frame.shape)
                if mask is not None:
                    inside = ops.spread(mask, tile.frame.shape)
                    made = arith.select(inside, made, start)
                found.append(made)
            return found

        def add(tile: TileEvaluator, held: Sequence[Value]) -> list[Value]:
            made = zip(combines, held, elements(tile), strict=True)
            return [combine(x, y) for combine, x, y in made]

        if self._whole is not None:
            totals = elements(self._whole)
        else:
            totals = self._loop(neutral, add)
        for statement, dtype, combine, total in zip(
            statements, dtypes, combines, totals, strict=True
        ):
            found = ops.reduce(total, combine)
            found = cast(found, dtype, Tensor.of(statement.value).dtype)
            self._hold(statement, found)

    def _compute_rows(self, statement: Statement) -> None:
        """Emit a copy statement with one element per row."""
        (factor,) = statement.factors
        tile = self._narrow()
        found = ops.spread(tile.value(factor), (self._schedule.rows, 1))
        self._hold(statement, found)

    def _hold(self, statement: Statement, elements: Value) -> None:
        """Emit the store of one element per row, and keep the tile in registers."""
        narrow = self._narrow()
        narrow.store(statement, elements)
        held = narrow.hold(statement, elements)
        self._held[statement.value] = held
        self._wide[statement.value] = Held(elements, [*held.strides, ()])

    def _compute_all(self, statement: Statement, *, is_result: bool) -> None:
        """Emit a copy statement over rows and columns, block by block."""
        (factor,) = statement.factors
        if not same_count(statement.nest.sizes, self._shape):
            raise CannotLiftError("elements of other loops")

        def store(tile: TileEvaluator) -> list[Value]:
            tile.store(statement, tile.value(factor))
            return []

        if self._whole is not None:
            store(self._whole)
            made = self._whole.value(factor)
            self._wide[statement.value] = self._whole.hold(statement, made)
        elif not is_result:
            raise CannotLiftError("a block that is kept")
        else:
            self._loop([], lambda tile, _: store(tile))

    def _loop(
        self,
        carried: list[Value],
        body: Callable[[TileEvaluator, list[Value]], list[Value]],
    ) -> list[Value]:
        """Emit a loop over blocks of columns with carried values."""
        integers = self._writing.sizes.integers
        end = integers.value(self._writing.sizes.of(_columns(self._anchor)))
        step = integers.value(self._schedule.columns)
        return ops.loop(end, step, carried, lambda k, x: body(self._tile(k), [*x]))


def _together(statements: Sequence[Statement]) -> list[list[Statement]]:
    """Group consecutive reductions that do not depend on each other."""
    found: list[list[Statement]] = []
    for each in statements:
        last = found[-1] if found else []
        made = {other.value for other in last if other.nest.combine != COPY}
        is_free = made and not any(read.source in made for read in each.reads())
        if each.nest.combine != COPY and is_free:
            last.append(each)
        else:
            found.append([each])
    return found


def _product(tile: TileEvaluator, statement: Statement) -> Value:
    """Emit the elementwise product of a statement's factors on a tile."""
    made = [
        cast(tile.value(factor), Tensor.of(factor.value).dtype, statement.dtype)
        for factor in statement.factors
    ]
    multiply = combination("multiply", statement.dtype)
    return reduce(lambda x, y: multiply(*ops.together(x, y)), made)


def _signed_number(number: float, dtype: str) -> float:
    """Return a number in a dtype, reinterpreted as signed for unsigned dtypes."""
    found = np.asarray(number).astype(to_numpy(dtype))
    if is_float(dtype):
        return float(found)
    return int(found.view(f"i{found.itemsize}"))


def combination(name: str, dtype: str) -> Callable[[Value, Value], Value]:
    """Return the function that emits a reduction's combining op for a dtype."""
    of_floats, signed, unsigned = _COMBINE[name]
    found = of_floats if is_float(dtype) else unsigned if dtype in UNSIGNED else signed
    return lambda x, y: found(x, y)
