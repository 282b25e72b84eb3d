"""Families of kernels: the ops that they take, and the planning of their kernels."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from aotc.core.numerics import STRICT
from aotc.dialects.builder import Builder
from aotc.dialects.functions.fusion import Fused, fused_of
from aotc.dialects.functions.walking import backward_slice
from aotc.dialects.graph import GraphOp
from aotc.dialects.sizes.contracts import Contract
from aotc.dialects.types import Size, SymbolicDim, Tensor
from aotc.kernels import sharing
from aotc.kernels.elementwise import ALIKE, NARROW, NONE, Elementwise, Operands
from aotc.kernels.machine import Machine
from aotc.kernels.schedule import Schedule
from aotc.mlir import Function, Value

_Contracts = Sequence[Sequence[Contract]]  # of the symbols of several ops

A = TypeVar("A", bound=GraphOp)
S = TypeVar("S", bound=Schedule)


@dataclass(frozen=True)
class KernelFamily(Generic[A, S]):
    """A family of kernels: the ops it computes and the rules that plan its kernels.

    Args:
        anchors: the ops, whose rules (`nests`, `cascade`, `view`) say what its terms
            are (`aotc.kernels.term_builder`). None for regions of any ops, of which the
            last one stands for all (`fuse-loops` forms them).
        schedule: the class of its schedules.
        plan: how such an op is cut up for a machine; None where there is no kernel for
            it, or where what IREE makes of it is as good.
        workgroups: how many there are of an op and a schedule, along two axes.
        plan_unpacked: the same as `plan` for an anchor whose second operand is no
            weight, where that makes a difference.
        epilogue: what the operands of the elementwise ops that follow may be; it
            computes none if that is nothing.
        prologue: the same of the elementwise ops that make its operand.
        computed: the operands that these may make; the others lie in memory.
        repeats: whether an element of these is made for each of its readers, so that
            only ops of few instructions may.
        floats: dtypes that it computes and writes, of those that a machine has.
        stored: others that it writes of an op, of what casts make at the end.
        widened: others of the elements that the ops before an anchor read, and make
            these of.
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
        lifts: whether it computes an elementwise op, where it asks that of each op by
            itself, of floats, i32 and bool (`aotc.kernels.elementwise`).
        all_results: whether it writes each result of an anchor that something reads,
            such as the statistics of a norm, and not the first one alone.
        numerics: the level of `--numerics` from which on it is taken.
        is_exact: whether it is taken for an op at all levels.
        masks: whether elementwise ops may compare, and choose by what comes of that.
        memory_parts: for kernels that may write results where they have read operands:
            the part that reads each argument of a region, and the part that each result
            is of. In one part, what has one type may be one memory; -1 is none.
        is_formed_apart: whether no op decides about its regions, which `join-updates`
            forms of elementwise ops alone.
        prologue_axes: how many of the last axes of its operand a row has.
        second_columns: the axes of its second operand that are columns, if it computes
            the elementwise ops that make that, too (`aotc.kernels.cpu.prologue`).
        is_last: whether its anchors are looked for where the others have their
            regions, which may read through them.
        leaves_states: whether it computes what an entry leaves in a state, too; IREE
            writes that where the state is.
        ops_before: the ops before an anchor that its kernel computes as well, in order,
            though kernels of their own may be there for some; they become no anchors.
        is_never_alone: whether no region of the family is an anchor alone.
        cycles: of one core, for a kernel whose sizes are given as numbers, by the model
            of the machine; None where there is no such model.
        why_not_joined: why several anchors cannot be cut up together so; "" if they
            can. Their schedule may be none that one of them has.
        plan_joined: the schedule of one kernel for several anchors of one left operand,
            which lie as they do for kernels of their own; None where these are as fast.
        why_misread: why a kernel would take an argument of a region, which may have
            been edited, for what it is not; "" if it would not.
        fetching: the schedule for an op whose weights come from main memory in each
            call, given that for other calls.
        alike: the schedules for ops by one weight, given that of each by itself and the
            contracts of the symbols of each: such as read one packing of it. None for a
            family that has no such choice.
        knows_constants: whether operands of its anchors that are constants, or count
            positions, are none of its arguments.
        has_runs: whether `write` gets the bounds of a run of workgroups, not one at a
            time, because it keeps something from one to the next
            (`Arguments.workgroup`). There are at most as many runs as threads.
        inner: how often a kernel runs those of other regions, and these.
    """

    anchors: tuple[type[A], ...]
    schedule: type[S]
    plan: Callable[[A, Any], S | None]  # for a `Machine`, or a `Gpu`
    workgroups: Callable[[A, S], tuple[Size, Size]]
    plan_unpacked: Callable[[A, Machine], S | None] | None = None
    epilogue: Operands = NONE
    prologue: Operands = NONE
    computed: Callable[[A], Sequence[Value]] = lambda op: [*op.operands][:1]
    repeats: bool = False
    floats: Container[str] = ("f32",)
    stored: Callable[[GraphOp], Container[str]] = lambda op: ()
    widened: Container[str] = ()
    column_axes: Callable[[GraphOp], int] = lambda op: 1
    views: Callable[[GraphOp], Mapping[Value, Value]] = lambda op: {}
    candidates: Callable[[A, Any, S], Sequence[S]] = lambda op, machine, x: [x]
    prologue_axes: Callable[[GraphOp], int] = lambda op: 1
    is_part: Callable[[GraphOp], bool] | None = None
    source: Callable[[A, S, Value], Value | None] | None = None
    most_joined: int = 1
    leaves_states: bool = True
    second_columns: Callable[[A, S], range | None] = lambda op, schedule: None
    is_last: bool = False
    ops_before: Callable[[A], Sequence[GraphOp]] = lambda op: ()
    is_never_alone: bool = False
    fetching: Callable[[A, S], S] = lambda op, schedule: schedule
    alike: (
        Callable[[Sequence[A], Sequence[S], _Contracts, Machine], Sequence[S]] | None
    ) = None
    cycles: Callable[[A, S, Machine, Callable[[Size], int]], int] | None = None
    why_not_joined: Callable[[Sequence[A], S, Machine], str] | None = None
    plan_joined: Callable[[Sequence[A], Any], S | None] | None = None
    why_misread: Callable[[Function, A, S], str] = lambda *_: ""
    has_runs: bool = False
    knows_constants: bool = False
    packing: Callable[[S], Packing | None] = lambda schedule: None
    scratch: Callable[[A, S], Size] = lambda op, schedule: 0
    lifts: Callable[[GraphOp], bool] | None = None
    all_results: bool = False
    numerics: str = STRICT
    is_exact: Callable[[A], bool] = lambda op: False
    inner: Callable[[A], tuple[Size, Sequence[Function]]] = lambda op: (0, ())
    masks: bool = False
    memory_parts: Callable[[Function], tuple[list[int], list[int]]] | None = None
    is_formed_apart: bool = False

    def anchors_in(self, function: Function) -> list[A]:
        """Return the anchor ops of this family in a region, in order."""
        *operations, _ = function.entry_block.operations
        if not self.anchors:
            last: Any = [*operations][-1]
            return [last]
        return [op for op in operations if isinstance(op, self.anchors)]

    def anchor_in(self, function: Function) -> A:
        """Return the anchor op of a region; of several, one that no other needs."""
        found = self.anchors_in(function)
        if len(found) == 1:
            return found[0]
        needed = {value for op in found for value in backward_slice(op.operands)}
        return next(op for op in found if op.results[0] not in needed)

    def schedule_of(self, fused: Fused) -> S:
        """Parse the schedule that a region's `Fused` attribute holds.

        Raises:
            InputError: `bad-schedule`: it is none of the family.
        """
        return self.schedule.of_plain(fused.tile)

    def packing_of(self, fused: Fused) -> Packing | None:
        """Return the packing of a kernel's second operand; None if not packed."""
        return self.packing(self.schedule_of(fused))

    def fetch_ahead(self, op: A, fused: Fused) -> Fused:
        """Return a kernel's `Fused`, re-planned for weights in main memory."""
        schedule = self.fetching(op, self.schedule_of(fused))
        return Fused(fused.kernel, schedule.to_plain())

    def dtypes(self, op: GraphOp, machine: Machine) -> tuple[str, ...]:
        """Return the element dtypes that an op's kernel computes in on a machine."""
        found = tuple(dtype for dtype in machine.dtypes if dtype in self.floats)
        if self.lifts is not None or self.masks:
            return (*found, "i32", "bool")
        has_integers = Tensor.of(op.results[0]).dtype == "i32" or self.widened
        return (*found, "i32") if has_integers else found

    def epilogue_of(self, op: GraphOp, machine: Machine) -> Elementwise:
        """Return the constraints on elementwise ops fused after an op."""
        columns = _last_axes(op.results[0], self.column_axes(op))
        dtypes = self.dtypes(op, machine)
        stored = self.stored(op)
        return Elementwise(
            self.epilogue,
            columns,
            dtypes,
            NARROW,
            stored,
            looks_up=machine.looks_up,
            lifts=self.lifts,
        )

    def second_of(self, op: A, fused: Fused, machine: Machine) -> Elementwise | None:
        """Return the constraints on ops fused before operand 1; None if none may be."""
        columns = self.second_columns(op, self.schedule_of(fused))
        if columns is None:
            return None
        return Elementwise(ALIKE, columns, self.dtypes(op, machine), NARROW)

    def prologue_of(self, op: GraphOp, value: Value, machine: Machine) -> Elementwise:
        """Return the constraints on elementwise ops fused before an operand."""
        columns = _last_axes(value, self.prologue_axes(op))
        dtypes = self.dtypes(op, machine)
        return Elementwise(
            self.prologue,
            columns,
            dtypes,
            self.widened,
            self.widened,
            self.repeats,
            lifts=self.lifts,
        )


