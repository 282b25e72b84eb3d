"""A fault of IREE: what a row of the table says."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from .witnesses import Elsewhere, Witness


class Symptom(Enum):
    """The kind of misbehaviour by which a fault shows."""

    WRONG = "wrong result, silently"
    REFUSED = "refuses to compile"
    DIES = "dies"
    UNSAFE = "reads or writes what is not its own"
    SLOW = "slow, or takes memory"
    MISSING = "cannot be had"


@dataclass(frozen=True)
class Fault:
    """A fault (bug) of IREE, its witness, and the code in aotc that avoids it.

    Args:
        name: in kebab-case.
        symptom: how it shows.
        does: what IREE does, in a sentence.
        where: the code that avoids it, as `path: anchor`. An anchor is a `Note
            [title]`, the name of a function, class or constant (`Class.method`), or
            `module`, for the docstring of a module; in a page, a heading.
        witness: by what it shows.
        seen: the release of IREE in which it was found.
        not_reproduced: what was tried in vain, where the installed release no longer
            shows it.
        upstream: addresses of issues.
    """

    name: str
    symptom: Symptom
    does: str
    where: tuple[str, ...]
    witness: Witness
    seen: str = "3.13"
    not_reproduced: str = ""
    upstream: tuple[str, ...] = ()

    @property
    def can_be_looked_at(self) -> bool:
        """Return whether this machine can check the fault."""
        return not isinstance(self.witness, Elsewhere)
