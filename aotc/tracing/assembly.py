"""Declared entries → `Program`: arguments, the traced body, results.

A graph function takes the leaves of all parameters in order, and returns the leaves of
the new states, then those of the outputs.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

import numpy as np

from aotc.core import dtypes
from aotc.core.collecting import collecting_rarely
from aotc.core.pytree import PyTree, Structure, flatten, leaf_names
from aotc.dialects import context
from aotc.dialects.calls.specialization import allowed_specializations
from aotc.dialects.functions.entries import Entry, Port, Sizes, write_entry
from aotc.dialects.functions.function_table import erase, index_functions
from aotc.dialects.functions.functions import functions_of
from aotc.dialects.functions.symbol_solver import solve_symbols
from aotc.dialects.sizes.contracts import Contract
from aotc.dialects.types import Size, SymbolicDim, Tensor
from aotc.errors import AotcError
from aotc.mlir import Function, Module, ir
from aotc.programs.computed_arrays import StoredArray
from aotc.programs.parameter_archive import UnevaluatedArray
from aotc.programs.program import Program
from aotc.tracing.dims import Dim
from aotc.tracing.entry import (
    EntryFunction,
    Frozen,
    Spec,
    State,
    StoredTree,
    Weights,
    parameter_sources,
    traced_entry,
)
from aotc.tracing.results import TracedResult, results_of
from aotc.tracing.source_locations import (
    at_location,
    at_user_line,
    fail,
    is_in_model,
    line_of,
    user_line,
)
from aotc.tracing.survey import tolerate_errors
from aotc.tracing.tracing import Trace
from aotc.tracing.user_errors import translate_user_errors


@collecting_rarely()
def trace(declared: Sequence[EntryFunction], names: dict[int, str]) -> Program:
    """Trace entries; return a Program with a graph function for each.

    Args:
        declared: the entries.
        names: of Weights and States, by identity; others take their parameter's name.
    """
    with context(), ir.Location.unknown():
        module = ir.Module.create()
        module.operation.attributes["sym_name"] = ir.StringAttr.get("aotc")
    networks: dict[str, Any] = {}
    builder = _Builder(Program(module, {}, networks), dict(names))
    with index_functions(module):
        for function in declared:
            with tolerate_errors(f"entry '{function.name}'"), _erase_on_error(module):
                write_entry(module, _trace_entry(builder, function))
                if function.network is not None:
                    networks[function.name] = function.network
    return builder.program


@contextmanager
def _erase_on_error(module: Module) -> Iterator[None]:
    """Erase functions that the `with` block added to the module if it fails."""
    before = set(functions_of(module))
    try:
        yield
    except AotcError:
        for name, function in functions_of(module).items():
            if name not in before:
                erase(function)
        raise


@dataclass
class _Builder:
    """The Program under construction, with the Weights, States and contracts so far."""

    program: Program
    names: dict[int, str]
    stored: dict[int, list[str]] = field(default_factory=dict)
    contracts: dict[str, tuple[Contract, EntryFunction]] = field(default_factory=dict)

    def require_same_contracts(
        self, declared: EntryFunction, contracts: Iterable[Contract]
    ) -> None:
        """Refuse a symbol whose contract differs from an earlier entry's of the same
        name.
        """
        for contract in contracts:
            known, first = self.contracts.setdefault(
                contract.name, (contract, declared)
            )
            if known != contract:
                fail(
                    "bad-contract",
                    f"entry '{declared.name}' gives size '{contract.name}' the "
                    f"contract '{contract}', entry '{first.name}' at "
                    f"{line_of(first.place)} gave it '{known}'",
                    f"use one Dim in both, {contract.name} = "
                    f"aotc.Dim('{contract.name}', …), or another name in one of them",
                )

    def leaves_of(self, stored: StoredTree, parameter: str) -> list[str]:
        """Return the names of a stored tree's leaves; register its arrays the first
        time.
        """
        if id(stored) not in self.stored:
            self._register(stored, self.names.setdefault(id(stored), parameter))
        return self.stored[id(stored)]

    def _register(self, stored: StoredTree, name: str) -> None:
        """Add the arrays of a Weights or State to the program, under a unique name."""
        if any(leaf.split(".")[0] == name for leaf in self.program.parameters):
            fail(
                "name-clash",
                f"two different Weights or States are called '{name}'",
                "define them in the module under different names",
            )
        leaves = leaf_names(stored.structure, name)
        kind = kind_of(stored)
        for leaf, array in zip(leaves, stored.arrays, strict=True):
            assert isinstance(array, StoredArray)
            self.program.add_parameter(leaf, array, array_type(array), kind)
        self.stored[id(stored)] = leaves
        if isinstance(stored, State):
            self.program.add_state(name, leaves, stored.structure)


def kind_of(stored: StoredTree) -> str:
    """Return the parameter kind of a stored tree: "weight" or "state"."""
    return "weight" if isinstance(stored, Weights) else "state"


def array_type(array: np.ndarray | UnevaluatedArray) -> Tensor:
    """Return the tensor type (shape and dtype) of an array."""
    return Tensor(array.shape, dtypes.canonical_dtype(array.dtype))


# ---- one entry ----------------------------------------------------------------------


@dataclass
class EntryParameter:
    """A parameter of an entry, with its flattened leaves as ports."""

    parameter: str
    source: PyTree
    structure: Structure
    ports: list[Port]

    @property
    def stored_tree(self) -> StoredTree | None:
        """The Weights or State of the parameter; None for an input."""
        if isinstance(self.source, Frozen):
            return self.source.state
        return self.source if isinstance(self.source, StoredTree) else None


def _trace_entry(builder: _Builder, declared: EntryFunction) -> Entry:
    """Trace one entry into the module; return its description."""
    with context(), at_location(declared.place), at_user_line():
        sources = parameter_sources(declared)
        dims = list(dims_of(sources.values()))
        contracts = contracts_of(declared, dims)
        builder.require_same_contracts(declared, contracts)
        sizes = sizes_of(contracts)
        arguments = [
            _argument(builder, declared, parameter, source, sizes)
            for parameter, source in sources.items()
        ]
        _require_distinct(declared, arguments)
        ports = [port for argument in arguments for port in argument.ports]
        types = [port.type for port in ports]
        _require_bound(declared, contracts, types)
        tracing = Trace(builder.program.module, declared.name, types, contracts)
        with tracing.active():
            returned = _call(declared, arguments, tracing)
            result = results_of(declared, _states_to_return(arguments), returned)
            tracing.finish(result.arrays)
        if declared.network is None:
            _warn_of_idle(declared, tracing.function, ports, result.ports)
    entry = _entry(builder, declared.name, contracts, arguments, result)
    entry = replace(entry, guards=tuple(tracing.guards.values()))
    return replace(entry, specializations=_specializations(declared, entry, dims))


def _call(
    declared: EntryFunction, arguments: Sequence[EntryParameter], tracing: Trace
) -> PyTree:
    """Call the user's function on traced arrays; return its result."""
    values, remaining = {}, tracing.arguments
    for argument in arguments:
        count = len(argument.ports)
        values[argument.parameter] = argument.structure.unflatten(remaining[:count])
        remaining = remaining[count:]
    with at_location(None), traced_entry(declared), translate_user_errors():
        return declared.function(**values)


