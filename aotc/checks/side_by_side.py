"""Comparisons on several cores, with the findings that they have one after the other.

Each item of a self-check is compared by itself. What it may cost follows from what the
items before it have taken of the budget; so an item that is compared beside them has
the most that this can be, and is compared again where it needed more than it turns out
to have, or where memory ran out, which two items need more of.
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
from typing import Generic, TypeVar

from aotc.checks.blas_threads import blas_threads
from aotc.checks.checked_entry import CheckedEntry
from aotc.checks.samples import CheckItem, input_elements, parts_of
from aotc.checks.work import NoMemoryToCompare, WorkBudget
from aotc.core import options
from aotc.dialects.types import evaluate_size
from aotc.errors import SetupError
from aotc.mlir import ir

F = TypeVar("F")
# Elements of arguments of an item that is compared beside another: of fewer, Python
# takes most of the time, which runs one thread; of more, memory may be short.
_FEWEST, _MOST = 2**17, 2**25
_THREADS = 2


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
        compare: an item, within some work.
    """

    def __init__(
        self, compare: Callable[[CheckedEntry, CheckItem, WorkBudget], F]
    ) -> None:
        self._compare = compare
        self._pool = ThreadPoolExecutor(_threads())
        self._started: dict[tuple[str, int], Future[_Outcome[F]]] = {}
        self._given: list[WorkBudget] = []
        self._resources = ExitStack()

    def start(
        self, jobs: Sequence[tuple[CheckedEntry, CheckItem]], work: WorkBudget
    ) -> None:
        """Begin to compare items in threads, if there are cores and enough items.

        Args:
            jobs: the items; no others follow that may take as much.
            work: that is left for all of them.
        """
        fit = [job for job in jobs if _FEWEST <= _argument_elements(*job) <= _MOST]
        if _threads() < 2 or len(fit) < 2:
            return
        cores = os.cpu_count() or 1
        self._resources.enter_context(blas_threads(max(1, cores // _threads())))
        for checked, item in fit:
            self._given.append(WorkBudget(work.left, work.most))
            outcome = partial(self._outcome, checked, item, self._given[-1])
            task = self._pool.submit(copy_context().run, outcome)
            self._started[_key(checked, item)] = task

    def findings(self, checked: CheckedEntry, item: CheckItem, work: WorkBudget) -> F:
        """Return the findings on an item, compared already or now, within a work
        budget.
        """
        started = self._started.pop(_key(checked, item), None)
        if started is not None:
            outcome = started.result()
            if not self._started:  # what is compared alone from now on has all cores
                self._resources.close()
            if outcome.work.needed <= work.left and not _is_short(outcome.found):
                work.count(outcome.work.taken)
                if isinstance(outcome.found, BaseException):
                    raise outcome.found
                return outcome.found
        return self._compare(checked, item, work)

    def _outcome(
        self, checked: CheckedEntry, item: CheckItem, work: WorkBudget
    ) -> _Outcome[F]:
        """Compare an item in a thread; catch what is raised."""
        with checked.graph.context, ir.Location.unknown():
            try:
                return _Outcome(self._compare(checked, item, work), work)
            except BaseException as error:  # raised where the item is asked for
                return _Outcome(error, work)

    def __enter__(self) -> SideBySide[F]:
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        """End; after an error or an interrupt, without waiting for calls."""
        if kind is not None:
            for work in self._given:
                work.is_cancelled = True
        self._pool.shutdown(wait=kind is None, cancel_futures=True)
        self._resources.close()


def _threads() -> int:
    """Return the number of threads to compare in."""
    return min(_THREADS, options.get("AOTC_JOBS") or os.cpu_count() or 1)


def _key(checked: CheckedEntry, item: CheckItem) -> tuple[str, int]:
    """Return the entry's name and the item's number."""
    return checked.entry.name, item.number


def _argument_elements(checked: CheckedEntry, item: CheckItem) -> int:
    """Return the number of elements of the arguments of a call."""
    parts = parts_of(checked.entry, item.sizes)
    ports = [port for port in checked.entry.arguments if port.kind != "input"]
    shapes = [[evaluate_size(n, parts) for n in port.type.shape] for port in ports]
    return input_elements(checked.entry, item.sizes) + sum(map(prod, shapes))


def _is_short(found: object) -> bool:
    """Return whether a comparison ran out of memory, which others used meanwhile."""
    return isinstance(found, SetupError | NoMemoryToCompare | MemoryError)
