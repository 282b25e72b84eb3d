"""Results of an entry: the new states first, then the outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from aotc.core.pytree import PyTree, Structure, flatten, leaf_names
from aotc.dialects.functions.entries import Port
from aotc.errors import InputError
from aotc.tracing.array import Array
from aotc.tracing.conversion import lift
from aotc.tracing.entry import EntryFunction
from aotc.tracing.source_locations import fail

# parameter → form and ports of the state that it must be returned as
Updated = Mapping[str, tuple[Structure, Sequence[Port]]]

_STATE_FIRST = "return new_state, result — or take state.frozen to read it only"


@dataclass
class TracedResult:
    """The results of a traced entry: ports and arrays, and the outputs' structure."""

    ports: list[Port]
    arrays: list[Array]
    tree: Structure


def results_of(
    entry: EntryFunction, updated: Updated, returned: object
) -> TracedResult:
    """Split an entry's return value into new States and outputs, with their ports.

    Raises:
        InputError: states are missing or of another form or type, or an output is no
            array.
    """
    states, outputs = _states_and_outputs(entry, updated, returned)
    leaves, tree = flatten(outputs)
    result = TracedResult([], [], tree)
    for (parameter, (form, ports)), state in zip(updated.items(), states, strict=True):
        result.ports += [Port(port.name, port.type, "state") for port in ports]
        result.arrays += _state_arrays(entry, parameter, form, ports, state)
    for name, leaf in zip(leaf_names(tree), leaves, strict=True):
        array = _output_array(entry, name or "output", leaf)
        result.ports.append(Port(name or "output", array.type, "output"))
        result.arrays.append(array)
    if not result.arrays:
        fail("bad-entry", f"entry '{entry.name}' returns nothing")
    return result


def _states_and_outputs(
    entry: EntryFunction, updated: Updated, returned: object
) -> tuple[list[object], object]:
    """Split an entry's return value into the new States and the rest."""
    count = len(updated)
    if not count:
        return [], returned
    forms = [form for form, _ in updated.values()]
    if count == 1 and flatten(returned)[1] == forms[0]:
        return [returned], None
    if not isinstance(returned, tuple) or len(returned) < count:
        fail(
            "bad-entry",
            f"entry '{entry.name}' takes State ({', '.join(updated)}) and must "
            "return its new value first",
            _STATE_FIRST,
        )
    rest = returned[count:]
    return list(returned[:count]), rest[0] if len(rest) == 1 else (rest or None)


def _state_arrays(
    entry: EntryFunction,
    parameter: str,
    form: Structure,
    ports: Sequence[Port],
    state: PyTree,
) -> list[Array]:
    """Return the leaves of a new State; refuse another structure, shape or dtype."""
    leaves, structure = flatten(state)
    if structure != form:
        fail(
            "bad-entry",
            f"entry '{entry.name}' returns state '{parameter}' in another form: "
            f"expected {form}; got {structure}",
            _STATE_FIRST,
        )
    arrays = [
        lift(leaf, port.type.dtype) for leaf, port in zip(leaves, ports, strict=True)
    ]
    for array, port in zip(arrays, ports, strict=True):
        if array.type != port.type:
            fail(
                "bad-entry",
                f"entry '{entry.name}' returns state '{port.name}' as {array.type}; "
                f"it is {port.type}",
                "keep shape and dtype, for instance with .astype on what is computed",
            )
    return arrays


def _output_array(entry: EntryFunction, name: str, leaf: object) -> Array:
    """Return an output leaf as an Array; refuse what is no array."""
    try:
        return lift(leaf)
    except InputError:
        fail(
            "bad-entry",
            f"entry '{entry.name}' returns {type(leaf).__name__} as '{name}'; "
            "expected arrays",
        )
