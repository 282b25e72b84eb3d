"""Findings of an importer that it cannot take over, complete before tracing starts.

Every importer has a function `unsupported(graph) -> list[OpFinding]`; all that it finds
is one error.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

from aotc.core.json_values import JsonObject
from aotc.errors import InputError

_PLACES_SHOWN = 3


@dataclass(frozen=True)
class OpFinding:
    """An op of an imported source, with a remark on it and all places of its use.

    Args:
        op: its name in the source's own words.
        reason: why it is not taken, or how it is.
        places: the user's lines or names of nodes, one for each use.
        help: what to do instead.
        kind: `unsupported`, `decomposed`, `approximated`, `without-kernel` or
            `not-padded`.
        code: stable identifier for scripts.
    """

    op: str
    reason: str
    places: tuple[str, ...]
    help: str = ""
    kind: str = "unsupported"
    code: str = "unsupported-ops"

    @property
    def count(self) -> int:
        """The number of uses."""
        return len(self.places)

    def to_json(self) -> JsonObject:
        """Return the finding as a row of `aotc.explain/1`."""
        return {**asdict(self), "places": list(self.places), "count": self.count}

    def __str__(self) -> str:
        shown = list(dict.fromkeys(filter(None, self.places)))
        more = ["…"] if len(shown) > _PLACES_SHOWN else []
        where = ", ".join(shown[:_PLACES_SHOWN] + more)
        at = f"; at {where}" if where else ""
        return f"{self.op} ({self.count}×): {self.reason}{at}"


def grouped_findings(uses: Iterable[tuple[str, str, str, str]]) -> list[OpFinding]:
    """Group (op, reason, place, help) into findings, in the order of first use."""
    places: dict[tuple[str, str, str], list[str]] = {}
    for op, reason, place, advice in uses:
        places.setdefault((op, reason, advice), []).append(place)
    return [
        OpFinding(op, reason, tuple(found), advice)
        for (op, reason, advice), found in places.items()
    ]


def require_none(findings: Sequence[OpFinding]) -> None:
    """Raise one error that lists all findings, if there are any.

    Raises:
        InputError: there are findings; `unsupported-ops`.
    """
    if not findings:
        return
    kinds = len(findings)
    advice = dict.fromkeys(finding.help for finding in findings if finding.help)
    raise InputError(
        "unsupported-ops",
        f"the model has {kinds} kind{'s' * (kinds > 1)} of op that cannot be imported:"
        + "".join(f"\n  {finding}" for finding in findings),
        hint="; ".join(advice) or None,
    )
