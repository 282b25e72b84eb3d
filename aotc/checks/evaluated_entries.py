"""Entries whose kernels are evaluated, where no machine runs them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import inf

from aotc.artifacts.checked import sizes_text
from aotc.backend import CompiledVariant
from aotc.checks.checked_entry import CheckedEntry
from aotc.checks.failures import HINT
from aotc.checks.kernel_check import (
    STEPS,
    EvaluatedKernels,
    kernel_texts,
    uncompiled_texts,
)
from aotc.checks.kernel_count import KernelCount
from aotc.checks.report import SelfCheck
from aotc.checks.samples import WorkPriority, check_items_of
from aotc.checks.trials import Trial, trial_of
from aotc.checks.work import NothingToCompare, OverBudget, WorkBudget
from aotc.errors import CompileError
from aotc.machine.target import Target
from aotc.programs.program import Program

_EVALUATED = 2  # items of an entry whose kernels are evaluated, at most
_LITTLE = 0.1  # of the work for an entry, after which another item follows


def evaluate_kernels(
    rows: Sequence[SelfCheck],
    checked_entries: Mapping[str, CheckedEntry],
    variants: Sequence[CompiledVariant],
    regions: Callable[[Target], Program],
    begin: Callable[[str], None],
    *,
    full: bool,
) -> list[SelfCheck]:
    """Check entries whose target this machine lacks, by evaluating their kernels in
    NumPy; return the findings.

    Args:
        rows: what was found of all entries.
        checked_entries: the entries that can be, by name.
        variants: the targets that do not run here.
        regions: see `check_entries`.
        begin: is told what is evaluated next.
        full: whether the evaluator may run as many steps as there are.
    """
    found = {(row.entry, row.target): row for row in rows}
    steps = inf if full else float(STEPS)
    evaluated = [
        (
            variant.target,
            EvaluatedKernels(
                regions(variant.target),
                kernel_texts(variant.kernels),
                uncompiled_texts(variant.kernels),
                steps,
            ),
        )
        for variant in variants
        if kernel_texts(variant.kernels)
    ]
    work = WorkBudget.usual()
    left = [*checked_entries.items()] if evaluated else []
    for _ in range(2):  # large entries again, when it is known what others have left
        large = []
        for number, (name, checked) in enumerate(left):
            begin(f"{name}, kernels for {', '.join(str(x) for x, _ in evaluated)}")
            limit = 2 * work.left / (len(left) - number + 1)
            if not _evaluate_entry(checked, evaluated, work.part(limit)):
                large.append((name, checked))
            for target, kernels in evaluated:
                key = name, str(target)
                found[key] = replace(found[key], kernels=kernels.count)
        left = large
    return [*found.values()]


def _evaluate_entry(
    checked: CheckedEntry,
    evaluated: Sequence[tuple[Target, EvaluatedKernels]],
    work: WorkBudget,
) -> bool:
    """Check an entry's evaluated kernels on a few calls; return False if the work
    budget allowed none.

    What the reference evaluator makes of the calls is the same for all. Another item
    follows where the ones before it took little of the work. Returns false if more
    work would let an entry be evaluated that was not.

    Raises:
        CompileError: `self-check`: the entry computes something else by them.
    """
    for _, kernels in evaluated:
        kernels.count = KernelCount()
    items, given = (
        check_items_of(checked.program, checked.graph, checked.entry),
        work.left,
    )
    usual = [item for item in items if item.priority is WorkPriority.USUAL][:_EVALUATED]
    is_compared = is_large = False
    for number, item in enumerate(usual):
        if number and work.left < (1 - _LITTLE) * given:
            break
        try:
            trial = trial_of(
                checked, item, work.part(work.left / (len(usual) - number))
            )
        except NothingToCompare as reason:
            is_large |= type(reason) is OverBudget
            continue
        is_compared = True
        for target, kernels in evaluated:
            _judge_kernels(trial, target, kernels)
    return is_compared or not is_large


def _judge_kernels(trial: Trial, target: Target, kernels: EvaluatedKernels) -> None:
    """Compare an entry computed by evaluated kernels with the reference; raise if
    wrong.

    Launches count only where there is something to compare.

    Raises:
        CompileError: `self-check`: the entry computes something else by them.
    """
    checked, before = trial.checked, kernels.count
    results = [*checked.compiled_results(trial.calls, kernels)]
    try:
        rows = trial.judge(results)
    except NothingToCompare:
        kernels.count = before
        return
    wrong = [each for row in rows for each in row if not each.passed]
    if wrong:
        lines = "\n".join(f"  FAIL {each}" for each in wrong)
        raise CompileError(
            "self-check",
            f"entry '{checked.entry.name}' does not compute by the kernels for "
            f"'{target}' what its graph says{sizes_text([trial.item.sizes])}:\n"
            f"{lines}",
            hint=HINT,
        )
