"""The reference evaluator in a process of its own.

Calls of large entries take it seconds. In another process they take none of this one:
Python runs one thread at a time, and a build has passes to run before there is code to
compare. What a process has evaluated stays there, and is judged there; what compiled
code computes goes to it. `aotc.checks.serve_reference` is the other side.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from aotc.checks.checked_entry import Arrays, CheckedEntry
from aotc.checks.judging import Verdict
from aotc.checks.samples import CallSequence, CheckItem
from aotc.checks.work import NoMemoryToCompare, NothingToCompare, WorkBudget
from aotc.core.pytree import PyTree
from aotc.errors import SetupError
from aotc.mlir import bytecode
from aotc.processes.asking import Child, NoAnswer
from aotc.programs.program import Program


@dataclass(frozen=True)
class SourceInputs:
    """The inputs that the source of an entry brings along, as a network has them."""

    example: Mapping[str, PyTree] | None

    @property
    def original(self) -> SourceInputs:
        """What has the example."""
        return self


@dataclass(frozen=True)
class ReferenceSource:
    """A program as it goes to a process that evaluates calls of its entries.

    Args:
        module: its bytecode; derivatives may be unwritten.
        parameters: its weights, and the first values of its states.
        inputs: those that sources of entries bring along, by entry.
        blas_threads: that a product of matrices may take.
    """

    module: bytes
    parameters: Mapping[str, np.ndarray]
    inputs: Mapping[str, SourceInputs]
    blas_threads: int

    @classmethod
    def of(cls, program: Program, blas_threads: int) -> ReferenceSource:
        """Make the source of a program, of which it holds all arrays."""
        examples = {
            name: SourceInputs(network.original.example)
            for name, network in program.networks.items()
            if network.original is not None
        }
        parameters = {name: np.asarray(x) for name, x in program.parameters.items()}
        return cls(bytecode(program.module), parameters, examples, blas_threads)


@dataclass(frozen=True)
class Reply:
    """The answer to a question about a trial.

    Args:
        found: what was asked for, or why there is nothing to compare.
        taken: the work that the trial has taken so far.
        needed: see `WorkBudget`.
    """

    found: Any
    taken: float
    needed: float


@dataclass(frozen=True)
class TrialFacts:
    """The facts of a trial that calls of compiled code need.

    Args:
        item: that the calls are of.
        inputs: the leaves of the inputs of each call.
        states: leaves of states before the first call that are not those of the
            program, by name.
    """

    item: CheckItem
    inputs: tuple[list[Any], ...]
    states: Mapping[str, np.ndarray]


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
        """Evaluate the calls of an item; see `aotc.checks.trials.trial_of`.

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
        trial.calls = CallSequence(item.sizes, facts.inputs, first | facts.states)
        return trial

    def ask(self, question: object) -> Any:
        """The answer to a question.

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
        """Judge the results of each call; see `aotc.checks.trials.Trial`."""
        verdicts: list[list[Verdict]] = self.ask("judge", found)
        return verdicts

    def ask(self, question: str, *given: object) -> Any:
        """The answer to a question about the trial, whose work is counted."""
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
