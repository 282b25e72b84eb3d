"""The evidence as text."""

from __future__ import annotations

from aotc.cli import output
from aotc.cli.evidence_forms.rows import header, place, rows, title
from aotc.evidence.report import Evidence


def to_text(evidence: Evidence) -> str:
    """Return a table with a column for each contender, and notes below."""
    cells = [
        [name, *(f"{x.text} *" if x.is_best else x.text for x in row)]
        for name, row in rows(evidence)
    ]
    lines = [
        title(evidence),
        place(evidence),
        "",
        output.table(header(evidence), cells),
        "* the best of its row",
        "",
        *(f"note: {note}" for note in evidence.notes()),
    ]
    return "\n".join(lines)
