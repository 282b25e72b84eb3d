"""Calls of entries where nothing is traced: the model's own code, executed op by op.

Inputs are held to what the entry declares, by the code that the loader of a bundle
holds them to it with. What the function prints, and where a debugger stops in it, has
values; what it raises is not rewritten.

Whoever makes entries imports this module, which provides them with it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from aotc.artifacts.manifest import Leaf, Symbol
from aotc.core.pytree import PyTree, Structure, flatten, leaf_names
from aotc.dialects import context
from aotc.dialects.functions.entries import Port
from aotc.dialects.sizes.contracts import Contract
from aotc.dialects.sizes.symbols import known_contracts
from aotc.runtime.arguments import flattener
from aotc.runtime.contract import CallContract
from aotc.tracing.array import Array
from aotc.tracing.assembly import (
    array_type,
    contracts_of,
    dims_of,
    input_ports,
    sizes_of,
)
from aotc.tracing.entry import (
    EntryFunction,
    Frozen,
    State,
    StoredTree,
    entry,
    parameter_sources,
    provide_execution,
    traced_entry,
)
from aotc.tracing.execution import Eager
from aotc.tracing.results import TracedResult, results_of
from aotc.tracing.scopes import enter_scope
from aotc.tracing.source_locations import at_location, at_user_line, fail

__all__ = [
    "checked_inputs",
    "entry",
    "execute_entry",
    "executed_outputs",
    "input_leaves",
]

Ports = dict[str, tuple[Structure, list[Port]]]  # by parameter


def execute_entry(
    declared: EntryFunction, args: Sequence[object], kwargs: Mapping[str, object]
) -> Any:
    """Execute an entry op by op on arrays; return its result.

    Args:
        declared: the entry.
        args: by position; States and Weights too, in their forms.
        kwargs: by name. Weights and States that are not given are those declared, as
            they were declared: a new state is returned, and kept nowhere.

    Raises:
        InputError: an argument does not fit its Spec, or the declared Weights or State.
    """
    form, result = _run(declared, args, kwargs)
    return form.unflatten([Array(data=array._known) for array in result.arrays])


def input_leaves(declared: EntryFunction) -> list[Leaf]:
    """Return the inputs that callers pass to an entry, as manifests describe them."""
    with at_user_line(), context():
        sources = {
            name: source
            for name, source in parameter_sources(declared).items()
            if not isinstance(source, (StoredTree, Frozen))
        }
        contracts = contracts_of(declared, dims_of(sources.values()))
        ports = _ports(declared, sources, contracts)
        return _leaves(_flat_ports(ports), contracts)


def executed_outputs(
    declared: EntryFunction, arrays: Sequence[object]
) -> list[tuple[Leaf, np.ndarray]]:
    """Execute an entry on flat inputs; return its outputs with their types, without
    States.

    Raises:
        InputError: see `execute_entry`.
    """
    sources = parameter_sources(declared)
    given, rest = {}, list(arrays)
    for name, source in sources.items():
        if not isinstance(source, (StoredTree, Frozen)):
            form = flatten(source)[1]
            given[name] = form.unflatten(rest[: form.leaf_count])
            rest = rest[form.leaf_count :]
    _, result = _run(declared, (), given)
    pairs = zip(result.ports, result.arrays, strict=True)
    return [(_leaf(p), np.asarray(x)) for p, x in pairs if p.kind == "output"]


def executed_call(
    declared: EntryFunction, given: Mapping[str, object]
) -> tuple[PyTree, dict[str, PyTree]]:
    """Execute an entry on inputs by name; return its result and the new States by name.

    Args:
        declared: the entry.
        given: arguments by name; States that are not given are as they were declared.

    Raises:
        InputError: see `execute_entry`.
    """
    _, result = _run(declared, (), given)
    arrays = iter([np.asarray(array) for array in result.arrays])
    states = {
        name: source.structure.unflatten(
            [next(arrays) for _ in range(source.structure.leaf_count)]
        )
        for name, source in parameter_sources(declared).items()
        if isinstance(source, State)
    }
    return result.tree.unflatten([*arrays]), states


def checked_inputs(
    declared: EntryFunction,
    args: Sequence[object],
    kwargs: Mapping[str, object],
    wrap: Callable[[np.ndarray], object] = np.asarray,
) -> tuple[dict[str, PyTree], Ports]:
    """Bind and check an entry's arguments; return them by name, and their ports.

    Raises:
        InputError: see `execute_entry`.
    """
    with at_user_line(), context():
        sources = parameter_sources(declared)
        contracts = contracts_of(declared, dims_of(sources.values()))
        ports = _ports(declared, sources, contracts)
        values = _bind_arguments(declared, sources, args, kwargs)
        given = {name: values[name] for name in sources if name in values}
        inputs = _checked_arrays(declared, ports, contracts, given)
        for name, (structure, flat) in ports.items():
            taken, inputs = inputs[: len(flat)], inputs[len(flat) :]
            values[name] = structure.unflatten(list(map(wrap, taken)))
        return values, ports


def _run(
    declared: EntryFunction, args: Sequence[object], kwargs: Mapping[str, object]
) -> tuple[Structure, TracedResult]:
    """Execute an entry; return the structure of its result, and its leaves."""
    scope = Eager()
    values, ports = checked_inputs(declared, args, kwargs, scope.wrap)
    sources = parameter_sources(declared)
    with at_location(None), enter_scope(scope), traced_entry(declared):
        returned = declared.function(**values)
        with at_user_line():
            updated = {n: ports[n] for n, x in sources.items() if isinstance(x, State)}
            return flatten(returned)[1], results_of(declared, updated, returned)


def _ports(
    declared: EntryFunction,
    sources: Mapping[str, object],
    contracts: Sequence[Contract],
) -> Ports:
    """Return structure and ports of each parameter, by name."""
    sizes = sizes_of(contracts)
    return {
        name: _stored_ports(name, source)
        if isinstance(source, (StoredTree, Frozen))
        else input_ports(declared, name, source, sizes)
        for name, source in sources.items()
    }


def _stored_ports(
    parameter: str, source: StoredTree | Frozen
) -> tuple[Structure, list[Port]]:
    """Return structure and ports of a Weights or State."""
    stored = _stored(source)
    names, types = (
        leaf_names(stored.structure, parameter),
        map(array_type, stored.arrays),
    )
    ports = [Port(n, t, "input") for n, t in zip(names, types, strict=True)]
    return stored.structure, ports


def _stored(source: StoredTree | Frozen) -> StoredTree:
    """Return the State of a frozen parameter; others unchanged."""
    return source.state if isinstance(source, Frozen) else source


def _bind_arguments(
    declared: EntryFunction,
    sources: Mapping[str, object],
    args: Sequence[object],
    kwargs: Mapping[str, object],
) -> dict[str, PyTree]:
    """Bind arguments by name; add the declared Weights and States that are not
    given.
    """
    signature = inspect.signature(declared.function)
    try:
        given = signature.bind_partial(*args, **kwargs).arguments
    except TypeError as error:
        parameters = ", ".join(signature.parameters)
        call = f"the call is {declared.name}({parameters})"
        fail("bad-call", f"{declared.name}: {error}", call)
    stored = {
        name: _stored(source).tree
        for name, source in sources.items()
        if isinstance(source, (StoredTree, Frozen))
    }
    return {**stored, **given}


def _checked_arrays(
    declared: EntryFunction,
    ports: Ports,
    contracts: Sequence[Contract],
    given: Mapping[str, object],
) -> list[np.ndarray]:
    """Flatten the arguments, check them against their ports, and return the arrays."""
    contract = call_contract(declared.name, _flat_ports(ports), contracts)
    form = Structure("dict", tuple(ports), tuple(tree for tree, _ in ports.values()))
    leaves: list[object] = [None] * len(contract.inputs)
    flattener(declared.name, form.to_json())(given, leaves, "")
    arrays, _ = contract.arrays(leaves)
    found = list[np.ndarray]()
    for array in arrays:
        assert isinstance(array, np.ndarray), "tensors of GPUs are for loaded entries"
        found.append(array)
    return found


def call_contract(
    owner: str, ports: Sequence[Port], contracts: Sequence[Contract]
) -> CallContract:
    """Return the contract that checks the arguments of a call against an entry's ports.

    Args:
        owner: the name of the entry, for messages.
        ports: its inputs.
        contracts: of its sizes.
    """
    symbols = {
        c.name: Symbol(c.min, c.max, c.multiple_of, where=c.where) for c in contracts
    }
    return CallContract(owner, _leaves(ports, contracts), symbols)


def _flat_ports(ports: Ports) -> list[Port]:
    """Return the ports of all parameters as one list."""
    return [port for _, each in ports.values() for port in each]


def _leaves(ports: Sequence[Port], contracts: Sequence[Contract]) -> list[Leaf]:
    """Return ports as manifests describe them."""
    with known_contracts(contracts):
        return [_leaf(port) for port in ports]


def _leaf(port: Port) -> Leaf:
    """Return a port as manifests describe it: name, dtype and shape."""
    shape = [size if isinstance(size, int) else str(size) for size in port.type.shape]
    return Leaf(port.name, port.type.dtype, tuple(shape), where=port.where)


provide_execution(execute_entry)
