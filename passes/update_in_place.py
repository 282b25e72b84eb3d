"""Write the new values of states over the old ones.

    func @step(%p, %m, %g)                     // %p and %m are states
      %m1 = linalg.generic … %m, %g            // elementwise
      %p1 = linalg.generic … %p, %m1
      return %p1, %m1
    →
      %p1, %m1 = call @iree.update(%p, %m, %g) // one loop over all, tied to %p and %m

IREE 3.13 gives every result a buffer of its own, so a step would hold all states twice;
only a dispatch that is tied to an operand writes over it.

Note [readers]: IREE may run what reads an old value and what writes over it at the same
time, unless one depends on the other; a copy for a later reader, too. So a state is
written over only where the loop depends on all readers. The moments of an optimizer
have no others. A parameter has: the gradient of the layer before is computed from it,
so its update waits for that gradient, by an element of it that is read for nothing.

A call of a kernel whose results may lie where operands do (`TiedCall`) is tied to the
old states in the same way, and waits for others without reading of them.

A function with assertions or collectives is left alone, because a call that fails must
leave the states as they were. So is a module with a single state that has elements:
IREE copies the initial values of several into one buffer, but starts with a single one
where the file is mapped, and the process that writes there dies.

Requires `graph.kind` on arguments and results. Ensures:
an elementwise chain of ops that ends in new states of one shape is one loop.
"""

from collections.abc import Collection, Iterable, Sequence
from functools import reduce
from itertools import chain
from operator import or_
from typing import TypeAlias

from aotc.dialects import iree_text
from aotc.dialects.functions.function_table import index_functions
from aotc.dialects.functions.functions import callee_of, functions_of, name_of
from aotc.dialects.lowering.regions import Mark, Ties, UpdateRegion, is_bool, is_loop
from aotc.dialects.lowering.sources import operands_of
from aotc.kernels.in_place import InPlaceKernels
from aotc.mlir import Function, Operation, Value, ir
from aotc.passes.base import Pass, Unit
from aotc.passes.properties import LOWERED
from aotc.passes.tied_calls import TiedCall

# IREE's CPU loader takes 64; GPUs take fewer, and a larger loop gains nothing.
_MOST_TENSORS = 16

_SIDES = ("arg_attrs", "res_attrs")

Update: TypeAlias = UpdateRegion | TiedCall


class UpdateInPlace(Pass):
    """Make new values of states overwrite the old ones' buffers, in every function."""

    name = "update-in-place"
    level = 2
    keeps_graph = False
    requires = (LOWERED,)

    def run(self, unit: Unit) -> bool:
        """Rewrite the unit's module in place; return whether anything changed."""
        changed = False
        functions = functions_of(unit.module).values()
        exchanges = {name_of(f) for f in functions if iree_text.calls_loader(f)}
        several = len(_stored_states(functions)) > 1
        with index_functions(unit.module):
            kernels = InPlaceKernels.of(unit.module)
            for function in functions:
                if (
                    several
                    and not function.is_external
                    and not _may_fail(function, exchanges)
                ):
                    with ir.InsertionPoint.at_block_begin(function.entry_block):
                        changed |= _tie(function, kernels)
            kernels.erase_uncalled()
        return changed


def _may_fail(function: Function, exchanges: Collection[str]) -> bool:
    """Return whether a function has an assertion, or exchanges with other devices."""
    found: list[Operation] = []

    def visit(op: Operation) -> ir.WalkResult:
        is_exchange = op.name == "func.call" and callee_of(op.opview) in exchanges
        if op.name == "cf.assert" or is_exchange:
            found.append(op)
        return ir.WalkResult.ADVANCE

    function.operation.walk(visit)
    return bool(found)


def _tie(function: Function, kernels: InPlaceKernels) -> bool:
    """Replace state updates by loops or calls tied to the old states; return whether
    there are any.
    """
    updates = _updates(function)
    groups: list[Update] = [*_groups(updates), *_calls(function, updates, kernels)]
    order = UpdateOrder(function, groups)
    for group in sorted(groups, key=order.place):
        region = group.with_ties(group.ties)  # of what the ones before have left
        after = order.values_to_await(region)
        if after is None:
            independent, after = _independent_ties(group, order), []
            if not independent:
                continue
            region = group.with_ties(independent)
        region.wait_for(after)
        if region.is_closed():
            order.note_written(region, region.outline())
    return bool(groups)


def _independent_ties(group: Update, order: "UpdateOrder") -> Ties:
    """Return the new states, with their old ones, that need wait for no reader."""
    return {
        n: old
        for n, old in group.ties.items()
        if order.values_to_await(group.with_ties({n: old})) == []
    }


def _reader_results(update: Update) -> list[Value]:
    """Return the first result of each op that reads an update's old states."""
    return [op.results[0] for op in update.readers() if op.results]


