"""The verdicts of `compat`, and the reasons for them.

optimal                        made for this runtime and this device
supported_prefer_recompile     runs: made with another IREE release and tested here,
                               or for a device that is the processor in disguise
unsupported                    does not run here
not_applicable                 cannot be judged: a fact is unknown
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Verdict = Literal[
    "optimal", "supported_prefer_recompile", "unsupported", "not_applicable"
]
# best first
VERDICTS: tuple[Verdict, ...] = (
    "optimal",
    "supported_prefer_recompile",
    "not_applicable",
    "unsupported",
)
USABLE = VERDICTS[:2]

# advice where a device profile leaves a fact out
STATE_FACT = "ask the device itself, by `aotc doctor --format json`"


@dataclass(frozen=True)
class Mismatch:
    """A reason why a variant is not optimal on a host, with a remedy."""

    code: str
    verdict: Verdict
    message: str
    advice: str = ""

    def __str__(self) -> str:
        return f"{self.message} [{self.code}]"


def unsupported(code: str, message: str, advice: str = "") -> Mismatch:
    """Return the mismatch for a variant that does not run on a host."""
    return Mismatch(code, "unsupported", message, advice)


def unknown(code: str, message: str, advice: str = "") -> Mismatch:
    """Return the mismatch for a fact that is missing, so that nobody can judge."""
    return Mismatch(code, "not_applicable", message, advice)


def slower(code: str, message: str) -> Mismatch:
    """Return the mismatch for a variant that runs, where other code would be faster."""
    return Mismatch(code, "supported_prefer_recompile", message)


def verdict_of(mismatches: Iterable[Mismatch]) -> Verdict:
    """Return the worst verdict of the mismatches; `optimal` if there are none."""
    found = [mismatch.verdict for mismatch in mismatches]
    return max(found, key=VERDICTS.index, default="optimal")
