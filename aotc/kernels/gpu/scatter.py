"""Kernels of scatters that add, such as the gradient of an embedding.

A program has some rows of the table, by some columns, in registers. It looks through
the indices, a block at a time, for those of its rows, and adds their updates one after
the other, in order: the sums are the same in each call, and nothing is added in memory.
IREE's code goes through all updates with each thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from aotc.dialects.lowering.scalars import int_compare
from aotc.dialects.movement.nests import COPY
from aotc.dialects.ops.creation import Constant, Iota
from aotc.dialects.ops.selection import Compare, Select
from aotc.dialects.types import (
    Size,
    Tensor,
    ceil_divide,
    element_count,
    lowered_element,
)
from aotc.kernels.gpu import ops
from aotc.kernels.gpu.frames import Frame, Reindexing, TileAxis, axis_of, batch_of
from aotc.kernels.gpu.kernel import Writing
from aotc.kernels.gpu.machines import Gpu
from aotc.kernels.gpu.rows import START, combination, moved_bytes, power_of_two
from aotc.kernels.gpu.tiles import TileEvaluator, cast, write_followers
from aotc.kernels.schedule import Schedule
from aotc.kernels.terms import Apply, Expression, Read, Statement, Term
from aotc.kernels.typical import typical_size
from aotc.mlir import Value, arith

_COLUMNS = 128  # of a program, at most
_SUMS = 4096  # of a program
_BLOCK = 512  # indices that are looked through together
_FEWEST = 4  # rows of a program
_USUAL = 1024  # columns, or indices, where no contract says how many
_RESIDENT = 8  # programs that a multiprocessor runs side by side
_WAIT = 700.0  # nanoseconds until a block of indices, or an update, is there


@dataclass(frozen=True)
class ScatterTile(Schedule):
    """The schedule of a scatter-add on a GPU.

    Args:
        rows: of the table that a program has.
        columns: of them.
        block: indices that it looks through at once.
        warps: that compute it.
    """

    rows: int
    columns: int
    block: int = _BLOCK
    warps: int = 4


@dataclass(frozen=True)
class ScatterParts:
    """The statements and expressions of a term that is a scatter-add, by role.

    Args:
        anchor: the sum over all updates.
        index: the row that an update goes to.
        update: what is added there.
        row: the loop over rows.
        followers: the statements after it, which combine nothing.
    """

    anchor: Statement
    index: Expression
    update: Expression
    row: int
    followers: tuple[Statement, ...]

    @property
    def columns(self) -> tuple[int, ...]:
        """The loops over the columns of the table."""
        return tuple(loop for loop in self.anchor.nest.result_loops if loop != self.row)

    def size(self, loops: Sequence[int]) -> Size:
        """Return the number of iterations of some loops together."""
        return element_count(tuple(self.anchor.nest.sizes[loop] for loop in loops))


def parts_of(term: Term) -> ScatterParts | None:
    """Match a term that is a scatter-add; return its parts, or None for others.

    That is a sum of what is chosen where an index is that of a row, and 0 elsewhere.
    """
    sums = [each for each in term.statements if each.nest.combine != COPY]
    if len(sums) != 1 or any(each.nest.place is not None for each in term.statements):
        return None
    (anchor,) = sums
    (factor, *others) = anchor.factors
    is_sum = (
        anchor.nest.combine == "add" and not others and term.statements[0] == anchor
    )
    if not (is_sum and isinstance(factor, Apply) and isinstance(factor.op, Select)):
        return None
    condition, update, other = factor.operands
    if not (_is_zero(other) and isinstance(condition, Apply)):
        return None
    if not (isinstance(condition.op, Compare) and condition.op.direction == "eq"):
        return None
    index, position = condition.operands
    row = _loop_of(position, anchor)
    kept = anchor.nest.result_loops
    if row is None or row not in kept or _varies(index, kept) or _varies(update, [row]):
        return None
    return ScatterParts(anchor, index, update, row, term.statements[1:])


def _is_zero(x: Expression) -> bool:
    """Return whether an expression is the number 0."""
    op = x.op if isinstance(x, Read) else None
    return isinstance(op, Constant) and bool(np.size(op.value) == 1 and not op.value)


def _loop_of(x: Expression, anchor: Statement) -> int | None:
    """Return the loop whose index an expression reads from an iota; None if none."""
    if not (isinstance(x, Read) and isinstance(x.op, Iota) and len(x.views) == 1):
        return None
    view, axis = x.views[0], x.op.axis
    for loop, strides in enumerate(view.axes):
        if any(stride.axis == axis for stride in strides):
            size, begin = anchor.nest.sizes[loop], view.begin[axis]
            is_whole = len(strides) == 1 and strides[0].step == 1 and begin == 0
            return loop if is_whole and strides[0].size == size else None
    return None


def _varies(x: Expression, loops: Sequence[int]) -> bool:
    """Return whether an expression may vary along some loops."""
    return any(
        len(read.views) != 1 or any(not s.repeats for s in read.views[0].axes[loop])
        for read in x.reads()
        for loop in loops
    )


def plan(term: Term, machine: Gpu) -> ScatterTile:
    """Return the schedule for a scatter-add's term on a chip."""
    parts = parts_of(term)
    assert parts is not None
    width = typical_size(parts.size(parts.columns), _USUAL)
    columns = min(_COLUMNS, power_of_two(width))
    height = typical_size(parts.size([parts.row]), _SUMS)
    filling = height * -(-width // columns) // (_RESIDENT * machine.multiprocessors)
    rows = max(_FEWEST, min(power_of_two(filling), _SUMS // columns))
    return ScatterTile(rows, columns)


def nanoseconds(term: Term, machine: Gpu) -> float:
    """Return the modelled time of a scatter-add on a chip, its indices distinct.

    A program waits for each block of indices, and for each update of its rows.
    """
    parts, tile = parts_of(term), plan(term, machine)
    assert parts is not None
    count = typical_size(parts.size(parts.anchor.nest.combined_loops), _USUAL)
    rows = -(-typical_size(parts.size([parts.row]), _SUMS) // tile.rows)
    columns = -(-typical_size(parts.size(parts.columns), _USUAL) // tile.columns)
    waves = -(-rows * columns // (_RESIDENT * machine.multiprocessors))
    waited = waves * _WAIT * (-(-count // tile.block) + count / rows)
    return START + max(waited, moved_bytes(term) / machine.bandwidth)


def programs(term: Term, schedule: ScatterTile) -> Size:
    """Return the number of program instances of a scatter-add's kernel."""
    parts = parts_of(term)
    assert parts is not None
    rows = ceil_divide(parts.size([parts.row]), schedule.rows)
    return rows * ceil_divide(parts.size(parts.columns), schedule.columns)


def write(writing: Writing, schedule: ScatterTile) -> None:
    """Emit the body of a scatter-add's kernel at the insertion point."""
    parts = parts_of(writing.term)
    assert parts is not None
    _Scatter(writing, schedule, parts).write()


class _Scatter:
    """A writer of a scatter-add and its epilogue, for one tile of the table.

    Args:
        writing: of the term.
        schedule: of it.
        parts: of it.
    """

    def __init__(
        self, writing: Writing, schedule: ScatterTile, parts: ScatterParts
    ) -> None:
        self._writing, self._schedule, self._parts = writing, schedule, parts
        self._shape = parts.anchor.nest.sizes
        sizes, integers = writing.sizes, writing.sizes.integers
        program = integers.wide(ops.program_id())
        count = sizes.of(ceil_divide(parts.size(parts.columns), schedule.columns))
        column, row = (
            integers.remainder(program, count),
            integers.divide(program, count),
        )
        self._rows, self._columns = (
            axis_of(sizes, self._shape, loops, integers.multiply(n, tile), tile, at)
            for loops, n, tile, at in (
                ((parts.row,), row, schedule.rows, 0),
                (parts.columns, column, schedule.columns, 1),
            )
        )

    def write(self) -> None:
        """Emit the loop over indices, the epilogue and the stores."""
        parts, schedule, sizes = self._parts, self._schedule, self._writing.sizes
        anchor, integers = parts.anchor, sizes.integers
        element = lowered_element(anchor.dtype)
        tile = schedule.rows, schedule.columns
        sums = ops.constant(ops.tensor_of(tile, element), 0)
        end = integers.value(sizes.of(parts.size(anchor.nest.combined_loops)))
        step = integers.value(schedule.block)
        (sums,) = ops.loop(end, step, [sums], lambda k, held: [self._block(k, held[0])])
        kept = self._shape[: len(anchor.nest.result_loops)]
        found = self._tile((self._rows, self._columns), kept)
        found.finish(anchor, cast(sums, anchor.dtype, Tensor.of(anchor.value).dtype))
        write_followers(found, parts.followers)

    def _tile(
        self, axes: tuple[TileAxis, ...], shape: tuple[Size, ...]
    ) -> TileEvaluator:
        """Return an evaluator for some tile axes and loops."""
        frame = Frame(self._writing.sizes, axes)
        return TileEvaluator(frame, self._writing.memories, {}, Reindexing(shape))

    def _block(self, k: Value, sums: Value) -> Value:
        """Emit `sums` plus those updates of a block that go to the tile's rows."""
        parts, schedule, sizes = self._parts, self._schedule, self._writing.sizes
        loops = tuple(parts.anchor.nest.combined_loops)
        axis = axis_of(sizes, self._shape, loops, k, schedule.block, 1)
        index = self._tile((axis,), self._shape).value(parts.index)
        index = ops.spread(index, (1, schedule.block))
        first = self._as_index(sizes.integers.value(self._rows.first))
        height = ops.constant(first.type, schedule.rows)
        is_own = ops.both(
            [
                _compare("sge", index, first),
                _compare("slt", index, arith.addi(first, height)),
                *([] if axis.inside is None else [axis.inside]),
            ]
        )
        assert is_own is not None
        number = ops.make_range(schedule.block, 1)
        ones = arith.extui(number.type, is_own)
        count = ops.reduce_all(ones, arith.addi)
        beyond = ops.constant(number.type, schedule.block)

        def add_next(_: Value, held: Sequence[Value]) -> list[Value]:
            sums, last = held
            is_next = arith.andi(is_own, _compare("sgt", number, last))
            place = ops.reduce_all(arith.select(is_next, number, beyond), arith.minsi)
            return [self._add(k, place, sums), place]

        start = ops.constant(count.type, -1)
        one = ops.constant(count.type, 1)
        return ops.loop(count, one, [sums, start], add_next)[0]

    def _add(self, k: Value, place: Value, sums: Value) -> Value:
        """Emit `sums` with one update of a block added to its row of the tile."""
        parts, integers = self._parts, self._writing.sizes.integers
        at = integers.add(k, integers.wide(place))
        batch = batch_of(self._shape, tuple(parts.anchor.nest.combined_loops), at)
        index = self._tile((batch,), self._shape).value(parts.index)
        row = integers.value(integers.add(self._rows.first, self._rows.along or 0))
        is_row = _compare("eq", self._as_index(row), index)
        tile = self._tile((batch, self._columns), self._shape)
        dtype = parts.anchor.dtype
        update = cast(tile.value(parts.update), self._dtype_of(parts.update), dtype)
        more = combination("add", dtype)(*ops.together(sums, update))
        return arith.select(*ops.together(is_row, more, sums))

    def _as_index(self, x: Value) -> Value:
        """Emit a cast of row numbers to the dtype of the indices."""
        source = f"i{self._writing.sizes.integers.kind.width}"
        return cast(x, source, self._dtype_of(self._parts.index))

    def _dtype_of(self, x: Expression) -> str:
        """Return the dtype of an expression."""
        return Tensor.of(x.value).dtype


def _compare(name: str, x: Value, y: Value) -> Value:
    """Emit a comparison of integers or tiles of integers: see `int_compare`."""
    return int_compare(name, *ops.together(x, y))
