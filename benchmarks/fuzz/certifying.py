"""Certificates of the gradients that programs take, all made by one compile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from aotc.checks.certificate import Certificate, certify
from aotc.tracing.assembly import trace

from .executing import entry_of
from .failures import Failure, failure_of
from .programs import Program


@dataclass(frozen=True)
class Certified:
    """Counts of a program's certified derivatives, or the failure.

    Args:
        failure: of the first that does not hold, or of the check itself.
        measured: derivatives that the random inputs lead to.
        unreached: those that they do not.
    """

    failure: Failure | None
    measured: int = 0
    unreached: int = 0


def certified(programs: Sequence[Program]) -> list[Certified]:
    """Certify the derivatives of all programs; return the counts of each.

    Where those of all programs together fail, each program is certified by itself.
    """
    entries = [entry_of(p, f"program_{number}") for number, p in enumerate(programs)]
    try:
        found = certify(trace(entries, {}))
    except Exception as error:
        if len(programs) == 1:
            return [Certified(failure_of("certificate", error))]
        return [each for program in programs for each in certified([program])]
    return [
        _counted([each for each in found if each.entry == f"program_{number}"])
        for number in range(len(programs))
    ]


def _counted(certificates: list[Certificate]) -> Certified:
    """Return the counts of one program's certificates."""
    reached = sum(each.reached for each in certificates)
    return Certified(None, reached, len(certificates) - reached)
