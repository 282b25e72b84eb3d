"""Sizes that a build makes code for, and policies: those asked for beside the model's.

All of it is stated at the entries of the program, before the first pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product

from aotc.dialects.calls.callees import reachable_functions
from aotc.dialects.calls.specialization import allowed_specializations
from aotc.dialects.functions.entries import SPECIALIZATIONS, Entry, Sizes, write_entry
from aotc.dialects.functions.functions import SYMBOLS, functions_of
from aotc.dialects.sizes.contracts import BUCKET, DYNAMIC, POLICIES, Contract, is_policy
from aotc.errors import InputError
from aotc.mlir import Module
from aotc.pipeline.buckets import Buckets, choose_buckets
from aotc.programs.program import Program
from aotc.traffic import Traffic


def ask_for_specializations(
    program: Program, wanted: Sequence[Mapping[str, int]]
) -> None:
    """Write sizes to specialize for into a program's entries.

    An entry is specialized for those of the sizes whose symbols it has.

    Args:
        program: at the stage `graph`.
        wanted: sizes by the names of symbols.

    Raises:
        InputError: `unknown-size`: no entry has a symbol; `bad-size`: a contract or a
            guard refuses a size; `too-many-specializations`.
    """
    entries = program.entries
    for sizes in wanted:
        for name in sizes:
            _require_known(entries, name)
    for entry in entries:
        names = {each.name for each in entry.symbols}
        own: list[Sizes] = [
            tuple(sorted((name, sizes[name]) for name in names & sizes.keys()))
            for sizes in wanted
            if names & sizes.keys()
        ]
        for each in own:
            _require_allowed(entry, each)
        if own:
            asked = allowed_specializations(entry, [*entry.specializations, *own])
            write_entry(program.module, replace(entry, specializations=asked))


def leave_out_specializations(program: Program) -> None:
    """Remove the sizes to specialize for from a program's entries.

    Args:
        program: at the stage `graph`.
    """
    functions = functions_of(program.module)
    for entry in program.entries:
        if entry.specializations:
            del functions[entry.name].attributes[SPECIALIZATIONS]


def ask_for_policies(program: Program, wanted: Mapping[str, str]) -> None:
    """Write policies, for sizes that have no code, into a program's entries.

    Args:
        program: at the stage `graph`.
        wanted: policies by the names of symbols.

    Raises:
        InputError: `unknown-size`: no entry has a symbol; `bad-option`: there is no
            such policy.
    """
    for name, policy in wanted.items():
        _require_known(program.entries, name)
        if not is_policy(policy):
            raise InputError(
                "bad-option",
                f"expected one of {', '.join(POLICIES)} as the policy of size "
                f"'{name}'; got {policy!r}",
            )
    _change_contracts(
        program, lambda each: replace(each, policy=wanted.get(each.name, each.policy))
    )


def ask_for_optimum(program: Program, wanted: Mapping[str, int]) -> None:
    """Write the sizes that kernels are scheduled for into a program's contracts.

    Args:
        program: at the stage `graph`.
        wanted: sizes by the names of symbols.

    Raises:
        InputError: `unknown-size`: no entry has a symbol; `bad-contract`: a contract
            refuses a size.
    """
    for name, size in wanted.items():
        _require_known(program.entries, name)
        for contract in (x for entry in program.entries for x in entry.symbols):
            if contract.name == name and not contract.allows(size):
                bounds = replace(contract, optimum=None)
                raise InputError(
                    "bad-contract",
                    f"expected an optimum that {bounds} allows; got {size}",
                )
    _change_contracts(
        program, lambda each: replace(each, optimum=wanted.get(each.name, each.optimum))
    )


def _change_contracts(program: Program, change: Callable[[Contract], Contract]) -> None:
    """Rewrite the size contracts of entries and of all functions that they call."""
    for entry in program.entries:
        symbols = tuple(map(change, entry.symbols))
        if symbols != entry.symbols:
            write_entry(program.module, replace(entry, symbols=symbols))
            _state_at_callees(program.module, entry.name)


def _state_at_callees(module: Module, name: str) -> None:
    """Write an entry's symbols to all functions that it calls, also through others."""
    functions = functions_of(module)
    symbols = functions[name].attributes[SYMBOLS]
    for each in reachable_functions(functions, name)[1:]:
        if SYMBOLS in functions[each].attributes:
            functions[each].attributes[SYMBOLS] = symbols


def ask_for_buckets(program: Program, traffic: Traffic, most: int) -> Buckets:
    """Choose buckets for recorded traffic, write them into entries, and return them.

    Sizes whose policy is `dynamic` get `bucket`.

    Args:
        program: at the stage `graph`.
        traffic: of calls.
        most: how many buckets there may be, of all its sizes together.

    Raises:
        InputError: `unknown-size`; `bad-traffic`: contracts refuse all calls, or a
            size has a policy that leaves no choice.
    """
    contracts = {x.name: x for entry in program.entries for x in entry.symbols}
    for name in traffic.symbols:
        _require_known(program.entries, name)
        if contracts[name].policy not in (DYNAMIC, BUCKET):
            raise InputError(
                "bad-traffic",
                f"expected sizes that buckets can be chosen for; got '{name}', whose "
                f"policy is '{contracts[name].policy}'",
                hint=f"leave out its column, or --policy {name}=bucket",
            )
    found = choose_buckets(traffic, most, contracts)
    ask_for_policies(program, dict.fromkeys(traffic.symbols, BUCKET))
    ask_for_specializations(program, found.by_name())
    return found


