"""Values and sizes that a trace has looked at, and which values calls had."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from aotc.artifacts.conditions import Condition
from aotc.core.json_values import JsonObject
from aotc.programs.parameter_archive import UnevaluatedArray

_LISTED = 16
# the arguments of a call, in the order of the function's
Values = Sequence[np.ndarray | UnevaluatedArray]


@dataclass
class ValueGuard:
    """A value that a trace depends on: calls must have the same to use its code.

    Args:
        where: the line that looked at it.
        value: that it had.
        number: of the argument that it is, or else of the op that computes it.
        result: of that op; None for an argument.
        failures: how often calls had another value, by the text of that; of all but
            the first 16 values together.
    """

    where: str
    value: np.ndarray
    number: int
    result: int | None
    failures: Counter[str] = field(default_factory=Counter)

    @property
    def name(self) -> str:
        """The name of the guard in messages and metrics."""
        return f"value at {self.where}"

    def holds(self, found: np.ndarray) -> bool:
        """Return whether a value equals the guarded one bit for bit; count it if
        not.
        """
        is_same = found.tobytes() == self.value.tobytes()
        if not is_same:
            text = _text(found)
            is_new = text not in self.failures and len(self.failures) >= _LISTED
            self.failures["others" if is_new else text] += 1
        return is_same

    def __str__(self) -> str:
        return f"{self.where} is {_text(self.value)}"


@dataclass(frozen=True)
class TraceSizeGuard:
    """A condition on the sizes of calls that a trace depends on.

    Args:
        condition: over the names of symbols.
        where: the line that decided on it.
    """

    condition: Condition
    where: str

    def holds(self, sizes: Mapping[str, int]) -> bool:
        """Return whether the condition holds for these sizes."""
        return self.condition.holds(sizes)

    def __str__(self) -> str:
        return f"{self.condition} at {self.where}"


class ValueCheck(Protocol):
    """An interface to check the guarded values of a call."""

    guards: list[ValueGuard]

    def holds(self, values: Values, /) -> bool:
        """Return whether a call has all guarded values."""


class GuardCoverage:
    """Counts of calls by guarded source line and value."""

    def __init__(self) -> None:
        self._calls: dict[str, Counter[str]] = {}

    def note_calls(self, check: ValueCheck | None, calls: int) -> None:
        """Add a number of calls of some code to the counts of its guards.

        Args:
            check: its guards.
            calls: how many there were.
        """
        for guard in check.guards if check else ():
            self._calls.setdefault(guard.where, Counter())[_text(guard.value)] += calls

    def copy(self) -> GuardCoverage:
        """Return an independent copy of the counts."""
        same = GuardCoverage()
        same._calls = {where: counts.copy() for where, counts in self._calls.items()}
        return same

    def to_json(self) -> list[JsonObject]:
        """Return each guarded line with its values, their calls and shares."""
        return [
            {
                "where": where,
                "calls": counts.total(),
                "values": [
                    {"value": value, "calls": n, "share": n / max(counts.total(), 1)}
                    for value, n in counts.most_common()
                ],
            }
            for where, counts in self._calls.items()
        ]


def _text(value: np.ndarray) -> str:
    """Return an array as short text in one line."""
    return np.array2string(value, threshold=8, max_line_width=60).replace("\n", " ")
