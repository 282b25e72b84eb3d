"""Items of a self-check made of the work left over: those of structure alone."""

from __future__ import annotations

from math import inf

from aotc.checks.checked_entry import CheckedEntry
from aotc.checks.samples import CheckItem, WorkPriority
from aotc.checks.work import WorkBudget

_ITEM, _ALL = 2e7, 1e8  # the work of one item at most, and of all


class Spare:
    """Decides which optional items the remaining work allows to compare.

    Args:
        work: of the whole check.
    """

    def __init__(self, work: WorkBudget) -> None:
        self._left = min(_ALL, work.left)
        self._is_limited = work.left < inf
        self._known: dict[tuple[str, tuple[tuple[str, int], ...]], float] = {}

    def note(self, checked: CheckedEntry, item: CheckItem, work: float) -> None:
        """Record the work that a check item took."""
        self._known[checked.entry.name, tuple(item.sizes.items())] = work
        if item.priority is WorkPriority.SPARE:
            self._left -= work

    def covers(self, checked: CheckedEntry, item: CheckItem) -> bool:
        """Return whether the remaining work suffices for a check item, judged by what
        another one of the same sizes took.
        """
        key = checked.entry.name, tuple(item.sizes.items())
        work = self._known.get(key, inf)
        if not self._is_limited:
            return True
        return work <= min(_ITEM, self._left)
