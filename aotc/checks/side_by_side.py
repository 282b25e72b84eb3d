"""Comparisons on several cores, with the findings that they have one after the other.

Each item of a self-check is compared by itself. What it may cost follows from what the
items before it have taken of the budget; so an item that is compared beside them has
the most that this can be, and is compared again where it needed more than it turns out
to have, or where memory ran out, which two items need more of.

The reference evaluator runs in a process of its own for each item that is under way, so
it may begin before there is code to compare with.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from math import prod
from queue import SimpleQueue
from typing import Generic, TypeVar

from aotc.checks.checked_entry import CheckedEntry
from aotc.checks.reference_messages import ReferenceSource
from aotc.checks.reference_process import ReferenceProcess
from aotc.checks.samples import CheckItem, input_elements, parts_of
from aotc.checks.trials import Trial, trial_of
from aotc.checks.work import NoMemoryToCompare, WorkBudget
from aotc.core import options
from aotc.dialects.types import evaluate_size
from aotc.errors import SetupError
from aotc.mlir import ir
from aotc.programs.program import Program

F = TypeVar("F")
Evaluate = Callable[[CheckedEntry, CheckItem, WorkBudget], Trial]
# Elements of arguments of an item that is compared beside another, and of a program: of
# fewer, a process takes longer to start than it saves; of more, memory may be short.
_FEWEST, _MOST = 2**17, 2**25
_MOST_AHEAD = 2**24  # while compilers work, which take some themselves
_PROCESSES = 2


@dataclass(frozen=True)
class _Outcome(Generic[F]):
    """The outcome of comparing one item: findings or an exception, and the work
    spent.
    """

    found: F | BaseException
    work: WorkBudget


class SideBySide(Generic[F]):
    """Compares items in several threads ahead of their turn; a context manager.

    Args:
        compare: an item, within some work, of which the last argument evaluates the
            calls.
    """

    def __init__(
        self, compare: Callable[[CheckedEntry, CheckItem, WorkBudget, Evaluate], F]
    ) -> None:
        self._compare = compare
        self._pool = ThreadPoolExecutor(_PROCESSES)
        self._started: dict[tuple[str, int], Future[_Outcome[F]]] = {}
        self._given: list[WorkBudget] = []
        self._processes: SimpleQueue[ReferenceProcess] = SimpleQueue()
        self._resources = ExitStack()

    def start(
        self,
        jobs: Sequence[tuple[CheckedEntry, CheckItem]],
        work: WorkBudget,
        *,
        is_ahead: bool = False,
    ) -> None:
        """Begin to compare check items in threads, if there are cores and enough items.

        Those that are under way go on.

        Args:
            jobs: the items, of one program; no others follow that may take as much.
            work: that is left for all of them.
            is_ahead: whether there is no code to compare with yet: then it is worth it
                for a single item, too.
        """
        most = _MOST_AHEAD if is_ahead else _MOST
        fit = [job for job in jobs if _FEWEST <= _argument_elements(*job) <= most]
        rest = [job for job in fit if _key(*job) not in self._started]
        is_alone = len(fit) == 1 and not is_ahead
        if not rest or is_alone or _process_count() < _PROCESSES:
            return
        program = rest[0][0].program
        if _stored_elements(program) > most:
            return
        threads = max(1, (os.cpu_count() or 1) // _PROCESSES)
        source = ReferenceSource.of(program, threads)
        for checked, item in rest:
            if len(self._given) < _PROCESSES:
                process = ReferenceProcess(source)
                self._resources.callback(process.close)
                self._processes.put(process)
            self._given.append(WorkBudget(work.left, work.most))
            outcome = partial(self._outcome, checked, item, self._given[-1])
            task = self._pool.submit(copy_context().run, outcome)
            self._started[_key(checked, item)] = task

    def findings(self, checked: CheckedEntry, item: CheckItem, work: WorkBudget) -> F:
        """Return the findings on a check item, compared already or now, within a work
        budget.
        """
        started = self._started.pop(_key(checked, item), None)
        if started is not None:
            outcome = started.result()
            if not self._started:  # what is compared from now on has all memory
                self._resources.close()
            if outcome.work.needed <= work.left and not _is_short(outcome.found):
                work.count(outcome.work.taken)
                if isinstance(outcome.found, BaseException):
                    raise outcome.found
                return outcome.found
        return self._compare(checked, item, work, trial_of)

    def _outcome(
        self, checked: CheckedEntry, item: CheckItem, work: WorkBudget
    ) -> _Outcome[F]:
        """Compare a check item in a thread, by a process; return what was found or
        raised.
        """
        process = self._processes.get()
        with checked.graph.context, ir.Location.unknown():
            try:
                found = self._compare(checked, item, work, process.trial_of)
                return _Outcome(found, work)
            except BaseException as error:  # raised where the item is asked for
                return _Outcome(error, work)
            finally:
                self._processes.put(process)

    def __enter__(self) -> SideBySide[F]:
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        """End; after an error or an interrupt, without waiting for calls."""
        if kind is not None:
            self.stop()
        self._pool.shutdown(cancel_futures=True)
        self._resources.close()

    def stop(self) -> None:
        """End without waiting for what is under way."""
        for work in self._given:
            work.is_cancelled = True
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._resources.close()


def _process_count() -> int:
    """Return how many processes may evaluate at a time."""
    return min(_PROCESSES, options.get("AOTC_JOBS") or os.cpu_count() or 1)


def _key(checked: CheckedEntry, item: CheckItem) -> tuple[str, int]:
    """Return the entry's name and the item's number."""
    return checked.entry.name, item.number


def _argument_elements(checked: CheckedEntry, item: CheckItem) -> int:
    """Return the number of elements of the arguments of a call."""
    parts = parts_of(checked.entry, item.sizes)
    ports = [port for port in checked.entry.arguments if port.kind != "input"]
    shapes = [[evaluate_size(n, parts) for n in port.type.shape] for port in ports]
    return input_elements(checked.entry, item.sizes) + sum(map(prod, shapes))


def _stored_elements(program: Program) -> int:
    """Count the elements of a program's weights and states."""
    return sum(prod(array.shape) for array in program.parameters.values())


def _is_short(found: object) -> bool:
    """Return whether a comparison ran out of memory, which others used meanwhile."""
    return isinstance(found, SetupError | NoMemoryToCompare | MemoryError)
