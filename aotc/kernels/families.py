"""The families of kernels, as one table: what each takes, and how it is planned."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from aotc.dialects.builder import Builder
from aotc.dialects.fusion import Fused
from aotc.dialects.graph import GraphOp
from aotc.dialects.ops.attention import Attention
from aotc.dialects.ops.contraction import DotGeneral
from aotc.dialects.ops.convolution import ConvGeneral
from aotc.dialects.ops.ordering import Argsort
from aotc.dialects.ops.pooling import MaxPool, SumPool
from aotc.dialects.ops.shape import Transpose
from aotc.dialects.ops.slicing import Concatenate
from aotc.dialects.types import Size, Tensor
from aotc.dialects.walking import backward_slice
from aotc.kernels import packing, sharing
from aotc.kernels.elementwise import (
    ALIKE,
    BY_ROWS,
    NARROW,
    NONE,
    OF_COLUMNS,
    Elementwise,
    Operands,
)
from aotc.kernels.machine import Machine
from aotc.kernels.planning import (
    attention,
    chain,
    columns,
    contraction,
    decoder,
    depthwise,
    movement,
    rows,
    sorting,
    transposing,
    winograd,
)
from aotc.kernels.planning.tile import Tile
from aotc.kernels.schedule import Schedule
from aotc.kernels.winograd import packing as winograd_packing
from aotc.kernels.winograd.matrices import WINDOW
from aotc.mlir import Function, Value
from aotc.numerics import RELAXED, STRICT

A = TypeVar("A", bound=GraphOp)
S = TypeVar("S", bound=Schedule)


@dataclass(frozen=True)
class Family(Generic[A, S]):
    """Kernels for some ops.

    Args:
        anchors: the ops.
        schedule: the class of its schedules.
        plan: how such an op is cut up for a machine; None where there is no kernel for
            it, or where what IREE makes of it is as good.
        workgroups: how many there are of an op and a schedule, along two axes.
        plan_unpacked: the same as `plan` for an anchor whose second operand is no
            weight, where that makes a difference.
        epilogue: what the operands of the elementwise ops that follow may be; it
            computes none if that is nothing.
        prologue: the same of the elementwise ops that make its operand.
        floats: dtypes that it computes and writes, of those that a machine has.
        stored: others that it writes, of what casts make at the end.
        column_axes: how many of the last axes of the result a vector that is the same
            in all rows has.
        views: the operands that are views which the kernel reads through, and what of.
        is_part: for anchors whose operands are parts of their rows: whether an op that
            makes one of them is another such, which the kernel computes as well.
        source: what the kernel of an anchor reads in the place of a value that is a
            view, if it reads those through views, too.
        most_joined: ops of one left operand, by packed weights, that one kernel
            computes at most (`join-products`).
        candidates: the schedules that may be tried in the place of a planned one, which
            is the first, in the order in which the model of the machine expects them.
        packing: of its second operand, if it gets that in an order of its own; asked
            for a schedule, None where it reads the operand as it lies.
        scratch: how many f32 elements of memory each share of the workgroups has for
            itself (`aotc.kernels.sharing`).
        numerics: the level of `--numerics` from which on it is taken.
        prologue_axes: how many of the last axes of its operand a row has.
        second_columns: the axes of its second operand that are columns, if it computes
            the elementwise ops that make that, too (`aotc.kernels.cpu.prologue`).
        is_last: whether its anchors are looked for where the others have their
            regions, which may read through them.
        leaves_states: whether it computes what an entry leaves in a state, too; IREE
            writes that where the state is.
        before: the ops before an anchor that its kernel computes as well, in order,
            though kernels of their own may be there for some; they become no anchors.
            None for a family whose regions may be an anchor alone.
        has_runs: whether `write` gets the bounds of a run of workgroups, not one at a
            time, because it keeps something from one to the next
            (`Arguments.workgroup`). There are at most as many runs as threads.
    """

    anchors: tuple[type[A], ...]
    schedule: type[S]
    plan: Callable[[A, Machine], S | None]
    workgroups: Callable[[A, S], tuple[Size, Size]]
    plan_unpacked: Callable[[A, Machine], S | None] | None = None
    epilogue: Operands = NONE
    prologue: Operands = NONE
    floats: Container[str] = ("f32",)
    stored: Container[str] = ()
    column_axes: Callable[[GraphOp], int] = lambda op: 1
    views: Callable[[GraphOp], Mapping[Value, Value]] = lambda op: {}
    candidates: Callable[[A, Machine, S], Sequence[S]] = lambda op, machine, x: [x]
    prologue_axes: Callable[[GraphOp], int] = lambda op: 1
    is_part: Callable[[GraphOp], bool] | None = None
    source: Callable[[A, S, Value], Value | None] | None = None
    most_joined: int = 1
    leaves_states: bool = True
    second_columns: Callable[[GraphOp], range | None] = lambda op: None
    is_last: bool = False
    before: Callable[[GraphOp], Sequence[GraphOp]] | None = None
    has_runs: bool = False
    packing: Callable[[S], Packing | None] = lambda schedule: None
    scratch: Callable[[A, S], int] = lambda op, schedule: 0
    numerics: str = STRICT

    def dtypes(self, op: GraphOp, machine: Machine) -> tuple[str, ...]:
        """Return those of the elements that follow an op in its kernel on a machine."""
        found = tuple(dtype for dtype in machine.dtypes if dtype in self.floats)
        is_of_integers = Tensor.of(op.results[0]).dtype == "i32"
        return (*found, "i32") if is_of_integers else found

    def epilogue_of(self, op: GraphOp, machine: Machine) -> Elementwise:
        """Return what elementwise ops follow an op in its kernel on a machine."""
        columns = _last_axes(op.results[0], self.column_axes(op))
        dtypes = self.dtypes(op, machine)
        return Elementwise(self.epilogue, columns, dtypes, NARROW, self.stored)

    def second_of(self, op: GraphOp, machine: Machine) -> Elementwise | None:
        """Return what elementwise ops make the second operand of an op."""
        columns = self.second_columns(op)
        if columns is None:
            return None
        return Elementwise(ALIKE, columns, self.dtypes(op, machine), NARROW)

    def prologue_of(self, op: GraphOp, value: Value, machine: Machine) -> Elementwise:
        """Return what elementwise ops make an operand of an op in its kernel."""
        columns = _last_axes(value, self.prologue_axes(op))
        return Elementwise(self.prologue, columns, self.dtypes(op, machine))


@dataclass(frozen=True)
class Packing:
    """What brings the second operand of an anchor into another order, and back.

    Both are written in ops of the graph.

    Args:
        pack: the operand of an anchor, or what it is made of, as the kernel reads it.
        unpack: the inverse, given what the kernel reads, and the type of what that was.
        growth: elements of what is packed, by those of the operand.
    """

    pack: Callable[[Builder, GraphOp, Value], Value]
    unpack: Callable[[Builder, GraphOp, Value, Tensor], Value]
    growth: float = 1.0


def _chain_packing(schedule: chain.ChainSchedule) -> Packing | None:
    return _panel_packing(schedule.project)


def _panel_packing(tile: Tile | None) -> Packing | None:
    if tile is None or not tile.packed:
        return None
    return Packing(
        lambda b, op, right: packing.pack(b, op, tile, right),
        lambda b, op, packed, kind: packing.unpack(b, op, packed, tile, kind),
    )


def _winograd_packing(tile: winograd.WinogradTile) -> Packing:
    return Packing(
        lambda b, op, _: winograd_packing.pack(b, op, tile),
        lambda b, op, packed, _: winograd_packing.unpack(b, op, packed, tile),
        growth=tile.products / WINDOW**2,
    )


def _last_axes(value: Value, count: int) -> range:
    rank = Tensor.of(value).rank
    return range(rank - count, rank)


# of those that compute one op, the first with a plan for it is taken
FAMILIES: dict[str, Family[Any, Any]] = {
    "winograd": Family(
        anchors=(ConvGeneral,),
        schedule=winograd.WinogradTile,
        plan=winograd.plan,
        workgroups=winograd.workgroups,
        plan_unpacked=winograd.plan_unpacked,
        epilogue=BY_ROWS,
        packing=_winograd_packing,
        scratch=winograd.scratch_elements,
        numerics=RELAXED,
    ),
    "chain": Family(
        anchors=(ConvGeneral,),
        schedule=chain.ChainSchedule,
        plan=chain.plan,
        workgroups=chain.workgroups,
        plan_unpacked=lambda op, machine: None,
        epilogue=BY_ROWS,
        candidates=chain.candidates,
        packing=_chain_packing,
        scratch=chain.scratch_elements,
        prologue=ALIKE,
        before=chain.ops_before,
        has_runs=True,
    ),
    "contraction": Family(
        anchors=(DotGeneral, ConvGeneral),
        schedule=Tile,
        plan=contraction.plan,
        workgroups=contraction.workgroups,
        plan_unpacked=contraction.plan_unpacked,
        epilogue=OF_COLUMNS,
        floats=("f32", "bf16", "f16"),
        stored=NARROW,
        second_columns=contraction.second_columns,
        column_axes=contraction.column_axes,
        candidates=contraction.candidates,
        views=contraction.views,
        most_joined=4,  # of more, results would wait long for their readers
        packing=_panel_packing,
    ),
    "decoder": Family(
        anchors=(Attention,),
        schedule=decoder.DecoderTile,
        plan=decoder.plan,
        workgroups=decoder.workgroups,
        views=decoder.caches_by_heads,
    ),
    "attention": Family(
        anchors=(Attention,),
        schedule=attention.AttentionTile,
        plan=attention.plan,
        workgroups=attention.workgroups,
    ),
    "depthwise": Family(
        anchors=(ConvGeneral,),
        schedule=depthwise.Sweep,
        stored=NARROW,
        plan=depthwise.plan,
        workgroups=depthwise.workgroups,
        epilogue=BY_ROWS,
        candidates=depthwise.candidates,
    ),
    "pooling": Family(
        anchors=(MaxPool, SumPool),
        schedule=depthwise.Sweep,
        stored=NARROW,
        plan=depthwise.plan,
        workgroups=depthwise.workgroups,
        epilogue=BY_ROWS,
        candidates=depthwise.candidates,
    ),
    "rows": Family(
        anchors=rows.ANCHORS,
        schedule=rows.RowTile,
        plan=rows.plan,
        workgroups=rows.workgroups,
        epilogue=BY_ROWS,
        column_axes=rows.column_axes,
        prologue=ALIKE,
        prologue_axes=rows.row_axes,
    ),
    "columns": Family(
        anchors=rows.REDUCTIONS,
        schedule=columns.ColumnTile,
        plan=columns.plan,
        workgroups=columns.workgroups,
        epilogue=BY_ROWS,
        column_axes=columns.column_axes,
        prologue=ALIKE,
        prologue_axes=columns.column_axes,
    ),
    "sort": Family(
        anchors=(Argsort,),
        schedule=Schedule,
        plan=sorting.plan,
        workgroups=sorting.workgroups,
    ),
    "movement": Family(
        anchors=(Concatenate,),
        schedule=movement.MovementBlocks,
        plan=movement.plan,
        workgroups=movement.workgroups,
        prologue=ALIKE,
        prologue_axes=movement.row_axes,
        is_part=movement.is_inner,
        source=movement.source,
        leaves_states=False,
    ),
    "transpose": Family(
        anchors=(Transpose,),
        schedule=movement.MovementBlocks,
        plan=transposing.plan,
        workgroups=transposing.workgroups,
        leaves_states=False,
        is_last=True,
    ),
}


def schedule_of(fused: Fused) -> Schedule:
    """Return the schedule of a kernel, as its family has it.

    Raises:
        InputError: `bad-schedule`: it is none of the family.
    """
    found: Schedule = FAMILIES[fused.kernel].schedule.of_plain(fused.tile)
    return found


def is_packed(fused: Fused) -> bool:
    """Whether a kernel gets the second operand by panels (`aotc.kernels.packing`)."""
    return fused.kernel == "contraction" and packing_of(fused) is not None


def packing_of(fused: Fused) -> Packing | None:
    """How a kernel gets the second operand; None if it reads it as it lies."""
    return FAMILIES[fused.kernel].packing(schedule_of(fused))


def scratch(fused: Fused, function: Function) -> int:
    """How many elements of scratch each share of a region's workgroups has."""
    family, anchor = FAMILIES[fused.kernel], anchor_of(fused, function)
    return family.scratch(anchor, schedule_of(fused))


