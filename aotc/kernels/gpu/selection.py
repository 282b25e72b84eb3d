"""Kernels that find the first few of rows in their order: argmax, and top-k of small k.

An element and its position are one word of 64 bits, the key of its order above the
position (Note [sorting] in `aotc.dialects.lowering.sorting`): no two words are equal,
so that the first of equal elements is found first, and NaN where its order has it. A
program has some rows, and finds the least of the words that are greater than the last
one, as often as elements are wanted; it keeps the words of short rows in registers.
"""

from __future__ import annotations

from dataclasses import dataclass

from aotc.dialects.lowering.scalars import int_compare
from aotc.dialects.lowering.sorting import key
from aotc.dialects.movement.nests import ARGSORT, ARGSORT_DESCENDING, COPY
from aotc.dialects.ops.ordering import is_few
from aotc.dialects.types import Size, Tensor, ceil_divide, element_count
from aotc.kernels.gpu import ops
from aotc.kernels.gpu.frames import (
    Frame,
    Reindexing,
    TileAxis,
    axis_of,
    batch_of,
    rows_of_program,
)
from aotc.kernels.gpu.kernel import Writing
from aotc.kernels.gpu.lifting import lift
from aotc.kernels.gpu.machines import Gpu
from aotc.kernels.gpu.rows import START, WAIT, moved_bytes, power_of_two
from aotc.kernels.gpu.tiles import TileEvaluator, write_followers
from aotc.kernels.schedule import Schedule
from aotc.kernels.terms import Statement, Term
from aotc.kernels.typical import typical_size
from aotc.mlir import Value, arith, ir

_POSITION = 32  # bits of a word below the key
_WORDS = 1 << 12  # of a program
_OF_FOUR_WARPS = 1 << 11  # words that are not too many for their registers
_LANES = 1 << 7  # threads of a program, each of which has a word at least
_USUAL = 1024  # columns, where no contract says how many
_RESIDENT = 4  # programs that a multiprocessor runs side by side


@dataclass(frozen=True)
class SelectTile(Schedule):
    """The schedule of an argmax or top-k kernel on a GPU.

    Args:
        rows: of a program.
        columns: of a block of them.
        warps: that compute it.
    """

    rows: int
    columns: int
    warps: int = 4


def anchor_of(term: Term) -> Statement | None:
    """Return the statement of a term's argmax or small top-k; None for other terms."""
    anchor, *others = term.statements
    is_order = anchor.nest.combine in (ARGSORT, ARGSORT_DESCENDING)
    if not is_order or any(each.nest.combine != COPY for each in others):
        return None
    *rows, count, length = anchor.nest.sizes
    if others and count != 1 and not _is_in_order(anchor):
        return None
    return anchor if count == 1 or is_few(count, length) else None


def _is_in_order(anchor: Statement) -> bool:
    """Return whether the loops over the result are its axes, in their order."""
    place = anchor.place()
    return place is not None and place.is_identity


