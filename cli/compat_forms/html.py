"""Page in HTML without dependencies: no script, no font, no network."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from html import escape
from typing import Any

from aotc.cli.compat_forms.wording import (
    Cell,
    Document,
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

_MARKS = {"good": "✓", "half": "◐", "bad": "✗"}
_PAGE = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Which artifact runs where</title>
<style>
:root {{ color-scheme: light dark; --line: #8884; --good: #1a7f37; --bad: #cf222e;
  --half: #9a6700;
  --head: #f6f6f6; }}
@media (prefers-color-scheme: dark) {{
  :root {{ --good: #4ac26b; --bad: #ff7b72; --half: #d4a72c; --head: #262626; }}
}}
body {{ font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 80rem;
  padding: 0 1rem; }}
h1 {{ font-size: 1.4rem; }} h2 {{ font-size: 1.1rem; margin-top: 2rem; }}
.good {{ color: var(--good); }} .bad {{ color: var(--bad); }}
.half {{ color: var(--half); }}
.scroll {{ overflow: auto; max-height: 92vh; }}
@media print {{ .scroll {{ max-height: none; }} }}
table {{ border-collapse: collapse; width: 100%; }}
th, td {{ border: 1px solid var(--line); padding: .4rem .6rem; text-align: left;
  vertical-align: top; }}
thead th {{ background: var(--head); position: sticky; top: 0; }}
tbody th {{ font-weight: 600; white-space: nowrap; }}
small {{ font-weight: 400; opacity: .75; display: block; white-space: normal; }}
summary {{ cursor: pointer; }}
details ul {{ margin: .4rem 0; padding-left: 1.1rem; font-size: .9em; }}
code {{ font-family: ui-monospace, monospace; overflow-wrap: anywhere; }}
thead code {{ display: block; min-width: 16em; max-width: 33em; }}
</style>
</head>
<body>
<h1>{verdict}</h1>
<p>Asked for: {asked}. Judged on {date}.</p>
<ul>
{coverage}
</ul>
<div class="scroll">
<table>
<thead><tr><th scope="col">Devices</th>{titles}</tr></thead>
<tbody>
{rows}
</tbody>
</table>
</div>
<p><span class="good">✓</span> runs code made for the device,
<span class="half">◐</span> runs, but not as it should: on the processor in place of the
accelerator, or rebuild it, <span class="bad">✗</span> does not run, or is not
accepted.</p>
{cure}
</body>
</html>"""


def render(document: Document) -> str:
    """Return a compatibility document as an HTML page."""
    good = document["passed"]
    words = "The policy holds" if good else "The policy does not hold"
    titles = "".join(
        f'<th scope="col">{escape(artifact["title"])}'
        f"<small>{escape(', '.join(artifact['variants']))}</small>"
        f"<small><code>{escape(artifact['identity'])}</code></small></th>"
        for artifact in document["artifacts"]
    )
    return _PAGE.format(
        verdict=_mark(_css_class(good), words),
        date=_date(),
        asked=escape(policy_of(document)),
        coverage="\n".join(
            f"<li>{_mark(_css_class(each['holds']), coverage_of(document, each))}</li>"
            for each in document["coverage"]
        ),
        titles=titles,
        rows="\n".join(_rows(document)),
        cure=_cure(document),
    )


def _rows(document: Document) -> list[str]:
    """Return the table rows in HTML, classes that are not covered first."""
    cells = rows_of(document)

    def is_covered(each: JsonObject) -> bool:
        return all(cell["accepted"] for cell in cells[each["class"]])

    return [
        f"<tr>{_device(each)}{''.join(map(_cell, cells[each['class']]))}</tr>"
        for each in sorted(document["classes"], key=is_covered)
    ]


def _device(device_class: Mapping[str, Any]) -> str:
    """Return a row's HTML heading: the devices, and stated or assumed facts on them."""
    runtime = f"IREE runtime {device_class['runtime']}"
    stated = [
        device_class["arch"] or "",
        *([runtime] if device_class["runtime"] else []),
    ]
    lines = [
        members_of(device_class),
        ", ".join(
            fact for fact in stated if fact and fact not in device_class["assumed"]
        ),
        f"assumed: {', '.join(device_class['assumed'])}"
        if device_class["assumed"]
        else "",
    ]
    small = "".join(f"<small>{escape(line)}</small>" for line in lines if line)
    return f'<th scope="row">{escape(device_of(device_class))}{small}</th>'


def _cell(cell: Cell) -> str:
    """Return a cell as HTML: verdict and advice, with the reasons collapsed."""
    is_whole = cell["verdict"] == "optimal" and not cell["fallback"]
    summary = _mark(_css_class(cell["accepted"], is_whole), summary_of(cell))
    advice = "".join(f"<small>{_with_code(line)}</small>" for line in cell["advice"])
    items = "".join(f"<li>{escape(line)}</li>" for line in lines_of(cell))
    if not items:
        return f"<td>{summary}{advice}</td>"
    return (
        f"<td><details><summary>{summary}</summary><ul>{items}</ul></details>"
        f"{advice}</td>"
    )


def _with_code(text: str) -> str:
    """Escape text, in which words between backticks become code."""
    return re.sub("`([^`]*)`", r"<code>\1</code>", escape(text))


def _css_class(accepted: bool, is_whole: bool = True) -> str:
    """Return the CSS class of a verdict: good, half (it runs, but not as it should) or
    bad.
    """
    if not accepted:
        return "bad"
    return "good" if is_whole else "half"


def _mark(css_class: str, words: str) -> str:
    """Return text as HTML of a CSS class, with its symbol, so that colour is not the
    only sign.
    """
    return f'<span class="{css_class}">{_MARKS[css_class]} {escape(words)}</span>'


def _date() -> str:
    """Return today, or the day that SOURCE_DATE_EPOCH names, in UTC."""
    stated = os.environ.get("SOURCE_DATE_EPOCH", "")
    seconds = int(stated) if stated.isdecimal() else time.time()
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d}"


def _cure(document: Document) -> str:
    """Return the HTML section on the fewest targets to add; empty without `--cure`."""
    lines = "".join(f"<li><code>{escape(c)}</code></li>" for c in cure_lines(document))
    return (
        f"<h2>The fewest targets for this fleet</h2><ul>{lines}</ul>" if lines else ""
    )
