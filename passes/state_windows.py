"""Windows of states that may be written in place.

    func @step(%cache, %new, %at)                // %cache is a state
      %y = graph.dynamic_update_slice(%cache, %new, %at)
      return %y

IREE 3.13 gives every result a buffer of its own, so a step would copy the state to
change a part of it. A dispatch that is tied to the state writes that part alone. It may
where nothing else reads the old value, because IREE may run another reader at the same
time; but what is written may be computed from a part of it (`dynamic_slice`), which has
no other use.

As in `update-in-place`, a call that may fail must leave its states as they were, and a
module with a single state that has elements starts with a file that is mapped to be
read.
"""

from collections.abc import Mapping

from aotc.dialects.calls.callees import reachable_functions
from aotc.dialects.functions.entries import Entry
from aotc.dialects.functions.walking import users_of
from aotc.dialects.ops.dynamic import DynamicSlice, DynamicUpdateSlice
from aotc.dialects.ops.effects import Assert
from aotc.dialects.ops.selection import Select
from aotc.dialects.types import Tensor
from aotc.mlir import Function, Operation, Value


def windows_in_place(
    entry: Entry, functions: Mapping[str, Function], states: int
) -> set[Value]:
    """Return results of dynamic_update_slice on states that may overwrite the state's
    buffer.

    Args:
        entry: in graph IR.
        functions: of the module, by name.
        states: how many the module has that have elements.
    """
    function = functions[entry.name]
    if states < 2 or _may_fail(entry, functions):
        return set()
    *_, returned = function.entry_block.operations
    arguments = {
        port.name: value
        for port, value in zip(
            entry.arguments, function.entry_block.arguments, strict=True
        )
        if port.kind == "state"
    }
    found: set[Value] = set()
    for port, value in zip(entry.results, returned.operands, strict=True):
        if port.kind == "state":
            found |= _updates_of(arguments[port.name], value)
    return found


def _may_fail(entry: Entry, functions: Mapping[str, Function]) -> bool:
    """Return whether an entry or a callee has an assertion."""
    return any(
        isinstance(op, Assert)
        for name in reachable_functions(functions, entry.name)
        if not functions[name].is_external
        for op in functions[name].entry_block.operations
    )


def _updates_of(old: Value, new: Value) -> set[Value]:
    """Return the slice updates from a state's old value to its new one, if no more is
    between.

    Empty if there is something else between them, or if any value before the last has
    another reader.
    """
    found: set[Value] = set()
    value = new
    while value != old:
        op = getattr(value.owner, "opview", None)
        if not isinstance(op, DynamicUpdateSlice) or not _is_writable(op):
            return set()
        found.add(value)
        value = op.x
        if not all(_waits_for(op, use.owner.opview) for use in value.uses):
            return set()
    return found


def _waits_for(update: DynamicUpdateSlice, reader: Operation) -> bool:
    """Return whether a reader of a state's old value is the update, or only feeds it.

    As a scatter of one update has it. Not for any op: IREE computes elementwise ops
    again wherever they are read, and slices not at all.
    """
    while reader.operation != update.operation:
        users = users_of(reader.results)
        if not isinstance(reader, (DynamicSlice, Select)) or len(users) != 1:
            return False
        (reader,) = users
    return True


def _is_writable(op: DynamicUpdateSlice) -> bool:
    """Return whether a dispatch can write the updated window: of static size, not
    bool.
    """
    kinds = [Tensor.of(value) for value in (op.x, op.update)]
    return all(
        x.is_static and x.dtype != "bool" and x.rank > 0 and 0 not in x.shape
        for x in kinds
    )
