"""Join elementwise updates of states, so that a few kernels compute all of them.

    %m1 = graph.add(%m, %g)                  %p1, %m1, %q1, %n1 =
    %p1 = graph.subtract(%p, %m1)        →     call @updates(%m, %g, %p, %n, %h, %q)
    %n1 = graph.add(%n, %h)
    %q1 = graph.subtract(%q, %n1)            // parameters p and q of other shapes

An optimizer updates each parameter, and what it keeps of it, by a chain of elementwise
ops. Each of these would be a dispatch, or several, and a network has hundreds. They
depend on nothing of each other, so one kernel computes several, whatever their shapes
are: its parts (`aotc.kernels.planning.updates`). Averages that a norm keeps are updated
with them. No tensor is copied: a part reads and writes tensors where they lie, and
`update-in-place` lets it write over the old states.

Updates are joined in the order in which their operands are there, so that gradients
need not be kept for long. A kernel has as many as there may be tensors of a dispatch
(`MOST_BINDINGS`, `MOST_ON_GPUS`).

Left as they are: updates of states without axes or of symbolic sizes; those with ops,
or of dtypes, that kernels do not compute; and those that read something else than whole
tensors and single numbers.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from aotc.dialects.functions.entries import Entry, entries_of
from aotc.dialects.functions.function_table import erase, index_functions, table_of
from aotc.dialects.functions.functions import call, define, find
from aotc.dialects.functions.fusion import Fused, mark_fused
from aotc.dialects.functions.walking import (
    clone,
    copy_value,
    defining_op,
    in_order,
    latest_op,
    users_of,
)
from aotc.dialects.graph import GraphOp, has_effect
from aotc.dialects.types import Size, Tensor, element_count
from aotc.kernels.capabilities import Capabilities, NoTargetKernels, capabilities_of
from aotc.kernels.elementwise import Elementwise
from aotc.kernels.facts import bytes_of
from aotc.kernels.family import KernelFamily
from aotc.kernels.operands import KernelOperand, ScalarOperand, Whole, is_repeated
from aotc.kernels.planning.updates import is_read_whole, is_static
from aotc.kernels.shared_work import note_shared_work
from aotc.mlir import Function, Operation, Value, func, ir
from aotc.passes.base import Pass, Unit
from aotc.passes.disjoint_sets import DisjointSets
from aotc.passes.outlining import Outlining, replace_by_call
from aotc.passes.properties import DERIVATIVES_WRITTEN

# IREE 3.13 binds at most 32 tensors to a dispatch; what a call computes in between lies
# in one of them, or in a few. Its drivers of CUDA and HIP load no code that binds more
# than 16.
MOST_BINDINGS = 32
MOST_ON_GPUS = 16
_OF_WORKSPACES = 3
# Of 64 numbers that code for processors is given, each tensor takes one for its place,
# or two if that may be beyond 4 GiB.
_MOST_PLACES = 62
_FAR = 1 << 31
_MOST_ELEMENTS = 1 << 20  # of one tensor each: gradients that wait for the last one


@dataclass(frozen=True)
class JoinUpdates(Pass):
    """Join the elementwise state updates of every entry into a few multi-tensor
    kernels.

    Args:
        without: families of kernels that are left out, with `+` between.
    """

    without: str = ""

    name = "join-updates"
    level = 2
    keeps_graph = True
    requires = (DERIVATIVES_WRITTEN,)

    def run(self, unit: Unit) -> bool:
        """Rewrite the unit's module in place; return whether any updates were joined
        into a kernel.
        """
        capabilities = capabilities_of(unit.target)
        if isinstance(capabilities, NoTargetKernels):
            return False
        left_out, changed, outlining = self.without.split("+"), False, Outlining()
        for name, family in capabilities.families.items():
            if family.is_formed_apart and name not in left_out:
                with index_functions(unit.module):
                    functions = table_of(unit.module)
                    for entry in entries_of(unit.module):
                        joining = _UpdateJoiner(name, family, capabilities, outlining)
                        changed |= joining.join(functions[entry.name], entry)
        if changed:  # threads share the work of these kernels, too
            note_shared_work(unit.module, capabilities)
        return changed


@dataclass
class _Update:
    """An elementwise computation over tensors of one shape that yields new states.

    Args:
        ops: in order.
        reads: the tensors that they read, and the numbers.
        results: the new values of the states.
        place: of the op of the function after which all that they read is there.
    """

    ops: list[GraphOp] = field(default_factory=list)
    reads: dict[Value, None] = field(default_factory=dict)
    results: list[Value] = field(default_factory=list)
    place: int = -1

    @property
    def elements(self) -> int:
        """The number of elements of each tensor of the update."""
        count = element_count(Tensor.of(self.results[0]).shape)
        assert isinstance(count, int)
        return count

    @property
    def has_readers(self) -> bool:
        """Return whether an op outside the update, other than the return, uses a new
        state.
        """
        users = [op for op in users_of(self.results) if op not in self.ops]
        return not all(isinstance(op, func.ReturnOp) for op in users)


@dataclass(frozen=True)
class _UpdateJoiner:
    """Joins the state updates of an entry into calls of multi-tensor kernels.

    Args:
        name: of the family of their kernels.
        family: of them.
        capabilities: of the target.
        outlining: the functions so far.
    """

    name: str
    family: KernelFamily[Any, Any]
    capabilities: Capabilities
    outlining: Outlining

    def join(self, function: Function, entry: Entry) -> bool:
        """Join the updates of an entry in place; return whether any kernel was
        formed.
        """
        updates = self._updates(function, entry)
        most = _DispatchLimits.of(
            function, entry, on_gpus=self.capabilities.emitted.on_gpus
        )
        return any([self._write(group) for group in _groups(updates, most)])

    # ---- what is an update ----------------------------------------------------------

    def _updates(self, function: Function, entry: Entry) -> list[_Update]:
        """Return the joinable updates of a function, sorted by where their operands are
        ready.
        """
        states = self._states(function, entry)
        if not states:
            return []
        places = _op_indices(function)
        updates = []
        for ops in _connected(self._members(function, states), states):
            update = self._update_of(ops, states, places)
            if update is not None:
                updates.append(update)
        return sorted(updates, key=lambda each: each.place)

    def _states(self, function: Function, entry: Entry) -> dict[Value, Value]:
        """Map each new state value that kernels can compute to its old value."""
        *_, end = function.entry_block.operations
        olds = {
            port.name: value
            for port, value in zip(entry.arguments, function.arguments, strict=True)
            if port.kind == "state"
        }
        found: dict[Value, Value] = {}
        for port, new in zip(entry.results, end.operands, strict=True):
            if port.kind == "state" and self._computes(defining_op(new)):
                found.setdefault(new, olds[port.name])
        return found

    def _computes(self, op: Operation | None) -> bool:
        """Return whether kernels of the family can compute an op: elementwise, static
        shape.
        """
        if not isinstance(op, GraphOp) or len(op.results) != 1 or has_effect(op):
            return False
        kind = Tensor.of(op.results[0])
        return is_static(kind.shape) and self._elementwise(op).takes(op)

    def _elementwise(self, op: GraphOp) -> Elementwise:
        """Return the family's rules on elementwise ops for the anchor `op`."""
        return self.family.epilogue_of(op, self.capabilities.machine)

    def _members(self, function: Function, states: Container[Value]) -> list[GraphOp]:
        """Return the ops that only new states depend on, and the new states', in
        order.
        """
        found: dict[Value, GraphOp] = {}
        for op in reversed([*function.entry_block.operations]):
            if not isinstance(op, GraphOp) or not op.results:
                continue
            value = op.results[0]
            users = [use.owner.opview for use in value.uses]
            is_inside = bool(users) and all(_is_of(user, found) for user in users)
            if (value in states or is_inside) and self._computes(op):
                found[value] = op
        return [*found.values()][::-1]

    def _update_of(
        self,
        ops: Sequence[GraphOp],
        states: Mapping[Value, Value],
        places: dict[Value, int],
    ) -> _Update | None:
        """Return connected ops as an update; None if kernels cannot read one of its
        operands.
        """
        made = {op.results[0] for op in ops}
        update = _Update(ops=[*ops])
        shape = Tensor.of(ops[0].results[0]).shape
        for op in ops:
            elementwise = self._elementwise(op)
            for value in op.operands:
                if value in made:
                    continue
                read = elementwise.operand(value)
                if isinstance(read, ScalarOperand):
                    if read.in_memory:
                        update.reads[read.source] = None
                elif _is_whole(read, value, shape):
                    update.reads[value] = None
                else:
                    return None
        for value in made:
            if value in states:
                update.results.append(value)
        update.results.sort(key=lambda value: places[value])
        update.place = max(
            (places.get(value, -1) for value in update.reads), default=-1
        )
        return update

    # ---- what is written ------------------------------------------------------------

    def _write(self, group: Sequence[_Update]) -> bool:
        """Replace a group of updates by one kernel call; return False if no emitter
        supports it.
        """
        ops = in_order([op for each in group for op in each.ops])
        given = [*dict.fromkeys(value for each in group for value in each.reads)]
        results = [value for each in group for value in each.results]

        def body(arguments: list[Value]) -> list[Value]:
            values = dict(zip(given, arguments, strict=True))
            for op in ops:
                taken = [copy_value(value, values) for value in op.operands]
                values.update(zip(op.results, clone(op, taken), strict=True))
            return [values[each] for each in results]

        schedule = self.family.plan(ops[0], self.capabilities.machine)
        assert schedule is not None
        last = latest_op(given)
        if last is None:
            point = ir.InsertionPoint.at_block_begin(ops[0].operation.block)
        else:
            point = ir.InsertionPoint.after(last)
        with point, ops[-1].location:
            name = define(self.name, [Tensor.of(value) for value in given], body)
            mark_fused(find(name), Fused(self.name, schedule.to_plain()))
            if self.capabilities.emitted.why_unwritten(find(name)):
                erase(find(name))
                return False
            made = call(self.outlining.share_function(name), given)
        replace_by_call(ops, results, made, [])
        return True