def ops_before(fused: Fused, anchor: GraphOp) -> Sequence[GraphOp]:
    """The ops before an anchor that its kernel computes, too; see `Family.before`."""
    before = FAMILIES[fused.kernel].before
    return () if before is None else before(anchor)


def fetch_ahead(op: GraphOp, fused: Fused) -> Fused:
    """The kernel for an op whose weights come from main memory in each call."""
    if not is_packed(fused):
        return fused
    tile = contraction.plan_fetching(op, Tile.of_plain(fused.tile))
    return Fused(fused.kernel, tile.to_plain())


def workgroups(fused: Fused, function: Function) -> tuple[Size, Size]:
    """How many workgroups the kernel of a region has, along two axes."""
    family = FAMILIES[fused.kernel]
    return family.workgroups(anchor_of(fused, function), schedule_of(fused))


def most_shares(fused: Fused, work: int, workgroups: int) -> int:
    """How many shares a dispatch of a region has at most; see `sharing.share_count`."""
    has_runs = FAMILIES[fused.kernel].has_runs
    return (sharing.run_count if has_runs else sharing.share_count)(work, workgroups)


def anchor_of(fused: Fused, function: Function) -> GraphOp:
    """The op of a region that its kernel is for: the first that no other such needs."""
    kinds: tuple[type[GraphOp], ...] = FAMILIES[fused.kernel].anchors
    found = [op for op in function.entry_block.operations if isinstance(op, kinds)]
    if len(found) == 1:
        return found[0]
    needed = {value for op in found for value in backward_slice(op.operands)}
    return next(op for op in found if op.results[0] not in needed)