def complete_specializations(program: Program) -> None:
    """Add specializations until all sizes that policies allow have code.

    A size that is padded takes the sizes that are asked for, and then its max. Where
    sizes are asked for without one whose policy is not `dynamic`, there is code for
    each of its sizes.

    Args:
        program: at the stage `graph`.

    Raises:
        InputError: `no-buckets`: a policy needs sizes, and there are none;
            `too-many-specializations`; `bad-route`: calls cannot go to an entry.
    """
    for entry in program.entries:
        _require_routes(program, entry)
        if not entry.has_general_code:
            asked = allowed_specializations(
                entry, sorted({*_all_specializations(entry)})
            )
            write_entry(program.module, replace(entry, specializations=asked))


def _require_routes(program: Program, entry: Entry) -> None:
    """Raise if a size's policy routes calls to an entry with other inputs or
    outputs.
    """
    entries = {each.name: each for each in program.entry_points}
    for contract in entry.symbols:
        if not contract.route:
            continue
        other = entries.get(contract.route)
        if other is None or other.name == entry.name or not _is_alike(entry, other):
            got = "the entry itself" if other is entry else "one of other types"
            raise InputError(
                "bad-route",
                f"expected another entry with the inputs and outputs of '{entry.name}' "
                f"for calls that its size '{contract.name}' sends to "
                f"'{contract.route}'; got {got if other else 'none of that name'}",
                hint=f"entries: {', '.join(entries)}",
            )


def _is_alike(entry: Entry, other: Entry) -> bool:
    """Return whether two entries have inputs and outputs of one structure, dtype and
    rank.
    """

    def form(each: Entry) -> object:
        ports = (*each.ports("input"), *each.ports("output"))
        types = [(port.type.dtype, port.type.rank) for port in ports]
        return each.input_tree, each.output_tree, types

    return bool(form(entry) == form(other))


def _all_specializations(entry: Entry) -> Iterator[Sizes]:
    """Yield the sizes that an entry needs code for, by its policies."""
    choices = {
        each.name: _sizes_with_code(entry, each)
        for each in entry.symbols
        if each.policy != DYNAMIC
    }
    largest = {name: choices[name][-1] for name in entry.padded_symbols}
    for row in map(dict, entry.specializations or [()]):
        missing = [name for name in choices if name not in row]
        for sizes in product(*(choices[name] for name in missing)):
            found = {**row, **dict(zip(missing, sizes, strict=True))}
            free = {name: found[name] for name in choices}
            for each in (found, free, {**free, **largest}):
                yield tuple(sorted(each.items()))


def _sizes_with_code(entry: Entry, contract: Contract) -> tuple[int, ...]:
    """Return the sizes of a symbol that have code; raise if there are none."""
    rows = map(dict, entry.specializations)
    found = {row[contract.name] for row in rows if contract.name in row}
    if contract.is_padded and contract.largest is not None:
        found.add(contract.largest)
    if not found:
        raise InputError(
            "no-buckets",
            f"the policy of size '{contract.name}' of entry '{entry.name}' is "
            f"'{contract.policy}', and there is no size that calls have code of",
            hint=f"--specialize {contract.name}=64, "
            f"aotc.Dim('{contract.name}', specialize=(…)), --buckets-from, or a max",
        )
    return tuple(sorted(found))


def _require_known(entries: Sequence[Entry], name: str) -> None:
    """Raise if no entry has a symbol of this name."""
    known = {each.name for entry in entries for each in entry.symbols}
    if name not in known:
        raise InputError(
            "unknown-size",
            f"expected one of {', '.join(sorted(known)) or 'no sizes'}, which calls of "
            f"the model decide; got '{name}'",
        )


def _require_allowed(entry: Entry, sizes: Sizes) -> None:
    """Raise if a contract or guard forbids these sizes."""
    contracts = {each.name: each for each in entry.symbols}
    for name, size in sizes:
        if not contracts[name].allows(size):
            raise InputError(
                "bad-size",
                f"entry '{entry.name}' cannot be specialized for {name} = {size}: "
                f"expected {contracts[name]}",
            )
    if not allowed_specializations(entry, [sizes]):
        said = ", ".join(f"{name} = {size}" for name, size in sizes)
        guards = "; ".join(each.condition for each in entry.guards)
        raise InputError(
            "bad-size",
            f"entry '{entry.name}' cannot be specialized for {said}, which a guard "
            f"refuses: {guards}",
        )