def _warn_of_idle(
    declared: EntryFunction,
    function: Function,
    arguments: Sequence[Port],
    results: Sequence[Port],
) -> None:
    """Warn of inputs that nothing reads and of States that are returned unchanged.

    Both are legal, and mostly a slip. An input may be there for its size alone.
    """
    (block,) = function.regions[0].blocks
    for argument, port in zip(block.arguments, arguments, strict=True):
        fixed = all(isinstance(size, int) for size in port.type.shape)
        if port.kind == "input" and fixed and not list(argument.uses):
            _warn(declared, f"the input '{port.name}'", "is not used")
    returned = list(block.operations)[-1].operands
    given = {
        port.name: argument
        for argument, port in zip(block.arguments, arguments, strict=True)
        if port.kind == "state"
    }
    kept: dict[str, bool] = {}
    for value, port in zip(returned, results, strict=True):
        if port.kind == "state":
            name = port.name.partition(".")[0]
            kept[name] = kept.get(name, True) and value == given.get(port.name)
    for name in (name for name, same in kept.items() if same):
        advice = "is returned as it was; an entry that only reads it takes its .frozen"
        _warn(declared, f"the State '{name}'", advice)


def _warn(declared: EntryFunction, subject: str, predicate: str) -> None:
    """Warn of a fact about an entry, with the user's source line in the text."""
    text = f"{user_line()}: {subject} of entry '{declared.name}' {predicate}"
    warnings.warn(text, stacklevel=2)


