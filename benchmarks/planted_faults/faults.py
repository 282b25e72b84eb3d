"""Faults as compilers have them, over all families of kernels and what IREE compiles.

Each replaces one function of the code generator by one that is wrong in a way that
compiles: a rest is left out, a neighbour is read, ties turn, a mask is one short.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from aotc.dialects import OPS
from aotc.dialects.functions import functions_of
from aotc.dialects.lowering import scalars, scans, scatters
from aotc.dialects.ops import dynamic, indexing, reduction
from aotc.dialects.types import Tensor
from aotc.kernels import columns, depthwise, movement, sorting, vectors
from aotc.kernels.attention import _Kernel as AttentionKernel
from aotc.kernels.attention import decoder, scores
from aotc.kernels.chain import _Chain
from aotc.kernels.contraction import Contraction
from aotc.kernels.contraction.factors import Factors
from aotc.kernels.contraction.sums import Begin, Sums
from aotc.kernels.lines import Lines, Rows
from aotc.kernels.movement import transposing
from aotc.kernels.rows import _Kernel as RowsKernel
from aotc.kernels.rows import formulas, walk
from aotc.kernels.vectors import add, index
from aotc.kernels.winograd import Winograd
from aotc.mlir import Value, arith, ir, math
from aotc.passes.update_in_place import UpdateInPlace

from .planting import Fault

Wrong = Callable[[Any], Any]


# ---- ways to be wrong ---------------------------------------------------------------


def _does_nothing(right: Any) -> Any:
    return lambda *_: None


def _by(change: Callable[..., Any]) -> Wrong:
    """Return what the right function gives, changed: `change(result, *arguments)`."""

    def wrong(right: Any) -> Any:
        return lambda *given: change(right(*given), *given)

    return wrong


def _given(change: Callable[..., Sequence[Any]]) -> Wrong:
    """Return what the right function gives for changed arguments."""

    def wrong(right: Any) -> Any:
        return lambda *given: right(*change(*given))

    return wrong


def _lowered_as(body: Callable[..., Value]) -> Wrong:
    """Return a lowering of an op by a body on elements."""

    def lower(low: Any, op: Any, *operands: Value) -> Value:
        found: Value = low.pointwise(
            list(operands), Tensor.of(op.results[0]), lambda *x: body(*x)
        )
        return found

    return lambda right: lower


# ---- contraction, winograd, chain ---------------------------------------------------

_WINDOWS = frozenset({"contraction", "depthwise", "pooling", "chain"})
_CHAIN = frozenset({"chain"})


def _last_at_first_columns(places: list[Any], *_: Any) -> list[Any]:
    *others, last = places
    return [*others, replace(last, column=others[0].column if others else last.column)]


def _without_last_row(kernel: Any, panel: Any, rows: Any) -> Sequence[Any]:
    return kernel, panel, replace(rows, count=max(rows.count - 1, 1))


def _shorter_sum(
    kernel: Any, panel: Any, rows: Any, begin: Any, length: Any, sums: Any
) -> Any:
    return kernel, panel, rows, begin, add(length, -1), sums


def _of_first_product(begin: Begin, *_: Any) -> Begin:
    return replace(begin, right=index(0))


def _whole_tiles_of_image(
    kernel: Any, number: Value, size: int, write: Any
) -> Sequence[Any]:
    def write_whole(width: int) -> None:
        if width == kernel.tile.outputs:
            write(width)

    return kernel, number, size, write_whole


def _fewer_channels(kernel: Any, *given: Any) -> Any:
    shape = replace(kernel.geometry, channels=kernel.geometry.channels - 1)
    return replace(kernel, geometry=shape), *given


_FAULTS_OF_PRODUCTS = [
    Fault(
        "the last term of each sum is left out",
        "contraction", "product", Sums, "_sum_run", _given(_shorter_sum), _CHAIN,
    ),
    Fault(
        "the last vector of a panel adds the bias of the first",
        "contraction", "product", Contraction, "_places",
        _by(_last_at_first_columns), _CHAIN,
    ),
    Fault(
        "the last row of each tile is not written",
        "contraction", "product", Contraction, "_write_tile",
        _given(_without_last_row), _CHAIN,
    ),
    Fault(
        "sums start at 1",
        "contraction", "batch_of_products", Factors, "zero",
        lambda right: lambda self: vectors.splat(1.0, self.lanes), _CHAIN,
    ),
    Fault(
        "all products of a batch read the second operand of the first",
        "contraction", "batch_of_products", Contraction, "_begin",
        _by(_of_first_product),
    ),
    Fault(
        "what is beside a line is read where there is padding",
        "contraction", "convolution", Rows, "rows_inside_at",
        lambda right: lambda self, position: range(self.count), _WINDOWS,
    ),
    Fault(
        "windows lose their last line",
        "contraction", "convolution", Lines, "window",
        _by(lambda window, *_: (window[0], _at_most(window[1], 2))), _WINDOWS,
    ),
    Fault(
        "the last channel is left out",
        "winograd", "winograd", Winograd, "_sum",
        lambda right: lambda self, begin, rows, *, fetches: right(
            *_fewer_channels(self, begin, rows), fetches=fetches
        ),
        model="relaxed",
    ),
    Fault(
        "tiles at the lower and right edge are not written",
        "winograd", "winograd", Winograd, "_write_either",
        _given(_whole_tiles_of_image),
        model="relaxed",
    ),
    Fault(
        "tiles at edges see what is beside the image",
        "winograd", "winograd", Winograd, "_is_inside",
        lambda right: lambda self, top, left: arith.cmpi(
            arith.CmpIPredicate.sge, left, index(0)
        ),
        model="relaxed",
    ),
    Fault(
        "lines that two parts share are those of the part before",
        "chain", "chain", _Chain, "_move_overlap", _does_nothing,
    ),
    Fault(
        "the last line that the windows of a part see is not made",
        "chain", "chain", _Chain, "_lines_to_expand",
        _by(lambda lines, *_: (lines[0], add(lines[1], -1))),
    ),
    Fault(
        "the first part of an image takes lines over, too",
        "chain", "chain", _Chain, "_write_part",
        _given(lambda self, part: (self, replace(part, is_first=_no()))),
    ),
]  # fmt: skip


def _at_most(value: Any, limit: int) -> Any:
    return (
        min(value, limit)
        if isinstance(value, int)
        else arith.minsi(value, index(limit))
    )


def _no() -> Value:
    return arith.ConstantOp(ir.IntegerType.get_signless(1), 0).result


# ---- depthwise, pooling -------------------------------------------------------------


def _without_last(found: dict[int, Any], *_: Any) -> dict[int, Any]:
    return dict(list(found.items())[:-1]) if len(found) > 1 else found


def _only_whole_vectors(right: Any) -> Any:
    def write(self: Any, rows: Any, groups: Any) -> None:
        if groups.count * self.geometry.group_features == self.sweep.lanes:
            right(self, rows, groups)

    return write


_FAULTS_OF_WINDOWS = [
    Fault(
        "the last pixel of a line of windows is left out",
        "depthwise", "depthwise", depthwise.Windows, "_uses", _by(_without_last),
        frozenset({"pooling", "chain"}),
    ),
    Fault(
        "channels after the last whole vector are not written",
        "depthwise", "depthwise", depthwise.Windows, "_write_tile",
        _only_whole_vectors, frozenset({"pooling", "chain"}),
    ),
    Fault(
        "padding is 0, not the least number",
        "pooling", "pooling", depthwise, "reduction_of",
        _by(lambda found, *_: replace(found, start=0.0) if found.start else found),
        frozenset({"depthwise", "chain"}),
    ),
    Fault(
        "the greatest of NaN and a number is the number",
        "pooling", "pooling_of_nan", depthwise, "_maximum",
        lambda right: arith.maxnumf,
    ),
]  # fmt: skip


# ---- attention ----------------------------------------------------------------------


def _seen_by_first_vector(right: Any) -> Any:
    def is_seen(self: Any, block: Any) -> Value:
        first = min(block.count, self._lanes)
        return right(self, replace(block, count=first))

    return is_seen


def _whole_blocks_only(right: Any) -> Any:
    def write_block(self: Any, block: Any) -> None:
        if block.count == self._tile.keys:
            right(self, block)

    return write_block


def _strictly(right: Any) -> Any:
    return lambda predicate, x, y: right(
        "sgt" if predicate == "sge" else predicate, x, y
    )


def _one_less(block: Any, *_: Any) -> Any:
    seen = block.seen
    return replace(block, seen=seen - 1 if isinstance(seen, int) else add(seen, -1))


_FAULTS_OF_ATTENTION = [
    Fault(
        "a block is skipped by the first vector of its mask",
        "decoder", "decoder", decoder._Decoder, "_is_seen", _seen_by_first_vector,
    ),
    Fault(
        "positions after the last whole block are left out",
        "decoder", "decoder", decoder._Decoder, "_write_block", _whole_blocks_only,
    ),
    Fault(
        "all heads read the values of the first",
        "decoder", "decoder", decoder, "queries_of",
        _by(lambda queries, *_: replace(queries, value=index(0))),
    ),
    Fault(
        "a row of all batches has the mask of the first",
        "decoder", "decoder", decoder, "queries_of",
        _by(lambda queries, *_: replace(queries, bias=index(0))),
    ),
    Fault(
        "sums are not scaled to a later, higher score",
        "attention", "attention", scores, "rescale_factors",
        lambda right: lambda before, after: [
            vectors.splat(1.0, x.type.shape[0]) for x in after
        ],
    ),
    Fault(
        "a block of which a query sees nothing makes NaN",
        "attention", "attention", scores, "finite",
        lambda right: lambda highest: highest,
    ),
    Fault(
        "the last key of a block is left out of the sums",
        "attention", "attention", AttentionKernel, "_block", _by(_one_less),
    ),
    Fault(
        "a query does not see its own position",
        "attention", "causal", scores, "int_compare", _strictly,
    ),
    Fault(
        "queries of the second vector have the bias of the first",
        "attention", "attention", scores.Scores, "_bias_at",
        _given(lambda self, *given: (self, *given[:2], (given[2][0], 0))),
    ),
]  # fmt: skip


# ---- rows, columns, sort ------------------------------------------------------------


def _whole_tiles_only(right: Any) -> Any:
    def write(self: Any, first: Value, last: Value, rows: int) -> None:
        if rows == self.tile.rows:
            right(self, first, last, rows)

    return write


def _part_only(right: Any) -> Any:
    def reduce(self: Any, how: Any, elements: Any, first: Value, count: int) -> Any:
        part = walk._PART
        kept = count // part * part if how.is_sum and count > part else count
        return right(self, how, elements, first, kept)

    return reduce


def _without_epsilon(right: Any) -> Any:
    return lambda op, row: right(
        SimpleNamespace(epsilon=0.0, centered=op.centered), row
    )


def _turned(right: Any) -> Any:
    def precedes(one: Any, other: Any) -> Value:
        is_less = scalars.int_compare("ult", one.key, other.key)
        is_equal = scalars.int_compare("eq", one.key, other.key)
        is_after = scalars.int_compare("ugt", one.position, other.position)
        return arith.ori(is_less, arith.andi(is_equal, is_after))

    return precedes


def _first_child(right: Any) -> Any:
    def child(self: Any, place: Value, end: Value) -> Any:
        first = add(vectors.scale(place, 2), 1)
        return first, self._item_at(first)

    return child


def _not_before_equal(right: Any) -> Any:
    """Positions beyond the heap take the place of an equal top."""

    def compare(predicate: str, x: Value, y: Value) -> Value:
        is_of_keys = isinstance(x.type, ir.IntegerType) and x.type.width == 32
        return right("ule" if is_of_keys else predicate, x, y)

    return compare


def _reading_first(right: Any) -> Any:
    def write(self: Any, matrix: Value, column: Value, count: int) -> None:
        right(self, index(0), column, count)

    return write


_FAULTS_OF_ROWS = [
    Fault(
        "zeros after the end of a row take part",
        "rows", "row_max", vectors, "select_first",
        lambda right: lambda x, count, otherwise: x, frozenset({"columns"}),
    ),
    Fault(
        "rows after the last whole tile are not written",
        "rows", "row_max", RowsKernel, "_write_tiles", _whole_tiles_only,
    ),
    Fault(
        "a norm has no epsilon",
        "rows", "norm", formulas, "_normalize", _without_epsilon,
    ),
    Fault(
        "steps after the last whole part are left out",
        "rows", "row_sum", walk.Walk, "_reduce_steps", _part_only,
        frozenset({"columns"}),
    ),
    Fault(
        "the last row is left out",
        "columns", "columns", columns, "Walk",
        lambda right: lambda side, length, *rest, **named: right(
            side, length - 1, *rest, **named
        ),
    ),
    Fault(
        "a matrix reads the rows of the first",
        "columns", "columns", columns._Kernel, "_write_tile",
        _reading_first,
    ),
    Fault(
        "ties are in the opposite order",
        "sort", "sort", sorting, "_precedes", _turned,
    ),
    Fault(
        "a heap does not look at second children",
        "sort", "sort", sorting._Heap, "_later_child", _first_child,
    ),
    Fault(
        "a later one of equal elements takes the place of an earlier one",
        "sort", "top", sorting, "int_compare", _not_before_equal,
    ),
]  # fmt: skip


# ---- movement, transpose ------------------------------------------------------------


def _without_rest(length: int, lanes: int, write: Any) -> Sequence[Any]:
    return max(length - length % lanes, lanes), lanes, write


_FAULTS_OF_MOVEMENT = [
    Fault(
        "elements after the last whole vector are not copied",
        "movement", "movement", movement, "write_run", _given(_without_rest),
    ),
    Fault(
        "a part after the first begins one element early",
        "movement", "movement", movement._Part, "of",
        _by(lambda part, *_: replace(part, column=max(part.column - 1, 0))),
    ),
    Fault(
        "the last column of a square that is not whole is not written",
        "transpose", "transpose", transposing._Kernel, "_square",
        _given(lambda self, begin, width, rows: (self, begin, max(width - 1, 1), rows)),
    ),
    Fault(
        "what is after the last whole vector of the long axis is left out",
        "transpose", "transpose", transposing._Kernel, "_along_long",
        lambda right: lambda self, write: right(
            self, lambda n, width: write(n, width) if width == self.lanes else None
        ),
    ),
    Fault(
        "vectors of a short axis are mixed in another order",
        "transpose", "transpose_of_few", vectors, "gather",
        _given(lambda found, places: (found, [*places[:-1], places[0]])),
    ),
]  # fmt: skip


# ---- what IREE compiles -------------------------------------------------------------


def _nearest_up(x: Value) -> Value:
    half = scalars.constant(x.type, 0.5)
    return math.floor(arith.addf(x, half))


def _sign_of_bit(x: Value) -> Value:
    one = scalars.constant(x.type, 1.0)
    return math.copysign(one, x)


def _power_by_logarithm(x: Value, y: Value) -> Value:
    return math.exp(arith.mulf(y, math.log(x)))


def _strictly_compared(right: Any) -> Any:
    others = {"ge": "gt", "le": "lt"}
    return lambda dtype, direction: right(dtype, others.get(direction, direction))


def _last_position(right: Any) -> Any:
    def first_position(low: Any, axis: int, dtype: str) -> Any:
        equal = scalars.comparison(dtype, "eq")

        def body(value: Value, extreme: Value, so_far: Value) -> Value:
            here = arith.index_cast(
                ir.IntegerType.get_signless(32), low.loop_index(axis)
            )
            nowhere = low.scalar("i32", reduction._NOWHERE)
            is_none = scalars.int_compare("eq", so_far, nowhere)
            best = arith.select(is_none, here, arith.maxsi(so_far, here))
            return arith.select(equal(value, extreme), best, so_far)

        return body

    return first_position


def _short_of_last(low: Any, number: Any, dtype: str, size: Any) -> Sequence[Any]:
    return low, number, dtype, size - 1


def _of_processor(x: Value, y: Value) -> Value:
    return arith.divsi(x, y)


def _never_infinite(x: Value, y: Value) -> Value:
    least = scalars.constant(y.type, 1e-30)
    zero = scalars.constant(y.type, 0.0)
    is_zero = scalars.float_compare("OEQ", y, zero)
    return arith.divf(x, arith.select(is_zero, least, y))


def _keep_old_states(right: Any) -> Any:
    """Let a pass return every state as it was, besides what it does."""

    def run(self: Any, unit: Any) -> bool:
        right(self, unit)
        functions = functions_of(unit.module)
        for entry in unit.program.entries:
            block = functions[entry.name].entry_block
            ports = zip(entry.arguments, block.arguments, strict=True)
            old = {port.name: value for port, value in ports}
            returned = block.operations[len(block.operations) - 1].operation.operands
            for number, port in enumerate(entry.results):
                if port.kind == "state":
                    returned[number] = old[port.name]
        return True

    return run


_FAULTS_OF_IREE = [
    Fault(
        "halves are rounded up, not to even", "IREE", "rounded",
        OPS["round_even"], "lower", _lowered_as(_nearest_up),
    ),
    Fault(
        "the sign of 0 is 1", "IREE", "signs",
        OPS["sign"], "lower", _lowered_as(_sign_of_bit),
    ),
    Fault(
        "at least means more than", "IREE", "at_least",
        scalars, "comparison", _strictly_compared,
        frozenset({"between", "first_of_greatest", "written_at", "of_seen", "power"}),
    ),
    Fault(
        "the last of equal elements is the greatest", "IREE", "first_of_greatest",
        reduction, "_first_position", _last_position,
    ),
    Fault(
        "0 ** 0 is NaN", "IREE", "power",
        OPS["power"], "lower", _lowered_as(_power_by_logarithm),
    ),
    Fault(
        "the last row of a table is not reached", "IREE", "rows_of_table",
        indexing, "position", _given(_short_of_last),
    ),
    Fault(
        "the last position of a cache is not reached", "IREE", "written_at",
        dynamic, "position", _given(_short_of_last),
    ),
    Fault(
        "a division of integers by 0 is the processor's", "IREE", "divided",
        OPS["divide"], "lower", _lowered_as(_of_processor), frozenset({"inverse"}),
    ),
    Fault(
        "1 / 0 is a number", "IREE", "inverse",
        OPS["divide"], "lower", _lowered_as(_never_infinite), frozenset({"divided"}),
    ),
    Fault(
        "the greatest of nothing that is seen is a number", "IREE", "of_seen",
        OPS["select"], "lower",
        lambda right: lambda low, op, *x: _select_finite(right, low, op, *x),
        frozenset({"at_least", "written_at", "power", "divided"}),
    ),
    Fault(
        "of updates that meet, the greatest is kept", "IREE", "added_at",
        scatters.Scattering, "combine",
        lambda right: lambda self: arith.maximumf,
    ),
    Fault(
        "a block of running sums adds its own total, not that before", "IREE",
        "running", scans.Scan, "_delay",
        lambda right: lambda self, total, blocks: total,
    ),
    Fault(
        "a state stays as it was", "IREE", "counted",
        UpdateInPlace, "run", _keep_old_states,
    ),
    Fault(
        "the upper bound is not held", "IREE", "between",
        OPS["clamp"], "lower",
        lambda right: lambda low, op, x, *limits: low.pointwise(
            [x], Tensor.of(op.results[0]),
            lambda e: arith.maximumf(e, scalars.constant(e.type, -1.0)),
        ),
        frozenset({"chain"}),
    ),
]  # fmt: skip


def _select_finite(right: Any, low: Any, op: Any, *operands: Value) -> Value:
    found = right(low, op, *operands)
    kind = Tensor.of(op.results[0])
    if kind.dtype != "f32":
        return found
    return low.pointwise(
        [found], kind,
        lambda e: arith.maximumf(e, scalars.constant(e.type, -3e38)),
    )  # fmt: skip


FAULTS: Sequence[Fault] = (
    *_FAULTS_OF_PRODUCTS,
    *_FAULTS_OF_WINDOWS,
    *_FAULTS_OF_ATTENTION,
    *_FAULTS_OF_ROWS,
    *_FAULTS_OF_MOVEMENT,
    *_FAULTS_OF_IREE,
)
