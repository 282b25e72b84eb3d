"""Warnings of effects that tracing a function has outside of it.

A function is traced once for many calls: what it appends, assigns or counts outside
happens then, and in no call. Assignments are found in its code; changes of containers
and small arrays by what they were before. Changes of what is larger, of what is reached
by computed names only, and of files and the like are not seen.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from aotc.tracing.captures import captures_of
from aotc.tracing.snapshots import Snapshot
from aotc.tracing.source_locations import Place, line_of

_told = set[tuple[Place, str]]()


@contextmanager
def watch_effects(owner: str, *functions: object) -> Iterator[None]:
    """Warn, after the `with` block, of outer variables that traced functions changed in
    it.

    Args:
        owner: how the message calls them.
        functions: of the user.
    """
    found = captures_of(*functions)
    before = Snapshot(found.reads)
    yield
    writes = [(each.text, each.place) for each in found.writes]
    known = {each.key for each in found.writes}
    changed = (each for each in before.changed_captures() if each.key not in known)
    writes += [(f"changes '{each.text}'", each.place) for each in changed]
    for what, place in writes:
        warn_once(
            f"{what} when {owner} is traced, and in no call: return the value, or keep "
            "it in a State",
            place,
        )


def warn_of_text(place: Place | None) -> None:
    """Warn that a traced array was formatted as text, which has no values in it.

    Args:
        place: the user's line that makes it; None where aotc does, for messages.
    """
    if place is not None:
        warn_once(
            "prints or makes a text of an array that has no values yet, once, when it "
            "is traced: aotc.debug.print shows those of each call",
            place,
        )


def warn_once(what: str, place: Place) -> None:
    """Issue a warning at a source line, once for each line and text.

    Args:
        what: the rest of the message, which begins with the line.
        place: the line.
    """
    if (place, what) not in _told:
        _told.add((place, what))
        text = f"{line_of(place)}: {what}"
        warnings.warn_explicit(text, UserWarning, *place)