class UpdateOrder:
    """Known order of a function's values: which come surely after the readers of old
    states.

    Args:
        function: that updates states.
        regions: the updates.
    """

    def __init__(self, function: Function, regions: Sequence[Update]) -> None:
        readers = dict.fromkeys(
            y for region in regions for y in _reader_results(region)
        )
        self._bits = {y: 1 << number for number, y in enumerate(readers)}
        self._before: dict[Value, int] = {}  # the readers that a value depends on
        self._changed = {new for region in regions for new in region.ties}
        self._place: dict[Value, int] = {}
        for place, op in enumerate(function.entry_block.operations):
            self._place.update(dict.fromkeys(op.results, place))
            self._add(op)
        read = {value for region in regions for value in region.computed_inputs}
        in_order = [value for value in self._place if value in read]
        self._read = [value for value in in_order if self._can_wait_for(value)]
        self._written: list[Value] = []  # new states, the last one first

    def _add(self, op: Operation) -> None:
        """Record which readers an op's results depend on."""
        operands, before = operands_of(op), self._bit(op)
        for value in operands:
            before |= self._before.get(value, 0)
        self._before.update(dict.fromkeys(op.results, before))
        if any(value in self._changed for value in operands):
            self._changed.update(op.results)

    def _bit(self, op: Operation) -> int:
        """Return the bit that stands for an op that reads an old state; 0 for other
        ops.
        """
        return self._bits.get(op.results[0], 0) if op.results else 0

    def place(self, update: Update) -> int:
        """Return the index of the last op that computes an input of an update."""
        return max(
            (self._place.get(value, 0) for value in update.computed_inputs), default=0
        )

    def note_written(self, update: Update, results: Sequence[Value]) -> None:
        """Record an update as placed: later ones may wait for its new states."""
        done = self._readers_before(update.computed_inputs) | self._readers_before(
            update.after
        )
        self._before[results[0]] = done
        self._written.insert(0, results[0])

    def values_to_await(self, update: Update) -> list[Value] | None:
        """Return the values an update must wait for, beyond its operands; None if
        unknown.

        New states are preferred, which are kept in any case; then what other regions
        read, which is stored in any case.
        """
        done, found = self._readers_before(update.computed_inputs), []
        for op in update.readers():
            bit = self._bit(op)
            if not done & bit:
                results = filter(self._can_wait_for, op.results)
                candidates = chain(self._written, self._read, results)
                later = (v for v in candidates if self._before.get(v, 0) & bit)
                first = next(later, None)
                if first is None:
                    return None
                found.append(first)
                done |= self._before[first]
        return found

    def _readers_before(self, values: Sequence[Value]) -> int:
        """Return the bits of all readers that some of the values depend on."""
        return reduce(or_, (self._before.get(value, 0) for value in values), 0)

    def _can_wait_for(self, value: Value) -> bool:
        """Return whether a loop can wait for a value by reading an element of it."""
        kind = value.type
        return (
            value not in self._changed
            and isinstance(kind, ir.RankedTensorType)
            and kind.has_static_shape
            and 0 not in kind.shape
            and not is_bool(value)
        )


def _groups(updates: Ties) -> list[UpdateRegion]:
    """Return loops that compute new states, merged where one loop may do several."""
    groups = _RegionGroups()
    for new, old in updates.items():
        if is_loop(new.owner):
            groups.add(UpdateRegion({new: old}))
    return list(groups.numbered.values())


def _calls(
    function: Function, updates: Ties, kernels: InPlaceKernels
) -> list[TiedCall]:
    """Return the kernel calls that may write new states over old ones."""
    ops = [*function.entry_block.operations] if kernels.holders else []
    found = (TiedCall.of(op, kernels, updates) for op in ops)
    return [each for each in found if each is not None]


class _RegionGroups:
    """Update loops, merged greedily when added, in order of creation."""

    def __init__(self) -> None:
        self.numbered: dict[int, UpdateRegion] = {}
        self._count = 0
        self._near: dict[Mark, set[int]] = {}  # the regions that have each mark

    def add(self, region: UpdateRegion) -> None:
        """Add an update loop, merged with adjacent ones as long as possible."""
        while found := self._join(region):  # which may be near more of them
            region = found
        self.numbered[self._count] = region
        for mark in region.marks:
            self._near.setdefault(mark, set()).add(self._count)
        self._count += 1

    def _join(self, region: UpdateRegion) -> UpdateRegion | None:
        """Merge a loop with an adjacent one, removing that; None if none can be
        merged.
        """
        near = {n for mark in region.marks for n in self._near.get(mark, ())}
        for number in sorted(near):
            other = self.numbered[number]
            wider = UpdateRegion({**other.ties, **region.ties}, [other, region])
            if wider.is_closed() and wider.tensors <= _MOST_TENSORS:
                for mark in other.marks:
                    self._near[mark].remove(number)
                del self.numbered[number]
                return wider
        return None


def _updates(function: Function) -> dict[Value, Value]:
    """Map the new value of each state to its argument with the old value."""
    arguments, results = (_states(function, side) for side in _SIDES)
    *_, returned = function.entry_block.operations
    found: dict[Value, Value] = {}
    for name, position in results.items():
        new, old = returned.operands[position], function.arguments[arguments[name]]
        if new.type == old.type and new not in found and not is_bool(new):
            found[new] = old
    return found


def _stored_states(functions: Iterable[Function]) -> set[str]:
    """Return the names of states with at least one element."""
    found: set[str] = set()
    for function in functions:
        types = function.type.inputs  # a list that is made anew each time
        states = _states(function, "arg_attrs").items()
        found |= {name for name, at in states if 0 not in types[at].shape}
    return found


def _states(function: Function, side: str) -> dict[str, int]:
    """Map each state to its position in `side`, the attributes of arguments or of
    results.
    """
    if side not in function.attributes:
        return {}
    rows = [ir.DictAttr(row) for row in ir.ArrayAttr(function.attributes[side])]
    return {
        ir.StringAttr(row["graph.name"]).value: position
        for position, row in enumerate(rows)
        if ir.StringAttr(row["graph.kind"]).value == "state"
    }