def _is_whole(read: KernelOperand | None, value: Value, shape: Sequence[Size]) -> bool:
    """Return whether a kernel reads all of a tensor elementwise, without
    broadcasting.
    """
    is_known = isinstance(read, Whole) and not is_repeated(value)
    return is_known and is_read_whole(value, shape)


def _is_of(op: Operation, values: Container[Value]) -> bool:
    """Return whether an op computes any of the values."""
    return any(value in values for value in op.results)


def _op_indices(function: Function) -> dict[Value, int]:
    """Map each value of a function to the index of the op that computes it."""
    ops = enumerate(function.entry_block.operations)
    return {value: place for place, op in ops for value in op.results}


def _connected(
    ops: Sequence[GraphOp], states: Mapping[Value, Value]
) -> Iterator[list[GraphOp]]:
    """Yield connected components of the ops: linked by data flow or by a common
    state.
    """
    joined = DisjointSets[Value]()
    olds = {*states.values()}
    made = {op.results[0] for op in ops}
    for new, old in states.items():
        joined.unite(new, old)  # what reads one that another is written over
    for op in ops:
        for value in op.operands:
            if value in made or value in olds:
                joined.unite(op.results[0], value)
    groups: dict[Value, list[GraphOp]] = {}
    for op in ops:
        groups.setdefault(joined.root(op.results[0]), []).append(op)
    yield from groups.values()