def _states_to_return(
    arguments: Sequence[EntryParameter],
) -> dict[str, tuple[Structure, list[Port]]]:
    """Return structure and ports of the States that the entry must return, by
    parameter.
    """
    return {
        argument.parameter: (argument.structure, argument.ports)
        for argument in arguments
        if isinstance(argument.source, State)
    }


def _entry(
    builder: _Builder,
    name: str,
    contracts: tuple[Contract, ...],
    arguments: Sequence[EntryParameter],
    result: TracedResult,
) -> Entry:
    """Return the description of a traced entry: its ports, trees and States."""
    inputs = [argument for argument in arguments if argument.stored_tree is None]
    # trees without leaves leave no argument by which IR would show that they are read
    stored = [each for each in arguments if each.stored_tree is not None and each.ports]
    updated = [argument for argument in stored if isinstance(argument.source, State)]
    return Entry(
        name=name,
        symbols=contracts,
        arguments=tuple(port for argument in arguments for port in argument.ports),
        results=tuple(result.ports),
        # leaves are numbered in the order of the signature
        input_tree=Structure(
            "dict",
            tuple(argument.parameter for argument in inputs),
            tuple(argument.structure for argument in inputs),
        ),
        output_tree=result.tree,
        reads=tuple(builder.names[id(argument.stored_tree)] for argument in stored),
        updates=tuple(builder.names[id(argument.stored_tree)] for argument in updated),
    )


# ---- arguments ----------------------------------------------------------------------


def _argument(
    builder: _Builder,
    declared: EntryFunction,
    parameter: str,
    source: PyTree,
    sizes: Mapping[str, Size],
) -> EntryParameter:
    """Return a parameter of an entry as flattened ports."""
    stored = source.state if isinstance(source, Frozen) else source
    if isinstance(stored, StoredTree):
        names = builder.leaves_of(stored, parameter)
        kind = kind_of(stored)
        types = map(array_type, stored.arrays)
        ports = [Port(n, t, kind) for n, t in zip(names, types, strict=True)]
        return EntryParameter(parameter, source, stored.structure, ports)
    return EntryParameter(
        parameter, source, *input_ports(declared, parameter, source, sizes)
    )


def input_ports(
    declared: EntryFunction, parameter: str, source: object, sizes: Mapping[str, Size]
) -> tuple[Structure, list[Port]]:
    """Return the structure and the ports of an input that callers pass.

    Args:
        declared: the entry.
        parameter: of it.
        source: a pytree of Specs.
        sizes: what each Dim is.
    """
    specs, structure = flatten(source)
    # a network that no line of a model imports was declared by none
    owner = declared.place if is_in_model(declared.place[0]) else None
    ports = []
    for name, spec in zip(leaf_names(structure, parameter), specs, strict=True):
        if not isinstance(spec, Spec):
            fail(
                "bad-entry",
                f"expected Specs, Weights or State for '{name}' of entry "
                f"'{declared.name}'; got {type(spec).__name__}",
            )
        shape = tuple(n if isinstance(n, int) else n.value(sizes) for n in spec.shape)
        where = line_of(spec.place or owner)
        ports.append(Port(name, Tensor(shape, spec.dtype), "input", where=where))
    return structure, ports


