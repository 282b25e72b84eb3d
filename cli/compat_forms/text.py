"""A table for people, in colour on a terminal, and the reasons below it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import click

from aotc.cli import output
from aotc.cli.compat_forms.wording import (
    Cell,
    Document,
    cells_to_explain,
    coverage_of,
    cure_lines,
    device_of,
    lines_of,
    members_of,
    policy_of,
    rows_of,
    summary_of,
)


def render(document: Document) -> str:
    """Return a compatibility document as text for a terminal."""
    parts = [_table(document), *_members(document), *_reasons(document)]
    parts.append(_verdict(document))
    cure = list(cure_lines(document))
    if cure:
        parts.append("\n".join(["the fewest targets for this fleet:", *cure]))
    return "\n\n".join(parts)


def _table(document: Document) -> str:
    """Return the table of verdicts as text: device classes by artifacts."""
    titles = [artifact["title"] for artifact in document["artifacts"]]
    cells = rows_of(document)
    rows = [
        [device_of(each), *map(_mark, cells[each["class"]])]
        for each in document["classes"]
    ]
    lines = output.escape_control_characters(
        output.table(("DEVICES", *titles), rows)
    ).split("\n")
    return "\n".join([lines[0], *(_colour(line) for line in lines[1:])])


def _members(document: Document) -> Iterator[str]:
    """Yield one text with the devices of rows that stand for several; nothing without
    such.
    """
    rows = [(device_of(each), members_of(each)) for each in document["classes"]]
    lines = [f"{device}: {members}" for device, members in rows if members]
    if lines:
        yield output.escape_control_characters("\n".join(lines))


def _mark(cell: Cell) -> str:
    """Return a cell's verdict with a check mark or a cross."""
    return f"{'✓' if cell['accepted'] else '✗'} {summary_of(cell)}"


def _colour(line: str) -> str:
    """Colour the check marks and crosses of a line, on a terminal only."""
    if not _is_terminal():
        return line
    return line.replace("✓", click.style("✓", fg="green")).replace(
        "✗", click.style("✗", fg="red")
    )


def _is_terminal() -> bool:
    """Return whether standard output is a terminal on which colour is wanted."""
    return sys.stdout.isatty() and "NO_COLOR" not in os.environ


def _reasons(document: Document) -> Iterator[str]:
    """Yield the reasons, advice and assumptions of each cell that needs them."""
    for artifact, device, cell in cells_to_explain(document):
        lines = [f"{artifact} on {device}: {summary_of(cell)}"]
        lines += [f"  {line}" for line in lines_of(cell)]
        lines += [f"  help: {advice}" for advice in cell["advice"]]
        assumed = document["classes"][cell["class"]]["assumed"]
        lines += [f"  assumed: {', '.join(assumed)}"] if assumed else []
        yield output.escape_control_characters("\n".join(lines))


def _verdict(document: Document) -> str:
    """Return whether the policy holds, with the coverage of each requirement."""
    holds = "holds" if document["passed"] else "DOES NOT HOLD"
    lines = [f"policy ({policy_of(document)}): {holds}"]
    for coverage in document["coverage"]:
        mark = "" if coverage["holds"] else "  ✗"
        lines.append(f"  {coverage_of(document, coverage)}{mark}")
    return output.escape_control_characters("\n".join(lines))