# ---- what is joined -----------------------------------------------------------------


@dataclass(frozen=True)
class _DispatchLimits:
    """Limits on the tensors that one dispatch may bind and address.

    IREE's code for processors finds all states in one block of memory, and all that a
    call computes in another one, so that what is read there is bound once.

    Args:
        bound: tensors that are bound by themselves; results are in any case.
        places: of all tensors.
        shared: what is read in a block of memory with others.
    """

    bound: int
    places: int
    shared: Container[Value]

    @classmethod
    def of(cls, function: Function, entry: Entry, *, on_gpus: bool) -> _DispatchLimits:
        """Return the limits for kernels of an entry on the target's device."""
        if on_gpus:
            return cls(MOST_ON_GPUS, MOST_ON_GPUS, ())
        bound = MOST_BINDINGS - _OF_WORKSPACES
        ports = [*zip(entry.arguments, function.arguments, strict=True)]
        ops = function.entry_block.operations
        computed = {value for op in ops for value in op.results}
        stored = {value for port, value in ports if port.kind != "input"}
        sizes = [bytes_of(value) for value in stored]
        is_far = sum(n for n in sizes if isinstance(n, int)) > _FAR
        return cls(bound, _MOST_PLACES // (1 + is_far), computed | stored)

    def allows(self, group: Sequence[_Update]) -> bool:
        """Return whether one kernel may compute a group of updates within the
        limits.
        """
        reads = {value for each in group for value in each.reads}
        results = sum(len(each.results) for each in group)
        bound = results + sum(value not in self.shared for value in reads)
        elements = sum(each.elements for each in group)
        return (
            bound <= self.bound
            and len(reads) + results <= self.places
            and elements <= _MOST_ELEMENTS
        )


def _groups(
    updates: Sequence[_Update], most: _DispatchLimits
) -> Iterator[list[_Update]]:
    """Yield runs of consecutive updates that fit one kernel.

    One whose results something else reads is alone: others may be computed of that.
    """
    group: list[_Update] = []
    for update in updates:
        is_alone = any(each.has_readers for each in (*group[-1:], update))
        if group and (is_alone or not most.allows([*group, update])):
            yield group
            group = []
        group.append(update)
    if group:
        yield group