def sizes_of(contracts: Sequence[Contract]) -> dict[str, Size]:
    """Return the symbolic size that stands for each Dim in types, by the Dim's name."""
    return {
        contract.name: SymbolicDim.symbol(number) * contract.multiple_of
        for number, contract in enumerate(contracts)
    }


def dims_of(sources: Iterable[object]) -> Iterator[Dim]:
    """Yield the Dims in the sizes of all Specs, in order."""
    given = [
        source for source in sources if not isinstance(source, (StoredTree, Frozen))
    ]
    specs = [spec for source in given for spec in flatten(source)[0]]
    sizes = [n for spec in specs if isinstance(spec, Spec) for n in spec.shape]
    for size in sizes:
        if not isinstance(size, int):
            yield from size.dims()


def contracts_of(declared: EntryFunction, dims: Iterable[Dim]) -> tuple[Contract, ...]:
    """Return one contract for each name of Dims; refuse different ones."""
    symbols: dict[str, Contract] = {}
    for dim in dims:
        contract, nothing = dim.contract(), Contract(dim.name)
        known = symbols.get(dim.name, nothing)
        if nothing not in (known, contract) and known != contract:
            fail(
                "bad-contract",
                f"entry '{declared.name}' gives two contracts for size '{dim.name}': "
                f"{known} and {contract}",
            )
        if contract != nothing or dim.name not in symbols:
            symbols[dim.name] = contract
    return tuple(symbols.values())


def _specializations(
    declared: EntryFunction, entry: Entry, dims: Iterable[Dim]
) -> tuple[Sizes, ...]:
    """Return all combinations of sizes that entries are specialized for, guards
    permitting.

    Those that a guard refuses are left out: no call has them.
    """
    chosen: dict[str, tuple[int, ...]] = {}
    for dim in dims:
        sizes = tuple(dim.specialize)
        known = chosen.setdefault(dim.name, sizes) or sizes
        if sizes and known != sizes:
            fail(
                "bad-contract",
                f"entry '{declared.name}' specializes size '{dim.name}' for "
                f"{known} and for {sizes}",
                "use one Dim for both",
            )
        chosen[dim.name] = known
    names = sorted(name for name, sizes in chosen.items() if sizes)
    if not names:
        return ()
    combinations = product(*(chosen[name] for name in names))
    wanted = (tuple(zip(names, sizes, strict=True)) for sizes in combinations)
    return allowed_specializations(entry, wanted)


def _require_bound(
    declared: EntryFunction, contracts: Sequence[Contract], types: Sequence[Tensor]
) -> None:
    """Refuse a symbol that the sizes of the inputs do not determine."""
    bound = {binding.symbol for binding in solve_symbols(types)}
    for number, contract in enumerate(contracts):
        if number not in bound:
            fail(
                "unbound-symbol",
                f"no size of an input of entry '{declared.name}' says what "
                f"'{contract.name}' is",
                f"give an input the size '{contract.name}', or a multiple of it",
            )


def _require_distinct(
    declared: EntryFunction, arguments: Sequence[EntryParameter]
) -> None:
    """Refuse a Weights or State given as two parameters, as its update would be
    ambiguous.
    """
    seen: dict[int, str] = {}
    for argument in arguments:
        if argument.stored_tree is None:
            continue
        first = seen.setdefault(id(argument.stored_tree), argument.parameter)
        if first != argument.parameter:
            fail(
                "bad-entry",
                f"parameters '{first}' and '{argument.parameter}' of entry "
                f"'{declared.name}' are the same {type(argument.stored_tree).__name__}",
                "take it once",
            )
