"""Calls of an entry, their results by the reference, and verdicts on other results."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np

from aotc.checks.checked_entry import Arrays, CheckedEntry
from aotc.checks.judging import Rounding, Verdict, judge
from aotc.checks.rounding import Noise, is_float
from aotc.checks.samples import (
    CallSequence,
    CheckItem,
    call_sequence_of,
    input_elements,
    parts_of,
)
from aotc.checks.work import NoMemoryToCompare, NothingToCompare, WorkBudget
from aotc.errors import InputError

SEED = 20
REFUSES = "the model refuses the random inputs"


class Trial(Protocol):
    """Calls of an entry that the reference evaluator has computed."""

    @property
    def checked(self) -> CheckedEntry:
        """The entry."""

    @property
    def item(self) -> CheckItem:
        """The item that the calls are of."""

    @property
    def calls(self) -> CallSequence:
        """The calls."""

    @property
    def expected(self) -> Sequence[tuple[Arrays, Arrays]]:
        """The arguments and the results of each call."""

    def judge(self, found: Sequence[Arrays]) -> list[list[Verdict]]:
        """Judge the results of each call; return the verdicts call by call.

        Raises:
            NothingToCompare: rounding decides everything, or a check of the model.
        """


@dataclass
class EvaluatedTrial:
    """Calls that were evaluated in this process; see `Trial`."""

    checked: CheckedEntry
    item: CheckItem
    calls: CallSequence
    expected: Sequence[tuple[Arrays, Arrays]]
    rounding: Rounding

    def judge(self, found: Sequence[Arrays]) -> list[list[Verdict]]:
        """Judge the results of each call; see `Trial`."""
        names = self.checked.names
        try:
            verdicts = judge(
                names * len(found),
                [array for call in found for array in call],
                all_results(self.expected),
                self.rounding,
            )
        except InputError as error:
            raise NothingToCompare(
                f"rounding decides a check of the model: {error.message}"
            ) from None
        except MemoryError:
            raise NoMemoryToCompare from None
        if self.rounding.is_all:
            raise NothingToCompare("rounding alone decides what is finite")
        return [
            verdicts[call * len(names) : (call + 1) * len(names)]
            for call in range(len(found))
        ]


def trial_of(
    checked: CheckedEntry, item: CheckItem, work: WorkBudget
) -> EvaluatedTrial:
    """Evaluate the calls of a check item with the reference evaluator; return them as a
    trial.

    Where no result is finite, masks show the first position and are tried again: a row
    of a causal mask beside them may have seen nothing, and all that attends to it.

    Raises:
        NothingToCompare: it makes nothing of them.
    """
    trial = _compute(checked, item, work)
    if _says_nothing(all_results(trial.expected)):
        trial = _compute(checked, item.with_first_shown(), work)
        if _says_nothing(all_results(trial.expected)):
            raise NothingToCompare("no result is finite on the random inputs")
    return trial


def _compute(
    checked: CheckedEntry, item: CheckItem, work: WorkBudget
) -> EvaluatedTrial:
    """Draw a check item's calls and evaluate them by the reference, within the work
    budget; return them as a trial.
    """
    try:
        work.hold(input_elements(checked.entry, item.sizes))
        calls = call_sequence_of(
            checked.program, checked.graph, checked.entry, item, SEED, checked.uses
        )
        symbols = parts_of(checked.entry, item.sizes)
        work.require(*checked.ops, symbols, len(calls.inputs))
        before = work.left
        expected = list(checked.reference_results(calls, work))
        spent = before - work.left
    except MemoryError:
        raise NoMemoryToCompare from None
    except InputError as error:
        raise NothingToCompare(f"{REFUSES}: {error.message}") from None
    results = all_results(expected)

    def with_noise(noise: Noise) -> Arrays:
        return all_results(checked.reference_results(calls, noise))

    rounding = Rounding(results, with_noise, partial(work.count, spent))
    return EvaluatedTrial(checked, item, calls, expected, rounding)


def all_results(calls: Iterable[tuple[Arrays, Arrays]]) -> Arrays:
    """Return the results of all calls as one list."""
    return [array for _, results in calls for array in results]


def _says_nothing(results: Sequence[np.ndarray]) -> bool:
    """Return whether the results have floats and none of them is finite."""
    floats = [x.astype(np.float64) for x in results if x.size and is_float(x)]
    return bool(floats) and not any(np.isfinite(x).any() for x in floats)
