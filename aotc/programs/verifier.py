"""Verification that IR which was read is a whole program without contradictions.

What a build writes is; what an editor has made of it may not be, and must not become a
bundle that fails where it is loaded, or that says what is not so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from aotc.dialects import iree_text
from aotc.dialects.calls.callees import declaration_of
from aotc.dialects.calls.padded_entries import padded_types
from aotc.dialects.calls.specialization import fix_sizes, specialized_types
from aotc.dialects.functions.entries import Entry, Port, SizeSpecialization
from aotc.dialects.functions.functions import (
    functions_of,
    is_private,
    lowered_op,
    name_of,
)
from aotc.dialects.functions.parameters import Parameter, parameter_ops, parameters_of
from aotc.dialects.sizes.contracts import Contract
from aotc.dialects.types import Tensor, lowered_type
from aotc.errors import InputError
from aotc.kernels.capabilities import capabilities_of
from aotc.kernels.verifier import impossible_regions
from aotc.machine.target import Target
from aotc.mlir import Function, Type
from aotc.programs.program import (
    GRAPH_STAGES,
    TARGET_STAGES,
    Program,
    is_title,
    title_form,
)

Parameters = Mapping[str, Parameter]


def require_whole(program: Program) -> None:
    """Verify that a module is a consistent whole program; raise `bad-ir` if not.

    Raises:
        InputError: `bad-ir`.
        KeyError, TypeError, ValueError, AttributeError: an attribute is malformed.
    """
    said = next(_inconsistencies(program), None)
    if said is not None:
        raise InputError("bad-ir", f"the IR is no whole program: {said}")


def _inconsistencies(program: Program) -> Iterator[str]:
    """Yield a text for each inconsistency of a program."""
    module = program.module
    entries = {each.name: each for each in (*program.entry_points, *program.entries)}
    parameters = {each.name: each for each in parameters_of(module)}
    if not entries:
        yield "there is no entry"
    for name, function in functions_of(module).items():
        if not is_private(function) and name not in entries:
            yield f"'{name}' is public, and no entry (graph.entry)"
        if function.is_external and not _is_declared(function, entries):
            yield f"'{name}' has no body, and no attribute says what it stands for"
    for op in parameter_ops(module):
        if not str(op.attributes["value"]).startswith("#ml_program.extern"):
            yield f"{op.attributes['sym_name']} has a value; it lies in the archive"
    for entry in entries.values():
        kind = functions_of(module)[entry.name].type
        for said in _entry_inconsistencies(
            entry, [*kind.inputs], [*kind.results], parameters
        ):
            yield f"entry '{entry.name}': {said}"
        yield from _specialization_inconsistencies(entry, entries)
    yield from _state_inconsistencies(program, parameters)
    yield from _module_inconsistencies(program)
    target = program.target
    capabilities = capabilities_of(None if target is None else Target.parse(target))
    yield from impossible_regions(module, capabilities)


def _is_declared(function: Function, entries: Mapping[str, Entry]) -> bool:
    """Return whether a function without a body is declared by an attribute."""
    entry = entries.get(name_of(function))
    if entry is not None:
        return entry.specializes is None and not entry.has_general_code
    return (
        declaration_of(function) is not None or iree_text.body_of(function) is not None
    )


def _module_inconsistencies(program: Program) -> Iterator[str]:
    """Yield a text for each inconsistency of the module's attributes."""
    if program.target is not None and program.stage not in TARGET_STAGES:
        yield (
            f"IR of the stage '{program.stage}' is for all targets; graph.target names "
            f"'{program.target}'"
        )
    if program.target is None and program.stage == TARGET_STAGES[-1]:
        yield f"the stage '{program.stage}' is for one target (graph.target)"
    lowered = lowered_op(program.module)
    if program.stage in GRAPH_STAGES and lowered is not None:
        yield (
            f"expected a graph at the stage '{program.stage}' (graph.stage); got the "
            f"lowered op {lowered} (`aotc opt --passes optimized,linalg` says that it "
            "lowers)"
        )
    _ = program.level  # which refuses what is none
    if not {"kind", "file", "sha256"} <= program.source.keys():
        yield "graph.source lacks kind, file or sha256"
    for what, text in (
        ("name", program.title.name),
        ("version", program.title.version),
    ):
        if text is not None and not is_title(what, text):
            yield f"expected {title_form(what)} in graph.title; got {text!r}"
    for each in program.passes:
        if not isinstance(each, str):
            yield f"expected text in graph.passes; got {each}"


