"""`python -m aotc.checks.serve_reference PARENT`: the other side of
`reference_process`.

The first question is the program, the others are about one trial after the other.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from aotc.checks.blas_threads import blas_threads
from aotc.checks.checked_entry import Arrays, CheckedEntry
from aotc.checks.judging import Verdict
from aotc.checks.reference_messages import ReferenceSource, Reply, TrialFacts
from aotc.checks.samples import CheckItem
from aotc.checks.trials import EvaluatedTrial, trial_of
from aotc.checks.work import NothingToCompare, WorkBudget
from aotc.dialects import context
from aotc.mlir import ir
from aotc.passes import run_passes
from aotc.processes.answering import answer_parent
from aotc.programs.program import Program

# Evaluations with noise before any is asked for: steps of training take 1 to 3 as a
# rule, other entries often none.
_AHEAD = 2


class TrialServer:
    """Evaluates calls of a program's entries, and judges results.

    Args:
        source: the program.
    """

    def __init__(self, source: ReferenceSource) -> None:
        with context() as known, ir.Location.unknown():
            module = ir.Module.parse(source.module, known)
            run_passes(module, ("autodiff",), silently=True)
        self._program = Program(module, source.parameters, source.inputs)
        self._threads = source.blas_threads
        self._checked: dict[str, CheckedEntry] = {}
        self._trial: EvaluatedTrial | None = None
        self._work = WorkBudget(0.0, 0.0)

    def answer(self, asked: tuple[str, Sequence[object]]) -> Reply:
        """Answer a question: the name of a method, and what it is given."""
        question, given = asked
        found: object
        try:
            with self._computing():
                found = getattr(self, question)(*given)
        except NothingToCompare as reason:
            found = reason
        return Reply(found, self._work.taken, self._work.needed)

    def evaluate(
        self,
        entry: str,
        kind: type[CheckedEntry],
        item: CheckItem,
        left: float,
        most: float,
    ) -> TrialFacts:
        """Evaluate the calls of a check item; return the item, inputs and states that
        were used.

        Args:
            entry: its name.
            kind: of it.
            item: that it is called with.
            left: see `WorkBudget`.
            most: see `WorkBudget`.
        """
        program = self._program
        self._trial, self._work = None, WorkBudget(left, most)
        if entry not in self._checked:
            found = kind(program, program.module, program.entry(entry))
            self._checked[entry] = found
        self._trial = trial_of(self._checked[entry], item, self._work)
        calls = self._trial.calls
        states = {
            name: array
            for name, array in calls.states.items()
            if array is not program.parameters[name]
        }
        return TrialFacts(self._trial.item, calls.inputs, states)

    def judge(self, found: Sequence[Arrays]) -> list[list[Verdict]]:
        """Judge the results of each call; return the verdicts call by call."""
        assert self._trial is not None
        return self._trial.judge(found)

    def expected(self) -> Sequence[tuple[Arrays, Arrays]]:
        """Return the arguments and the results of each call."""
        assert self._trial is not None
        return self._trial.expected

    def work_ahead(self) -> bool:
        """Evaluate once with noise if that is as good as certain to be asked for;
        return False if it is not.
        """
        trial = self._trial
        if trial is None or not trial.checked.entry.updates:
            return False
        if trial.rounding.evaluations >= _AHEAD:
            return False
        with self._computing():
            trial.rounding.evaluate_ahead()
        return True

    @contextmanager
    def _computing(self) -> Iterator[None]:
        """Enter the program's context with this process's part of the BLAS threads."""
        context = self._program.module.context
        with context, ir.Location.unknown(), blas_threads(self._threads):
            yield


def main() -> None:
    """Answer the process that the command line names."""
    warnings.simplefilter("ignore")
    answer_parent(
        TrialServer, lambda server: None, TrialServer.answer, TrialServer.work_ahead
    )


if __name__ == "__main__":
    main()
