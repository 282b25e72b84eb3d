"""What a family of kernels takes, and how it is planned.

A family says what its kernels compute: their anchors, the elementwise ops before and
after those, what operands of these may be, in which dtypes. An emitter of a target
(`aotc.kernels.emitters`) writes the kernels of the families that it has.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass

from aotc.dialects.builder import Builder
from aotc.dialects.graph import GraphOp
from aotc.dialects.ops.selection import Cast
from aotc.dialects.types import Size, Tensor
from aotc.dtypes import is_float
from aotc.kernels.machine import Machine
from aotc.kernels.operands import (
    Number,
    Operand,
    PerColumn,
    PerGroup,
    PerRow,
    SomeColumns,
    Whole,
    operand_of,
)
from aotc.mlir import Value
from aotc.numerics import STRICT

Schedule = Mapping[str, int]
Operands = frozenset[type[Operand]]  # the kinds of them that a kernel takes

NONE: Operands = frozenset()
ALIKE = frozenset({Whole, Number, PerColumn})  # in all rows, or of the result's shape
BY_ROWS = ALIKE | {PerRow, PerGroup}
OF_COLUMNS = BY_ROWS | {SomeColumns}


@dataclass(frozen=True)
class Elementwise:
    """The elementwise ops that a kernel computes beside its anchor.

    Args:
        operands: what their operands may be.
        columns: the axes of their results along which rows share vectors.
        dtypes: of all elements.
    """

    operands: Operands
    columns: Sequence[int]
    dtypes: Container[str] = ("f32",)

    def takes(self, op: GraphOp) -> bool:
        """Return whether an op can be applied to the vectors of the kernel."""
        kinds = {Tensor.of(value).dtype for value in (*op.operands, *op.results)}
        if not all(kind in self.dtypes for kind in kinds):
            return False
        if isinstance(op, Cast):
            return is_float(Tensor.of(op.y).dtype)
        return type(op).on_integers if kinds == {"i32"} else type(op).on_vectors

    def operand(self, value: Value) -> Operand | None:
        """Return what the kernel reads for an operand; None if it cannot read it."""
        kind = Tensor.of(value)
        if kind.dtype not in self.dtypes:
            return None
        found = operand_of(value)
        sizes = tuple(kind.shape[axis] for axis in self.columns)
        fits = type(found) in self.operands and found.fits(sizes)
        return found if fits else Whole(value)


@dataclass(frozen=True)
class Family:
    """Kernels for some ops.

    Args:
        anchors: the ops.
        plan: how such an op is cut up for a machine; None where there is no kernel for
            it, or where what IREE makes of it is as good.
        workgroups: how many there are of an op and a schedule, along two axes.
        plan_unpacked: the same as `plan` for an anchor whose second operand is no
            weight, where that makes a difference.
        epilogue: what the operands of the elementwise ops that follow may be; it
            computes none if that is nothing.
        prologue: the same of the elementwise ops that make its operand.
        floats: dtypes that it computes and writes, of those that a machine has.
        column_axes: how many of the last axes of the result a vector that is the same
            in all rows has.
        views: the operands that are views which the kernel reads through, and what of.
        is_part: for anchors whose operands are parts of their rows: whether an op that
            makes one of them is another such, which the kernel computes as well.
        source: what the kernel of an anchor reads in the place of a value that is a
            view, if it reads those through views, too.
        candidates: the schedules that may be tried in the place of a planned one, which
            is the first, in the order in which the model of the machine expects them.
        packing: of its second operand, if it gets that in an order of its own; asked
            for a schedule, None where it reads the operand as it lies.
        scratch: how many f32 elements of memory each share of the workgroups has for
            itself (`aotc.kernels.sharing`).
        numerics: the level of `--numerics` from which on it is taken.
        prologue_axes: how many of the last axes of its operand a row has.
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

    anchors: tuple[type[GraphOp], ...]
    plan: Callable[[GraphOp, Machine], Schedule | None]
    workgroups: Callable[[GraphOp, Schedule], tuple[Size, Size]]
    plan_unpacked: Callable[[GraphOp, Machine], Schedule | None] | None = None
    epilogue: Operands = NONE
    prologue: Operands = NONE
    floats: Container[str] = ("f32",)
    column_axes: Callable[[GraphOp], int] = lambda op: 1
    views: Callable[[GraphOp], Mapping[Value, Value]] = lambda op: {}
    candidates: Callable[[GraphOp, Machine, Schedule], Sequence[Schedule]] = (
        lambda op, machine, planned: [planned]
    )
    prologue_axes: Callable[[GraphOp], int] = lambda op: 1
    is_part: Callable[[GraphOp], bool] | None = None
    source: Callable[[GraphOp, Schedule, Value], Value | None] | None = None
    leaves_states: bool = True
    is_last: bool = False
    before: Callable[[GraphOp], Sequence[GraphOp]] | None = None
    has_runs: bool = False
    packing: Callable[[Schedule], Packing | None] = lambda schedule: None
    scratch: Callable[[GraphOp, Schedule], int] = lambda op, schedule: 0
    numerics: str = STRICT

    def dtypes(self, op: GraphOp, machine: Machine) -> tuple[str, ...]:
        """Return those of the elements that follow an op in its kernel on a machine."""
        found = tuple(dtype for dtype in machine.dtypes if dtype in self.floats)
        is_of_integers = Tensor.of(op.results[0]).dtype == "i32"
        return (*found, "i32") if is_of_integers else found

    def after(self, op: GraphOp, machine: Machine) -> Elementwise:
        """Return what elementwise ops follow an op in its kernel on a machine."""
        columns = _last_axes(op.results[0], self.column_axes(op))
        return Elementwise(self.epilogue, columns, self.dtypes(op, machine))

    def before_operand(
        self, op: GraphOp, value: Value, machine: Machine
    ) -> Elementwise:
        """Return what elementwise ops make an operand of an op in its kernel."""
        columns = _last_axes(value, self.prologue_axes(op))
        return Elementwise(self.prologue, columns, self.dtypes(op, machine))


@dataclass(frozen=True)
class Packing:
    """What brings the second operand of an anchor into another order, and back.

    Both are written in ops of the graph.

    Args:
        pack: the operand of an anchor, as the kernel reads it.
        unpack: the inverse, given what the kernel reads.
        growth: elements of what is packed, by those of the operand.
    """

    pack: Callable[[Builder, GraphOp], Value]
    unpack: Callable[[Builder, GraphOp, Value], Value]
    growth: float = 1.0


def _last_axes(value: Value, count: int) -> range:
    rank = Tensor.of(value).rank
    return range(rank - count, rank)