@dataclass(frozen=True)
class Packing:
    """A permutation of the second operand of an anchor, and its inverse.

    Both are written in ops of the graph.

    Args:
        pack: the operand of an anchor, or what it is made of, as the kernel reads it.
        unpack: the inverse, given what the kernel reads, and the type of what that was.
        growth: bytes of what is packed, by those of the operand.
        blocks: the same of what there is for each block of an operand that is
            dequantised; None where the kernel reads no such.
    """

    pack: Callable[[Builder, GraphOp, Value], Value]
    unpack: Callable[[Builder, GraphOp, Value, Tensor], Value]
    growth: float = 1.0
    blocks: Packing | None = None


def _last_axes(value: Value, count: int) -> range:
    """Return the numbers of the last `count` axes of a value."""
    rank = Tensor.of(value).rank
    return range(rank - count, rank)


@dataclass(frozen=True)
class PlannedKernel(Generic[A, S]):
    """The kernel of a fused region: its family, anchor op and schedule.

    Args:
        function: the region.
        name: of its family.
        family: what that is.
        anchor: the op of the region that it is for.
        schedule: how its work is cut up.
        families: those that there are.
    """

    function: Function
    name: str
    family: KernelFamily[A, S]
    anchor: A
    schedule: S
    families: Mapping[str, KernelFamily[Any, Any]] = field(repr=False)

    @staticmethod
    def of(
        function: Function, families: Mapping[str, KernelFamily[Any, Any]]
    ) -> PlannedKernel[Any, Any] | None:
        """Return the kernel planned for a fused region; None for other functions."""
        fused = fused_of(function)
        if fused is None:
            return None
        family = families[fused.kernel]
        anchor, schedule = family.anchor_in(function), family.schedule_of(fused)
        given = fused.kernel, family, anchor, schedule, families
        return PlannedKernel(function, *given)

    def inner(self) -> tuple[Size, list[PlannedKernel[Any, Any]]]:
        """Return (repetitions, kernels) of a loop's step; (0, []) if it is no loop."""
        times, regions = self.family.inner(self.anchor)
        found = (PlannedKernel.of(each, self.families) for each in regions)
        return times, [each for each in found if each is not None]

    @property
    def workgroups(self) -> tuple[Size, Size]:
        """The numbers of workgroups of the dispatch along its two axes."""
        return self.family.workgroups(self.anchor, self.schedule)

    @property
    def scratch(self) -> Size:
        """The f32 elements of scratch memory for each share of the workgroups."""
        return self.family.scratch(self.anchor, self.schedule)

    @property
    def has_scratch(self) -> bool:
        """Return whether the kernel needs scratch memory in some call."""
        return isinstance(self.scratch, SymbolicDim) or self.scratch > 0

    @property
    def packing(self) -> Packing | None:
        """The packing of the second operand; None if it is read in place."""
        return self.family.packing(self.schedule)

    def most_shares(self, work: int, workgroups: int) -> int:
        """Return how many shares a dispatch is split into at most (`sharing`)."""
        count = sharing.run_count if self.family.has_runs else sharing.share_count
        return count(work, workgroups)
