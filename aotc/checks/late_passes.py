"""Bisection of the passes after lowering for the one that makes an entry wrong.

The search for an op (`bisect`) compiles values of an entry by themselves, without the
states that it updates. What a pass does to updates shows only where the whole entry
runs: so it is compiled with its states, and once more without each of those passes.
Which these are, the variant that is wrong has on record.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from aotc import packager
from aotc.artifacts.leftovers import temporary_folder
from aotc.backend import CompiledVariant, compile_units
from aotc.checks.budget import FitMemory
from aotc.checks.checked_entry import Arrays, CheckedEntry
from aotc.checks.compiled import Bundle
from aotc.checks.judging import ComparisonRule
from aotc.checks.process import CompiledProcess, DidNotEnd
from aotc.checks.rounding import Noise
from aotc.checks.samples import CallSequence
from aotc.dialects.functions.entries import Entry
from aotc.dialects.functions.functions import copy_module
from aotc.errors import CompileError, InputError
from aotc.machine.target import Target
from aotc.mlir import Module
from aotc.passes import load, run_passes
from aotc.passes.base import Pass, Unit
from aotc.passes.drop_general import DropGeneral
from aotc.passes.mix_precision import MixPrecision
from aotc.passes.rematerialize import Rematerialize
from aotc.programs.program import Program

LOWERING = "lower-to-linalg"  # the passes before it are on graphs
SECONDS = 300  # for one compiled call


def graph_passes(variant: CompiledVariant) -> list[Pass]:
    """Return the passes before lowering that a variant went through, in order.

    The code for any sizes is what is looked at, so it stays.
    """
    names = variant.passes
    loaded = [load(each) for each in names[: names.index(LOWERING)]]
    left_out = DropGeneral, MixPrecision  # the graph is in mixed precision already
    return [each for each in loaded if not isinstance(each, left_out)]


def late_passes(variant: CompiledVariant, entry: Entry) -> list[Pass]:
    """Return the passes that a variant ran after lowering an entry, to run them again.

    They are in order. What `fit-memory` ran is on record beside it, so it is left out
    itself, and so are rematerializations of other entries.
    """
    names = variant.passes[variant.passes.index(LOWERING) + 1 :]
    loaded = [load(each) for each in names if _name(each) != FitMemory.name]
    return [
        each
        for each in loaded
        if not isinstance(each, Rematerialize) or each.entry == entry.name
    ]


def _name(spelled: str) -> str:
    """Return the name of a pass from its text, without options."""
    return spelled.partition("{")[0]


def wrong_pass(
    program: Program,
    graph: Module,
    entry: Entry,
    variant: CompiledVariant,
    values: Sequence[np.ndarray],
    rule: ComparisonRule,
) -> Pass | None:
    """Find the pass whose removal makes a wrong entry right; None if there is none.

    Args:
        program: what was compiled.
        graph: a copy of its module in which all derivatives are written.
        entry: of it.
        variant: that is wrong.
        values: all its arguments.
        rule: that says what is wrong beside the reference evaluator.
    """
    alone = Program(copy_module(graph), program.parameters)
    alone.keep_entries([entry.name])
    ports = list(zip(entry.arguments, values, strict=True))
    stored = {port.name: array for port, array in ports if port.kind == "state"}
    inputs = [array for port, array in ports if port.kind == "input"]
    checked = CheckedEntry(alone, graph, alone.entry(entry.name))
    calls = CallSequence({}, (inputs,), {**alone.parameters, **stored})
    trial = _Trial(checked, calls, variant.target, rule, graph_passes(variant))
    late = late_passes(variant, entry)
    if trial.is_right_with(late):  # it is wrong only beside the other entries
        return None
    for number, each in enumerate(late):
        if trial.is_right_with((*late[:number], *late[number + 1 :])):
            return each
    return None


@dataclass(frozen=True)
class _Trial:
    """A call of an entry, to be compiled with different lists of passes.

    Args:
        checked: the entry, in a program of its own.
        calls: one call.
        target: to compile for.
        rule: that says what is wrong.
        early: the passes before lowering.
    """

    checked: CheckedEntry
    calls: CallSequence
    target: Target
    rule: ComparisonRule
    early: Sequence[Pass]

    def is_right_with(self, late: Sequence[Pass]) -> bool:
        """Return whether the call's results are right if `late` passes follow
        lowering.
        """
        try:
            found = self._compiled_results(late)
        except (CompileError, InputError, DidNotEnd):  # it needs the pass, or dies
            return False
        errors = self.rule.errors(
            found, self._reference_results(), self._reference_results
        )
        return all(error is None for error in errors)

    def _reference_results(self, noise: Noise | None = None) -> Arrays:
        """Return the results of the call by the reference evaluator, perhaps with
        noise.
        """
        ((_, results),) = self.checked.reference_results(self.calls, noise)
        return results

    def _compiled_results(self, late: Sequence[Pass]) -> Arrays:
        """Compile the entry with these late passes, run the call, and return its
        results.
        """
        unit = Unit(self.checked.program).fork(self.target)
        program = unit.program
        run_passes(unit, (*self.early, LOWERING, *late), silently=True)
        with temporary_folder() as folder:
            bundle = packager.pack(
                program,
                compile_units([unit]),
                packager.weight_files({self.target.id: program}),
                ("bisected", "1.0.0"),
                folder,
            )
            with CompiledProcess(Bundle(str(bundle), self.target.id), SECONDS) as code:
                return next(self.checked.compiled_results(self.calls, code))
