"""A table for the summary of a pull request, with the reasons folded away."""

from __future__ import annotations

import re

from aotc.cli.compat_forms.wording import (
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
from aotc.core.json_values import JsonObject


def render(document: Document) -> str:
    """Return a compatibility document as GitHub-flavoured Markdown."""
    holds = "holds" if document["passed"] else "**does not hold**"
    parts = [
        f"### Rollout: the policy {holds}",
        f"Asked for: {policy_of(document)}.",
        "\n".join(
            f"- {_mark(each['holds'])} {_escape(coverage_of(document, each))}"
            for each in document["coverage"]
        ),
        _table(document),
        *_reasons(document),
        _cure(document),
    ]
    return "\n\n".join(filter(None, parts))


def _cure(document: Document) -> str:
    """Return the Markdown list of the fewest targets to add; empty without `--cure`."""
    lines = "\n".join(f"- {_escape(line.strip())}" for line in cure_lines(document))
    return f"The fewest targets for this fleet:\n\n{lines}" if lines else ""


def _table(document: Document) -> str:
    """Return the Markdown table of verdicts: device classes by artifacts."""
    titles = [_escape(artifact["title"]) for artifact in document["artifacts"]]
    found = rows_of(document)
    rows = [["devices", *titles], ["---"] * (len(titles) + 1)]
    for each in document["classes"]:
        cells = [
            f"{_mark(cell['accepted'])} {_escape(summary_of(cell))}"
            for cell in found[each["class"]]
        ]
        rows.append([_device(each), *cells])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _device(device_class: JsonObject) -> str:
    """Return the name of a device class, with its members, in Markdown."""
    members = members_of(device_class)
    return _escape(device_of(device_class) + (f" ({members})" if members else ""))


def _reasons(document: Document) -> list[str]:
    """Return a collapsed Markdown block for each cell with reasons or advice."""
    found = []
    for artifact, device, cell in cells_to_explain(document):
        title = _escape(f"{artifact} on {device}: {summary_of(cell)}")
        lines = [f"- {_escape(line)}" for line in lines_of(cell)]
        lines += [f"- help: {_escape(advice)}" for advice in cell["advice"]]
        body = "\n".join(lines)
        found.append(f"<details><summary>{title}</summary>\n\n{body}\n\n</details>")
    return found


def _mark(good: bool) -> str:
    """Return a check mark or a cross."""
    return "✅" if good else "❌"


def _escape(text: str) -> str:
    """Escape text from a bundle or profile, so that no character makes markup."""
    plain = re.sub(r"[\x00-\x1f\x7f]", " ", text)
    return re.sub(r"([\\`*_{}\[\]<>|#!~&])", r"\\\1", plain)
