"""Items of a self-check made of the work left over: those of structure alone."""

from __future__ import annotations

from math import inf

from aotc.checks.samples import ComparedCall, WorkShare
from aotc.checks.subject import CheckedEntry
from aotc.checks.work import WorkBudget

_ITEM, _ALL = 2e7, 1e8  # the work of one item at most, and of all


class Spare:
    """Decides which spare items are cheap enough to be compared.

    Args:
        work: of the whole check.
    """

    def __init__(self, work: WorkBudget) -> None:
        self._left = min(_ALL, work.left)
        self._is_limited = work.left < inf
        self._known: dict[tuple[str, tuple[tuple[str, int], ...]], float] = {}

    def note(self, subject: CheckedEntry, item: ComparedCall, work: float) -> None:
        """Note the work that an item took."""
        self._known[subject.entry.name, tuple(item.sizes.items())] = work
        if item.share is WorkShare.SPARE:
            self._left -= work

    def covers(self, subject: CheckedEntry, item: ComparedCall) -> bool:
        """Return whether the remaining work is enough for an item, by others of its
        sizes.
        """
        key = subject.entry.name, tuple(item.sizes.items())
        work = self._known.get(key, inf)
        if not self._is_limited:
            return True
        return work <= min(_ITEM, self._left)
