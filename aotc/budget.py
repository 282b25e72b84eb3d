"""Budgets of memory: entries whose calls take at most so many bytes of a device.

What a call takes is known when IREE has laid it out, which takes seconds and compiles
nothing. An entry that takes too much is rewritten to compute values again. That pass
works with a model of memory, so its budget is corrected by what comes of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from aotc.backend import plan_memory
from aotc.dialects.functions import copied, functions_of
from aotc.errors import InputError
from aotc.frontends.program import Entry, Program
from aotc.mlir import ir
from aotc.passes import run_passes
from aotc.passes.rematerialize import OutOfBudget, modeled_bytes, rematerialize
from aotc.target import Target

TRIALS = 8


@dataclass(frozen=True)
class Fit:
    """How an entry was made to take less memory.

    Args:
        entry: its name.
        before: bytes that a call took at most.
        after: that it takes now.
        recomputed: how many values are computed again.
    """

    entry: str
    before: int
    after: int
    recomputed: int

    def __str__(self) -> str:
        return (
            f"{self.entry}: {self.before / 1e6:.1f} MB -> {self.after / 1e6:.1f} MB, "
            f"{self.recomputed} values are computed again"
        )

    def to_json(self) -> dict[str, Any]:
        """As the build report holds it."""
        return asdict(self)


def fit(program: Program, targets: Sequence[Target], most: int) -> list[Fit]:
    """Rewrite the entries whose calls take more memory than they may.

    Args:
        program: lowered to linalg; `update-in-place` has not run.
        targets: on each of which it has to fit.
        most: in bytes, with states, weights, inputs and outputs.

    Returns:
        What was done for each entry that took more.

    Raises:
        InputError: `unknown-memory` or `symbolic-memory`, if an entry has no plan or
            cannot be rewritten; `memory-budget`, if it cannot be made to fit.
    """
    with program.module.context, ir.Location.unknown():
        before = [(entry, _peak(program, entry, targets)) for entry in program.entries]
        return [
            _fitted(program, entry, targets, most, taken)
            for entry, taken in before
            if taken > most
        ]


def _peak(program: Program, entry: Entry, targets: Sequence[Target]) -> int:
    """Bytes that a call takes on the target where it takes most."""
    trial = replace(program, module=copied(program.module))
    run_passes(trial.module, ("cse", "update-in-place"))
    plans = [plan_memory(trial, target).get(entry.name) for target in targets]
    known = [plan.peak_bytes for plan in plans if plan]
    if len(known) == len(plans):
        return max(known)
    unlimited = [c.name for c in entry.symbols if c.max is None]
    why = (
        f"size '{unlimited[0]}' has no limit"
        if unlimited
        else "it depends on what the entry computes"
    )
    raise InputError(
        "unknown-memory",
        f"the memory of entry '{entry.name}' cannot be planned: {why}",
        hint="give the Dim a max, or build this entry without --peak-memory",
    )


def _fitted(
    program: Program, entry: Entry, targets: Sequence[Target], most: int, before: int
) -> Fit:
    """Put a function that takes at most `most` bytes in the place of an entry's."""
    if entry.symbols:
        raise InputError(
            "symbolic-memory",
            f"entry '{entry.name}' takes {before:,} bytes, more than the {most:,} "
            "allowed, and only entries of fixed sizes can be rewritten to take less",
            hint="give its inputs fixed sizes, or build it without --peak-memory",
        )
    whole, least = copied(program.module), before
    budget = modeled_bytes(functions_of(whole)[entry.name]) - (before - most)
    for _ in range(TRIALS):
        program.module = copied(whole)
        try:
            function = functions_of(program.module)[entry.name]
            again = rematerialize(function, budget)
        except OutOfBudget:
            break
        taken = _peak(program, entry, targets)
        if taken <= most:
            return Fit(entry.name, before, taken, again)
        least = min(least, taken)
        budget -= max(taken - most, budget // 32)
    raise InputError(
        "memory-budget",
        f"entry '{entry.name}' takes {before:,} bytes as it is and {least:,} where "
        f"values are computed again; {most:,} are allowed",
        hint="allow more, or use smaller batches",
    )
