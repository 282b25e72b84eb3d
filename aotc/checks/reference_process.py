"""The reference evaluator in a process of its own.

Calls of large entries take it seconds. In another process they take none of this one:
Python runs one thread at a time, and a build has passes to run before there is code to
compare. What a process has evaluated stays there, and is judged there; what compiled
code computes goes to it. `aotc.checks.serve_reference` is the other side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from aotc.checks.checked_entry import Arrays, CheckedEntry
from aotc.checks.judging import Verdict
from aotc.checks.reference_messages import ReferenceSource, Reply, TrialFacts
from aotc.checks.samples import CallSequence, CheckItem
from aotc.checks.work import NoMemoryToCompare, NothingToCompare, WorkBudget
from aotc.errors import SetupError
from aotc.processes.asking import Child, NoAnswer


class ReferenceProcess:
    """A process that evaluates one trial after the other, as a context manager.

    Args:
        source: the program.
    """

    def __init__(self, source: ReferenceSource) -> None:
        self._child = Child("aotc.checks.serve_reference")
        self._source: ReferenceSource | None = source

    def trial_of(
        self, checked: CheckedEntry, item: CheckItem, work: WorkBudget
    ) -> RemoteTrial:
        """Let the process evaluate the calls of a check item; return them as a trial
        (see `aotc.checks.trials.trial_of`).

        The process forgets the trial before.

        Raises:
            NothingToCompare: it makes nothing of them.
        """
        if self._source is not None:  # in the thread that waits for the answer
            self.ask(self._source)
            self._source = None
        trial = RemoteTrial(self, checked, item, work)
        given = checked.entry.name, type(checked), item, work.left, work.most
        facts: TrialFacts = trial.ask("evaluate", *given)
        states = checked.program.states
        first = {n: checked.program.parameters[n] for s in states for n in s.leaves}
        trial.item = facts.item
        states_before = {**first, **facts.states}
        trial.calls = CallSequence(item.sizes, facts.inputs, states_before)
        return trial

    def ask(self, question: object) -> Any:
        """Send a question to the process; wait for its answer and return it.

        Raises:
            SetupError: `out-of-memory`.
        """
        try:
            return self._child.ask(question)
        except NoAnswer as error:
            found = error.error("the reference evaluator")
            if isinstance(found, SetupError):
                raise found from None
            raise RuntimeError(f"{found.message}\n{error.log}") from None

    def close(self) -> None:
        """End the process."""
        self._child.close()


@dataclass
class RemoteTrial:
    """Calls that were evaluated in another process; see `aotc.checks.trials.Trial`.

    Args:
        process: that has evaluated them.
        checked: the entry.
        item: that they are of.
        work: that the evaluations are counted in.
        calls: without calls until they are evaluated.
    """

    process: ReferenceProcess
    checked: CheckedEntry
    item: CheckItem
    work: WorkBudget
    calls: CallSequence = field(default_factory=lambda: CallSequence({}, (), {}))

    @property
    def expected(self) -> Sequence[tuple[Arrays, Arrays]]:
        """The arguments and the results of each call, which the process sends."""
        expected: list[tuple[Arrays, Arrays]] = self.ask("expected")
        return expected

    def judge(self, found: Sequence[Arrays]) -> list[list[Verdict]]:
        """Return the verdicts on the results of each call; see
        `aotc.checks.trials.Trial`.
        """
        verdicts: list[list[Verdict]] = self.ask("judge", found)
        return verdicts

    def ask(self, question: str, *given: object) -> Any:
        """Return the answer to a question about the trial, and count the work."""
        try:
            reply: Reply = self.process.ask((question, given))
        except SetupError as error:
            if error.code != "out-of-memory":
                raise
            raise NoMemoryToCompare from None
        self.work.count(reply.taken - self.work.taken)
        self.work.needed = max(self.work.needed, reply.needed)
        if isinstance(reply.found, NothingToCompare):
            raise reply.found
        return reply.found