def _entry_inconsistencies(
    entry: Entry,
    inputs: Sequence[Type],
    results: Sequence[Type],
    parameters: Parameters,
) -> Iterator[str]:
    """Yield a text for each inconsistency of an entry with its function's type."""
    for contract in entry.symbols:
        if not _is_contract(contract):
            yield f"no size can be as graph.symbols says: {contract}"
    for ports, kinds, roles in (
        (entry.arguments, inputs, ("input", "weight", "state")),
        (entry.results, results, ("state", "output")),
    ):
        for port, kind in zip(ports, kinds, strict=True):
            if not isinstance(port.name, str) or port.kind not in roles:
                known = ", ".join(roles)
                yield f"'{port.name}' is a {port.kind}; expected one of {known}"
            yield from _port_inconsistencies(port, kind, parameters)
    for tree, role in ((entry.input_tree, "input"), (entry.output_tree, "output")):
        is_padded = entry.specializes is not None and bool(entry.specializes.padded)
        if tree.leaf_count + (is_padded and role == "input") != len(entry.ports(role)):
            yield f"its form has {tree.leaf_count} {role}s, its signature has not"
    stored = {
        port.name.partition(".")[0] for port in entry.arguments if _is_stored(port)
    }
    updated = {
        port.name.partition(".")[0] for port in entry.results if _is_stored(port)
    }
    for what, said, is_so in (
        ("reads", entry.reads, stored),
        ("updates", entry.updates, updated),
    ):
        if {*said} != is_so:
            got = ", ".join(map(str, said))
            yield f"it {what} {', '.join(sorted(is_so))}; graph.entry says {got}"


def _specialization_inconsistencies(
    entry: Entry, entries: Mapping[str, Entry]
) -> Iterator[str]:
    """Yield a text for each inconsistency in the sizes that an entry is specialized
    for.
    """
    special, contracts = entry.specializes, {each.name: each for each in entry.symbols}
    wanted, general = entry.specializations, None
    if special is not None:
        general = entries.get(special.entry)
        if general is None or general.specializes is not None:
            yield f"'{entry.name}' specializes '{special.entry}', which is no entry"
            return
        contracts = {each.name: each for each in general.symbols}
        wanted = (special.sizes,)
    if () in wanted:
        yield f"'{entry.name}' is specialized for no sizes"
    for name, size in (pair for sizes in wanted for pair in sizes):
        if name not in contracts or not contracts[name].allows(size):
            said = f"{name} = {size}, which no call has"
            yield f"'{entry.name}' is specialized for {said}"
            return
    if special is not None and general is not None:
        types = [[x.type for x in entry.ports(kind)] for kind in ("input", "output")]
        if types != [*_types_for(general, special)]:
            yield f"'{entry.name}' has not the types of '{general.name}' for its sizes"


def _types_for(
    general: Entry, special: SizeSpecialization
) -> tuple[list[Tensor], list[Tensor]]:
    """Return the input types and output types of an entry for a specialization's
    sizes.
    """
    exact = {k: n for k, n in special.sizes if k not in special.padded}
    if not special.padded:
        return specialized_types(general, exact)
    entry = fix_sizes(general, exact) if exact else general
    return padded_types(entry, {k: n for k, n in special.sizes if k not in exact})


def _port_inconsistencies(
    port: Port, kind: Type, parameters: Parameters
) -> Iterator[str]:
    """Yield a text for each inconsistency of a port with its argument's or result's
    type.
    """
    if kind not in (port.type.to_mlir(), lowered_type(port.type)):
        yield f"'{port.name}' is of type {kind}, and is said to be {port.type}"
    if _is_stored(port):
        known = parameters.get(port.name)
        if known is None:
            yield f"there is no parameter '{port.name}'"
        elif (known.type, known.kind) != (port.type, port.kind):
            yield (
                f"'{port.name}' is a {port.kind} of {port.type}; the parameter is a "
                f"{known.kind} of {known.type}"
            )


def _is_stored(port: Port) -> bool:
    """Return whether a port is a weight or a state."""
    return port.kind in ("weight", "state")


def _state_inconsistencies(program: Program, parameters: Parameters) -> Iterator[str]:
    """Yield a text for each inconsistency of the States with their parameters."""
    seen: list[Any] = []
    for state in program.states:
        seen += state.leaves
        leaves = {each for each in state.leaves if parameters[each].kind == "state"}
        if len(leaves) != len(state.leaves) or state.tree.leaf_count != len(leaves):
            yield f"state '{state.name}' lacks a parameter, or has one twice"
    if {*seen} != {name for name, each in parameters.items() if each.kind == "state"}:
        yield "graph.states does not list each parameter that is a state"


def _is_contract(contract: Contract) -> bool:
    """Return whether a contract has a name, some size satisfies it, and its optimum
    does.
    """
    if not contract.name or contract.min < 0 or contract.multiple_of < 1:
        return False
    most, usual = contract.largest, contract.optimum
    is_possible = most is None or contract.min <= most
    return is_possible and (usual is None or contract.allows(usual))
