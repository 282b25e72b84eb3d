"""Kernels of attention: scores, their softmax and the sums by it, in one pass.

A program has some rows of queries of one head, or of heads that share keys, and goes
through blocks of keys. What is summed up under the greatest score so far is scaled when
there is a greater one (`Term.rescaled_by`); no score goes through memory. Masks, biases
and scales are whatever elementwise ops the term has between scores and exponentials.
Keys behind the last one that a row of the program sees (`causal`) are not read: what is
not finite there is not seen, while the reference multiplies it by 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from aotc.dialects.lowering.scalars import constant as number
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
from aotc.kernels.gpu.causal import last_seen
from aotc.kernels.gpu.frames import (
    Frame,
    Reindexing,
    TileAxis,
    WithoutLoop,
    axis_of,
    batch_of,
)
from aotc.kernels.gpu.kernel import Writing
from aotc.kernels.gpu.lifting import lift
from aotc.kernels.gpu.machines import Gpu
from aotc.kernels.gpu.matrices import Loops, before_widening, factor_dtype
from aotc.kernels.gpu.ops import Int
from aotc.kernels.gpu.products import zero_beyond
from aotc.kernels.gpu.rows import combination, power_of_two
from aotc.kernels.gpu.tiles import Held, TileEvaluator, cast, write_followers
from aotc.kernels.schedule import Schedule
from aotc.kernels.terms import Expression, Statement, Term
from aotc.kernels.typical import typical_size
from aotc.mlir import Value, arith, ir, math

_LEAST, _DEEPEST = 16, 256  # of the depth of a head
_USUAL = 1024  # queries
_ROWS, _KEYS = 64, 64  # of a program, and of a step
_FEW_ROWS = 32  # of a program, where no instructions for matrices multiply
_MANY_WARPS, _MANY_SUMS = 8, 1 << 12  # f32 sums, which spill in fewer warps
_FEW_KEYS = 32  # of a step, where they are wide


@dataclass(frozen=True)
class GpuAttentionTile(Schedule):
    """The schedule of an attention kernel on a GPU.

    Args:
        rows: of queries that a program has.
        keys: of a step.
        warps: of a program.
        stages: steps whose keys are loaded ahead.
    """

    rows: int
    keys: int
    warps: int = 4
    stages: int = 2


class AttentionParts(NamedTuple):
    """The statements of a term that is an attention, by role."""

    scores: Statement
    highest: Statement
    total: Statement
    sums: Statement
    followers: Sequence[Statement]


def parts_of(term: Term) -> AttentionParts | None:
    """Match a term that is an attention; return its statements, or None for others."""
    if len(term.statements) < 5:
        return None
    scores, highest, total, sums, *followers = term.statements
    is_cascade = (
        [len(x.factors) for x in (scores, highest, total, sums)] == [2, 1, 1, 2]
        and scores.nest.combine == "add"
        and highest.nest.combine == "maximum"
        and all(term.rescaled_by(each) is highest for each in (total, sums))
        and all(each.nest.combine == COPY for each in followers)
        and all(each.nest.place is None for each in term.statements)
    )
    if not is_cascade or not all(map(factor_dtype, (scores, sums))):
        return None
    found = AttentionParts(scores, highest, total, sums, followers)
    return found if _is_planned(found) else None


def _is_planned(parts: AttentionParts) -> bool:
    """Return whether an attention's statements share loops that a kernel handles."""
    loops, depths = Loops.of(parts.scores), (_depth(parts), _width(parts))
    rows = len(loops.batch) + len(loops.rows)
    kept, others = parts.scores.nest.sizes, parts.sums.nest.sizes
    is_alike = kept[:rows] == others[:rows] and loops.columns == (rows,)
    return (
        is_alike
        and len(parts.sums.nest.result_loops) == rows + 1
        and parts.sums.nest.reduced == 1
        and kept[rows] == others[-1]
        and all(isinstance(each, int) and each <= _DEEPEST for each in depths)
    )


def _depth(parts: AttentionParts) -> Size:
    """Return the length of a query or key vector: the terms of a score's sum."""
    loops = Loops.of(parts.scores).summed
    return element_count(tuple(parts.scores.nest.sizes[loop] for loop in loops))


def _width(parts: AttentionParts) -> Size:
    """Return the length of a value vector."""
    return parts.sums.nest.sizes[len(parts.sums.nest.result_loops) - 1]


