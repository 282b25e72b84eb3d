"""`aotc ops`: every op and the rules that it has."""

from __future__ import annotations

from typing import Any

from aotc.cli import output
from aotc.cli.verb import format_option, verb


@verb(
    "aotc ops",
    "aotc ops --format markdown > ops.md",
)
@format_option("text", "json", "markdown")
def ops(form: str) -> None:
    """List the ops of the graph dialect and the rules that each has.

    A rule is `yes`, or the reason why the op has none. The targets are `all`, or those
    that are known not to compile the op on some of its dtypes. In mixed precision an op
    computes in the lower one, in f32, in f32 until its result meets a product
    (`widens`), or follows its operands.
    """
    from aotc import dialects

    rows = dialects.matrix()
    document = {"schema": "aotc.ops/1", "ops": rows}
    output.emit(document, _markdown(rows) if form == "markdown" else _text(rows), form)


def _cells(rows: list[dict[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """Return the header and cells of the table of ops."""
    rules = list(dict.fromkeys(rule for row in rows for rule in row["rules"]))
    lines = [
        [
            row["op"],
            row["family"],
            *(row["rules"].get(rule, "") for rule in rules),
            _targets(row["missing"]),
            row["precision"],
            " ".join(row["dtypes"]),
        ]
        for row in rows
    ]
    return ["op", "family", *rules, "targets", "precision", "dtypes"], lines


def _targets(missing: dict[str, list[str]]) -> str:
    """Format what targets lack: `vmvx without bf16, f16`; `a->b` is a conversion."""
    found = [
        f"{family} without {', '.join(kinds)}" for family, kinds in missing.items()
    ]
    return "; ".join(found) or "all"


def _text(rows: list[dict[str, object]]) -> str:
    """Return the table as text; long reasons become numbered notes under it."""
    header, lines = _cells(rows)
    notes: dict[str, int] = {}
    for line in lines:
        for column in range(2, len(header) - 2):
            if line[column] not in ("yes", "all", ""):
                number = notes.setdefault(line[column], len(notes) + 1)
                line[column] = f"[{number}]"
    legend = [f"[{number}] {reason}" for reason, number in notes.items()]
    return "\n".join([output.table([h.upper() for h in header], lines), *legend])


def _markdown(rows: list[dict[str, object]]) -> str:
    """Return the table as Markdown."""
    header, lines = _cells(rows)
    lines = [[cell.replace("|", r"\|") for cell in line] for line in lines]
    return "\n".join(
        f"| {' | '.join(line)} |" for line in [header, ["---"] * len(header), *lines]
    )
