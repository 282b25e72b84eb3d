"""Sizes that a build is asked to specialize entries for, beside those of the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from aotc.dialects.entries import Entry, Sizes, write_entry
from aotc.dialects.specialization import allowed_specializations
from aotc.errors import InputError
from aotc.program import Program


def ask_for_specializations(
    program: Program, wanted: Sequence[Mapping[str, int]]
) -> None:
    """State at the entries of a program for which sizes they are to be specialized.

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


def _require_known(entries: Sequence[Entry], name: str) -> None:
    known = {each.name for entry in entries for each in entry.symbols}
    if name not in known:
        raise InputError(
            "unknown-size",
            f"expected one of {', '.join(sorted(known)) or 'no sizes'}, which calls of "
            f"the model decide; got '{name}'",
        )


def _require_allowed(entry: Entry, sizes: Sizes) -> None:
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