def plan(term: Term, machine: Gpu) -> GpuAttentionTile:
    """Return the schedule for an attention's term on a chip.

    Few queries have the smallest tile there is: most of what they cost is to read keys.
    """
    parts = parts_of(term)
    assert parts is not None
    rows = typical_size(_row_count(parts), _USUAL)
    deepest = max(_padded(_depth(parts)), _padded(_width(parts)))
    dtype = factor_dtype(parts.scores)
    most = _FEW_ROWS if dtype in machine.scalar else _ROWS
    beside = min(most, max(_LEAST, power_of_two(rows)))
    is_many = dtype == "f32" and beside * deepest >= _MANY_SUMS
    keys = _FEW_KEYS if deepest > 64 else _KEYS
    return GpuAttentionTile(beside, keys, _MANY_WARPS if is_many else 4)


def _padded(size: Size) -> int:
    """Return a static size rounded up to a power of two that tiles may have."""
    assert isinstance(size, int)
    return max(_LEAST, power_of_two(size))


def _row_count(parts: AttentionParts) -> Size:
    """Return the number of rows of queries of one batch entry."""
    sizes, loops = parts.scores.nest.sizes, Loops.of(parts.scores).rows
    return element_count(tuple(sizes[loop] for loop in loops))


def programs(term: Term, schedule: GpuAttentionTile) -> Size:
    """Return the number of program instances of an attention's kernel."""
    parts = parts_of(term)
    assert parts is not None
    sizes = parts.scores.nest.sizes
    batch = element_count(tuple(sizes[loop] for loop in Loops.of(parts.scores).batch))
    return batch * ceil_divide(_row_count(parts), schedule.rows)


def write(writing: Writing, schedule: GpuAttentionTile) -> None:
    """Emit the body of an attention's kernel at the insertion point."""
    _AttentionWriter(writing, schedule).write()


