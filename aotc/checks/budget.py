"""Budgets of memory: entries whose calls take at most so many bytes of a device.

What a call takes is known when IREE has laid it out, which takes seconds and compiles
nothing. An entry that takes too much is rewritten to compute values again. That pass
works with a model of memory, so its budget is corrected by what comes of it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from aotc.backend import plan_memory
from aotc.backend.memory_plans import Memory
from aotc.core.json_values import JsonObject
from aotc.dialects.functions.entries import Entry
from aotc.dialects.functions.functions import copy_module, functions_of
from aotc.errors import InputError
from aotc.passes import run_passes
from aotc.passes.base import Pass, Unit
from aotc.passes.cse import Cse
from aotc.passes.rematerialize import (
    OutOfBudget,
    Rematerialize,
    modeled_bytes,
    rematerialize,
)
from aotc.passes.stages import passes_between
from aotc.programs.program import Program

TRIALS = 8
BISECTIONS = 4  # to say what is possible, where the budget is not


@dataclass(frozen=True)
class Fit:
    """The peak memory of an entry before and after recomputation was inserted.

    Args:
        entry: its name.
        target: what it is compiled for.
        before: bytes that a call took at most.
        after: that it takes now.
        recomputed: how many values are computed again.
    """

    entry: str
    target: str
    before: int
    after: int
    recomputed: int

    def __str__(self) -> str:
        return (
            f"{self.entry} on {self.target}: {self.before / 1e6:.1f} MB -> "
            f"{self.after / 1e6:.1f} MB, {self.recomputed} values are computed again"
        )

    def to_json(self) -> JsonObject:
        """Return the fit as the build report holds it."""
        return asdict(self)


@dataclass(frozen=True)
class FitMemory(Pass):
    """Rematerialize values in entries whose peak memory exceeds a limit in bytes.

    Requires: linalg, for one target; `update-in-place` has not run. What is done is
    done by passes of their own, which the records list; a `Fit` for each entry that
    took more is among the unit's notes.

    Args:
        bytes: that a call takes at most, with states, weights, inputs and outputs.

    Raises:
        InputError: `unknown-memory` or `symbolic-memory`, if an entry has no plan or
            cannot be rewritten; `memory-budget`, if it cannot be made to fit.
    """

    bytes: int

    name = "fit-memory"
    level = 0
    keeps_graph = False

    def run(self, unit: Unit) -> bool:
        """Rewrite each entry to fit into the limit; return whether any exceeded it."""
        entries = unit.program.entries
        plans = _plans(_copy(unit))
        before = [(entry, _peak(plans, entry)) for entry in entries]
        fits = [
            _fit(unit, entry, self.bytes, peak)
            for entry, peak in before
            if peak > self.bytes
        ]
        unit.notes += fits
        return bool(fits)


def _copy(unit: Unit) -> Unit:
    """Return a unit with a copy of the module, without parameters."""
    return Unit(Program(copy_module(unit.module)), unit.target)


def _plans(trial: Unit) -> dict[str, Memory]:
    """Run the remaining passes on a trial unit; return the memory plan of each
    entry.
    """
    given = trial.program
    late = passes_between("advance-updates", None, given.level, given.without)
    run_passes(trial, late, silently=True)
    return plan_memory(trial)


def _peak(plans: Mapping[str, Memory], entry: Entry) -> int:
    """Return the planned peak bytes of a call of an entry; raise an InputError if it
    has no plan.
    """
    plan = plans.get(entry.name)
    if plan is not None:
        return plan.peak_bytes
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


def _fit(unit: Unit, entry: Entry, most: int, before: int) -> Fit:
    """Rematerialize values of an entry until a call takes at most `most` bytes; return
    the `Fit`, or raise.
    """
    if entry.symbols:
        raise InputError(
            "symbolic-memory",
            f"entry '{entry.name}' takes {before:,} bytes, more than the {most:,} "
            "allowed, and only entries of fixed sizes can be rewritten to take less",
            hint="give its inputs fixed sizes, or build it without --peak-memory",
        )
    least: float = before
    budget = modeled_bytes(functions_of(unit.module)[entry.name]) - (before - most)
    for _ in range(TRIALS):
        trial = _copy(unit)
        try:
            recomputed = rematerialize(functions_of(trial.module)[entry.name], budget)
        except OutOfBudget:
            least = min(least, _least_peak(unit, entry, budget))
            break
        run_passes(trial, (Cse(),), silently=True)
        peak = _peak(_plans(trial), entry)
        if peak <= most:
            run_passes(unit, (Rematerialize(entry.name, budget), Cse()))
            return Fit(entry.name, str(unit.target), before, peak, recomputed)
        least = min(least, peak)
        budget -= max(peak - most, budget // 32)
    raise InputError(
        "memory-budget",
        f"entry '{entry.name}' takes {before:,} bytes as it is and {least:,} where "
        f"values are computed again; {most:,} are allowed",
        hint="allow more, or use smaller batches",
    )


def _least_peak(unit: Unit, entry: Entry, too_small: int) -> float:
    """Bisect budgets of rematerialization; return the least peak bytes that it reaches.

    Args:
        unit: with the entry.
        entry: that does not fit.
        too_small: a budget, in modeled bytes, that it cannot be rewritten for.
    """
    least, low = math.inf, too_small
    high = modeled_bytes(functions_of(unit.module)[entry.name])
    for _ in range(BISECTIONS):
        budget = (low + high) // 2
        trial = _copy(unit)
        try:
            rematerialize(functions_of(trial.module)[entry.name], budget)
        except OutOfBudget:
            low = budget
            continue
        run_passes(trial, (Cse(),), silently=True)
        least = min(least, _peak(_plans(trial), entry))
        high = budget
    return least
