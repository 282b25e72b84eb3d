"""The evidence as text."""

from __future__ import annotations

from aotc.cli import output
from aotc.cli.evidence_forms.rows import header, place, rows, title
from aotc.evidence.report import Evidence


def to_text(evidence: Evidence) -> str:
    """A table with a column for each contender, and what to know below."""
    lines = [
        title(evidence),
        place(evidence),
        "",
        output.table(header(evidence), rows(evidence)),
        "",
        *(f"note: {note}" for note in evidence.notes()),
    ]
    return "\n".join(lines)