class _AttentionWriter:
    """A writer of an attention kernel's body, for one program's rows of queries.

    Args:
        writing: of the term.
        schedule: of it.
    """

    def __init__(self, writing: Writing, schedule: GpuAttentionTile) -> None:
        parts = parts_of(writing.term)
        assert parts is not None
        self._writing, self._schedule, self._parts = writing, schedule, parts
        self._loops = Loops.of(parts.scores)
        self._shape = parts.scores.nest.sizes[: len(parts.scores.nest.result_loops)]
        sizes, integers = writing.sizes, writing.sizes.integers
        blocks = sizes.of(ceil_divide(_row_count(parts), schedule.rows))
        program = integers.wide(ops.program_id())
        first = integers.multiply(integers.remainder(program, blocks), schedule.rows)
        batch = integers.divide(program, blocks)
        self._batch = batch_of(self._shape, self._loops.batch, batch)
        self._rows = axis_of(
            sizes, self._shape, self._loops.rows, first, schedule.rows, 0
        )
        self._queries = self._queries_of(parts.scores)

    # ---- scores ---------------------------------------------------------------------

    def _queries_of(self, scores: Statement) -> Value:
        """Emit the load of the program's tile of queries."""
        frame = self._frame(self._rows, self._inner(scores, 1))
        return self._factor(frame, scores, 0, scores.nest.sizes, factor_dtype(scores))

    def _inner(self, scores: Statement, at: int) -> TileAxis:
        """Emit the axis along a head's depth, as rows (`at` 0) or columns (1)."""
        shape, tile = scores.nest.sizes, _padded(_depth(self._parts))
        return axis_of(self._writing.sizes, shape, self._loops.summed, 0, tile, at)

    def _frame(self, *axes: TileAxis) -> Frame:
        """Return the frame of the program's batch entry and some tile axes."""
        return Frame(self._writing.sizes, (self._batch, *axes))

    def _factor(
        self, frame: Frame, statement: Statement, number: int, shape: Shape, dtype: str
    ) -> Value:
        """Emit the tile of a statement's factor in a dtype, 0 outside of axes."""
        factor = before_widening(statement.factors[number])
        tile = TileEvaluator(frame, self._writing.memories, {}, Reindexing(shape))
        found = cast(tile.value(factor), Tensor.of(factor.value).dtype, dtype)
        found = ops.spread(found, frame.shape)
        return zero_beyond(found, factor, frame.axes)

    def _scores(self, keys: TileAxis) -> Value:
        """Emit the scores of a block of keys: queries times transposed keys."""
        scores = self._parts.scores
        rows = self._block(self._shape, self._loops.columns, keys.first, 0)
        frame, shape = self._frame(rows, self._inner(scores, 1)), scores.nest.sizes
        right = self._factor(frame, scores, 1, shape, factor_dtype(scores))
        kind = ops.tensor_of(right.type.shape[::-1], right.type.element_type)
        zero = ops.constant(self._kind(self._schedule.keys, scores.dtype), 0)
        precision = self._precision(scores)
        found = ops.dot(self._queries, ops.transpose(right, kind), zero, precision)
        return cast(found, scores.dtype, Tensor.of(scores.value).dtype)

    def _kind(self, columns: int, dtype: str) -> ir.RankedTensorType:
        """Return the type of a tile with a row for each query."""
        return ops.tensor_of((self._schedule.rows, columns), lowered_element(dtype))

    def _precision(self, statement: Statement) -> str:
        """Return how a product of a statement is rounded, as Triton names it."""
        is_f32 = factor_dtype(statement) == "f32"
        return self._writing.precision if is_f32 else "ieee"

    # ---- the pass over keys ---------------------------------------------------------

    def write(self) -> None:
        """Emit the loop over blocks of keys, the epilogue and the stores."""
        parts, width = self._parts, _padded(_width(self._parts))
        f32 = parts.sums.dtype
        begin = [
            ops.constant(self._kind(1, f32), float("-inf")),
            ops.constant(self._kind(1, f32), 0),
            ops.constant(self._kind(width, f32), 0),
        ]
        integers = self._writing.sizes.integers
        end = integers.value(self._end_of_keys())
        step = integers.value(self._schedule.keys)
        found = ops.loop(end, step, begin, lambda k, held: self._step(k, *held))
        self._finish(*found)

    def _end_of_keys(self) -> Int:
        """Emit the end of the keys that some row of the program may see."""
        highest, sizes = self._parts.highest, self._writing.sizes
        end, last = sizes.of(self._shape[-1]), last_seen(highest)
        if last is None:
            return end
        loops = WithoutLoop(self._shape[:-1], loop=highest.nest.combined_loops[0])
        view, integers = loops.view(last), sizes.integers
        if view is None:
            return end
        most = self._frame(self._rows).index(view, 0)
        if ops.shape_of(most) is not None:
            width = f"i{integers.kind.width}"
            most = ops.reduce_all(most, combination("maximum", width))
        return integers.least(end, integers.add(most, 1))

    def _step(self, k: Value, highest: Value, total: Value, sums: Value) -> list[Value]:
        """Emit a block of keys' update of the running maxima, totals and sums."""
        parts = self._parts
        keys = self._block(self._shape, self._loops.columns, k, 1)
        frame = self._frame(self._rows, keys)
        tile = self._tile(frame, self._scores(keys))
        seen = self._elements(tile, parts.highest.factors[0], float("-inf"))
        most = ops.reduce(seen, combination("maximum", parts.highest.dtype))
        most = arith.maximumf(highest, most)
        tile = self._tile(frame, tile.held[parts.scores.value].tile, most)
        powers = self._elements(tile, parts.total.factors[0], 0)
        scale = lift(_scale, [highest, most])
        added = ops.reduce(powers, combination("add", parts.total.dtype))
        total = arith.addf(arith.mulf(total, scale), added)
        return [most, total, self._add(tile, frame, keys, sums, scale)]

    def _tile(
        self, frame: Frame, scores: Value, highest: Value | None = None
    ) -> TileEvaluator:
        """Return the evaluator for a block whose scores are in registers."""
        held: dict[Value, Held] = {}
        tile = TileEvaluator(
            frame, self._writing.memories, held, Reindexing(self._shape)
        )
        held[self._parts.scores.value] = tile.hold(self._parts.scores, scores)
        if highest is not None:
            held[self._parts.highest.value] = self._per_row(
                self._parts.highest, highest
            )
        return tile

    def _per_row(self, statement: Statement, elements: Value) -> Held:
        """Pair a tile of one element per row with its strides in the value."""
        frame, shape = self._frame(self._rows), self._shape[:-1]
        tile = TileEvaluator(frame, self._writing.memories, {}, Reindexing(shape))
        held = tile.hold(statement, elements)
        return Held(elements, [*held.strides, ()])

    def _elements(
        self, tile: TileEvaluator, factor: Expression, beyond: float
    ) -> Value:
        """Emit an expression in f32, with `beyond` where there are no keys."""
        found = cast(tile.value(factor), Tensor.of(factor.value).dtype, "f32")
        found = ops.spread(found, tile.frame.shape)
        mask = tile.frame.axes[-1].inside
        if mask is None:
            return found
        other = ops.constant(found.type, beyond)
        return arith.select(ops.spread(mask, tile.frame.shape), found, other)

    def _add(
        self,
        tile: TileEvaluator,
        frame: Frame,
        keys: TileAxis,
        sums: Value,
        scale: Value,
    ) -> Value:
        """Emit the rescaled sums plus the weighted sum of a block's values."""
        statement = self._parts.sums
        here = TileEvaluator(
            frame,
            tile.memories,
            tile.held,
            WithoutLoop.of_loops(statement.nest.sizes, len(self._shape) - 1),
        )
        powers = self._elements(here, statement.factors[0], 0)
        narrow = Tensor.of(before_widening(statement.factors[1]).value).dtype
        dtype = narrow if narrow in ("f16", "bf16") else "f32"
        shape, combined = statement.nest.sizes, tuple(statement.nest.combined_loops)
        rows = self._block(shape, combined, keys.first, 0)
        inner = self._frame(rows, self._width_axis())
        right = self._factor(inner, statement, 1, shape, dtype)
        precision = self._writing.precision if dtype == "f32" else "ieee"
        scaled = arith.mulf(*ops.together(sums, scale))
        return ops.dot(cast(powers, "f32", dtype), right, scaled, precision)

    def _block(
        self, shape: Shape, loops: tuple[int, ...], first: Int, at: int
    ) -> TileAxis:
        """Emit the axis of a block of keys, as rows (`at` 0) or columns (1)."""
        sizes, keys = self._writing.sizes, self._schedule.keys
        return axis_of(sizes, shape, loops, first, keys, at)

    def _width_axis(self) -> TileAxis:
        """Emit the tile axis along a value, all of it in one tile."""
        statement = self._parts.sums
        loop = len(statement.nest.result_loops) - 1
        tile = _padded(_width(self._parts))
        shape = statement.nest.sizes
        return axis_of(self._writing.sizes, shape, (loop,), 0, tile, 1)

    def _finish(self, highest: Value, total: Value, sums: Value) -> None:
        """Emit the epilogue of the final sums, and the stores of all results."""
        parts = self._parts
        kept = parts.sums.nest.sizes[: len(parts.sums.nest.result_loops)]
        frame = self._frame(self._rows, self._width_axis())
        held = {
            parts.highest.value: self._per_row(parts.highest, highest),
            parts.total.value: self._per_row(parts.total, total),
        }
        tile = TileEvaluator(frame, self._writing.memories, held, Reindexing(kept))
        dtype = Tensor.of(parts.sums.value).dtype
        tile.finish(parts.sums, cast(sums, parts.sums.dtype, dtype))
        of_rows = [x for x in parts.followers if self._is_of_rows(x)]
        self._write_rows(of_rows, {parts.highest: highest, parts.total: total})
        write_followers(tile, [x for x in parts.followers if x not in of_rows])

    def _is_of_rows(self, follower: Statement) -> bool:
        """Return whether a statement has one element per row of queries."""
        sizes, kept = follower.nest.sizes, self._parts.sums.nest.sizes
        rows = same_count(sizes, self._shape[:-1])
        return rows and not same_count(
            sizes, kept[: len(self._parts.sums.nest.result_loops)]
        )

    def _write_rows(
        self, followers: Sequence[Statement], computed: Mapping[Statement, Value]
    ) -> None:
        """Emit and store statements of one element per row, given `computed` ones."""
        frame, loops = self._frame(self._rows), Reindexing(self._shape[:-1])
        tile = TileEvaluator(frame, self._writing.memories, {}, loops)
        for statement, elements in computed.items():
            tile.held[statement.value] = tile.hold(statement, elements)
        for statement in followers:
            (factor,) = statement.factors
            elements = ops.spread(tile.value(factor), (self._schedule.rows, 1))
            tile.finish(statement, elements)


def _scale(old: Value, new: Value) -> Value:
    """Emit e**(old - new), but 1 where both are equal, even at -infinity."""
    same = arith.cmpf(arith.CmpFPredicate.OEQ, old, new)
    found: Value = math.exp(arith.subf(old, new))
    return arith.select(same, number(old.type, 1.0), found)