def plan(term: Term, machine: Gpu) -> SelectTile:
    """Return the schedule for an argmax or top-k on a chip."""
    anchor = anchor_of(term)
    assert anchor is not None
    length = typical_size(anchor.nest.sizes[-1], _USUAL)
    columns = min(power_of_two(length), _WORDS)
    count = typical_size(element_count(anchor.nest.sizes[:-2]), 1 << 20)
    filling = power_of_two(count // (_RESIDENT * machine.multiprocessors))
    rows = max(1, _LANES // columns, min(_OF_FOUR_WARPS // columns, filling))
    return SelectTile(rows, columns, 4 if columns <= _OF_FOUR_WARPS else 8)


def nanoseconds(term: Term, machine: Gpu) -> float:
    """Return the modelled time of an argmax or top-k: a pass for each element found."""
    anchor, tile = anchor_of(term), plan(term, machine)
    assert anchor is not None
    *rows, count, length = anchor.nest.sizes
    steps = -(-typical_size(length, _USUAL) // tile.columns) * typical_size(count, 1)
    programs = -(-typical_size(element_count(tuple(rows)), 1 << 20) // tile.rows)
    waves = -(-programs // (_RESIDENT * machine.multiprocessors))
    return START + max(moved_bytes(term) / machine.bandwidth, waves * steps * WAIT)


def programs(term: Term, schedule: SelectTile) -> Size:
    """Return the number of program instances of an argmax or top-k kernel."""
    anchor = anchor_of(term)
    assert anchor is not None
    return ceil_divide(element_count(anchor.nest.sizes[:-2]), schedule.rows)


def write(writing: Writing, schedule: SelectTile) -> None:
    """Emit the body of an argmax or top-k kernel at the insertion point."""
    _Selection(writing, schedule).write()


class _Selection:
    """A writer of an argmax or top-k kernel's body, for one program's rows.

    Args:
        writing: of the term.
        schedule: of it.
    """

    def __init__(self, writing: Writing, schedule: SelectTile) -> None:
        anchor = anchor_of(writing.term)
        assert anchor is not None
        self._writing, self._schedule, self._anchor = writing, schedule, anchor
        self._shape = anchor.nest.sizes
        *rows, self._places = anchor.nest.result_loops
        self._rows = rows_of_program(writing.sizes, self._shape, rows, schedule.rows)
        self._word = ir.IntegerType.get_signless(2 * _POSITION)
        length = self._shape[-1]
        self._is_whole = isinstance(length, int) and length <= schedule.columns
        self._whole = self._words(0) if self._is_whole else None

    def write(self) -> None:
        """Emit the search for the least words of rows, one after the other."""
        count, integers = self._shape[-2], self._writing.sizes.integers
        assert isinstance(count, int)
        shape = self._schedule.rows, 1
        least = ops.constant(ops.tensor_of(shape, self._word), 0)
        if count == 1:
            self._store(0, self._least(None))
            return

        def find_next(place: Value, least: Value) -> Value:
            found = self._least(least)
            self._store(place, found)
            return arith.addi(found, ops.constant(found.type, 1))

        end, step = integers.value(count), integers.value(1)
        ops.loop(end, step, [least], lambda k, held: [find_next(k, held[0])])

    def _words(self, first: ops.Int) -> Value:
        """Emit a block's words: element keys above positions, in 64 bits."""
        sizes, anchor = self._writing.sizes, self._anchor
        batch = batch_of(self._shape, (self._places,), 0)
        loops = tuple(anchor.nest.combined_loops)
        columns = axis_of(sizes, self._shape, loops, first, self._schedule.columns, 1)
        tile = self._tile((batch, self._rows, columns), self._shape)
        (factor,) = anchor.factors
        dtype = Tensor.of(factor.value).dtype
        is_descending = anchor.nest.combine == ARGSORT_DESCENDING

        def word(element: Value, position: Value) -> Value:
            found = key(element, dtype)
            if is_descending:
                ones = arith.ConstantOp(found.type, -1).result
                found = arith.xori(found, ones)
            by = arith.ConstantOp(self._word, _POSITION).result
            upper = arith.shli(arith.extui(self._word, found), by)
            return arith.ori(upper, position)

        elements = ops.spread(tile.value(factor), tile.frame.shape)
        integers = sizes.integers
        place = integers.value(integers.add(columns.first, columns.along or 0))
        if integers.kind.width < self._word.width:
            place = lift(lambda each: arith.extui(self._word, each), [place])
        found = lift(word, [elements, place])
        if columns.inside is None:
            return found
        most = ops.constant(found.type, -1)
        return arith.select(ops.spread(columns.inside, tile.frame.shape), found, most)

    def _least(self, least: Value | None) -> Value:
        """Emit the least word of each row that is at least `least`."""
        shape = self._schedule.rows, self._schedule.columns
        most = ops.constant(ops.tensor_of(shape, self._word), -1)

        def candidates(words: Value) -> Value:
            if least is None:
                return words
            is_left = int_compare("uge", words, ops.spread(least, shape))
            return arith.select(is_left, words, most)

        if self._whole is not None:
            found = candidates(self._whole)
        else:
            sizes = self._writing.sizes
            integers = sizes.integers
            end = integers.value(sizes.of(self._shape[-1]))
            step = integers.value(self._schedule.columns)
            (found,) = ops.loop(
                end,
                step,
                [most],
                lambda k, held: [arith.minui(held[0], candidates(self._words(k)))],
            )
        return ops.reduce(found, arith.minui)

    def _store(self, place: ops.Int, words: Value) -> None:
        """Emit the store of found positions, and the epilogue, at one place."""
        kept = self._shape[:-1]
        batch = batch_of(self._shape, (self._places,), place)
        tile = self._tile((batch, self._rows), kept)
        i32 = ops.tensor_of((self._schedule.rows, 1), ir.IntegerType.get_signless(32))
        tile.finish(self._anchor, arith.trunci(i32, words))
        write_followers(tile, self._writing.term.statements[1:])

    def _tile(
        self, axes: tuple[TileAxis, ...], shape: tuple[Size, ...]
    ) -> TileEvaluator:
        """Return an evaluator for some tile axes and loops."""
        frame = Frame(self._writing.sizes, axes)
        return TileEvaluator(frame, self._writing.memories, {}, Reindexing(shape))
