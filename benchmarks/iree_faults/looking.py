"""Checks of faults for still being there, each in a process of its own."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from .fault import Fault
from .table import FAULTS
from .witnesses import Dies, Differs

_SECONDS = 300  # that a process may take


class Verdict(Enum):
    """The answer to the question if a fault still exists in the installed IREE."""

    THERE = "still there"
    GONE = "gone"
    DIFFERS = "differs"
    UNSEEN = "not looked at"


@dataclass(frozen=True)
class Finding:
    """The verdict on a fault, and what was observed.

    Args:
        fault: the row.
        verdict: whether the fault is still there.
        saw: what was seen of it.
    """

    fault: Fault
    verdict: Verdict
    saw: str = ""

    @property
    def is_expected(self) -> bool:
        """Return whether the verdict is what the table says for this release."""
        was_gone = bool(self.fault.not_reproduced)
        usual = Verdict.GONE if was_gone else Verdict.THERE
        return self.verdict in (usual, Verdict.UNSEEN)

    def __str__(self) -> str:
        told = self.saw
        if self.verdict is Verdict.GONE:
            where = ", ".join(self.fault.where)
            told = f"the workaround at {where} can go, if its tests agree"
        return f"{self.fault.name}: {self.verdict.value}{told and f': {told}'}"


def named(name: str) -> Fault:
    """Return the fault of this name."""
    return {fault.name: fault for fault in FAULTS}[name]


def look_at_all(faults: Sequence[Fault]) -> Iterator[Finding]:
    """Yield the finding of each fault, each checked in its own process."""
    for fault in faults:
        yield look_at(fault) if fault.can_be_looked_at else _unseen(fault)


def _unseen(fault: Fault) -> Finding:
    """Return the finding of a fault that this machine cannot check."""
    return Finding(fault, Verdict.UNSEEN, fault.witness.describe())


def look_at(fault: Fault) -> Finding:
    """Check a fault in a child process, which may crash; return the finding."""
    command = [sys.executable, "-m", "benchmarks.iree_faults", "--here", fault.name]
    try:
        ended = subprocess.run(
            command, capture_output=True, text=True, timeout=_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return Finding(fault, Verdict.DIFFERS, f"it takes more than {_SECONDS} s")
    if ended.returncode < 0:
        by = signal.Signals(-ended.returncode).name
        awaited = isinstance(fault.witness, Dies) and fault.witness.signal == by
        verdict = Verdict.THERE if awaited else Verdict.DIFFERS
        return Finding(fault, verdict, f"the process dies of {by}")
    if ended.returncode:
        told = [line for line in ended.stderr.splitlines() if not line.startswith(" ")]
        return Finding(fault, Verdict.DIFFERS, told[-1] if told else "it fails")
    found = json.loads(ended.stdout.splitlines()[-1])
    return Finding(fault, Verdict(found["verdict"]), found["saw"])


def look_here(fault: Fault) -> str:
    """Check a fault in this process; return the finding as JSON for `look_at`."""
    try:
        saw = fault.witness.look()
        verdict = Verdict.GONE if saw is None else Verdict.THERE
    except Differs as error:
        verdict, saw = Verdict.DIFFERS, str(error)
    return json.dumps({"verdict": verdict.value, "saw": saw or ""})
