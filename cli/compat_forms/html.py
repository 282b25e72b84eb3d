"""One page that needs nothing else: no script, no font, no network."""

from __future__ import annotations

from html import escape

from aotc.cli.compat_forms.wording import (
    Cell,
    Document,
    coverage_of,
    cure_lines,
    device_of,
    lines_of,
    policy_of,
    rows_of,
    summary_of,
)

_PAGE = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Which artifact runs where</title>
<style>
:root {{ color-scheme: light dark; --line: #8884; --good: #1a7f37; --bad: #cf222e;
  --soft: #8881; }}
@media (prefers-color-scheme: dark) {{ :root {{ --good: #4ac26b; --bad: #ff7b72; }} }}
body {{ font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 80rem;
  padding: 0 1rem; }}
h1 {{ font-size: 1.4rem; }} h2 {{ font-size: 1.1rem; margin-top: 2rem; }}
.good {{ color: var(--good); }} .bad {{ color: var(--bad); }}
.scroll {{ overflow-x: auto; }}
table {{ border-collapse: collapse; width: 100%; }}
th, td {{ border: 1px solid var(--line); padding: .4rem .6rem; text-align: left;
  vertical-align: top; }}
thead th {{ background: var(--soft); }}
tbody th {{ font-weight: 600; white-space: nowrap; }}
small {{ font-weight: 400; opacity: .75; display: block; white-space: normal; }}
summary {{ cursor: pointer; }}
details ul {{ margin: .4rem 0; padding-left: 1.1rem; font-size: .9em; }}
code {{ font-family: ui-monospace, monospace; }}
</style>
</head>
<body>
<h1>{verdict}</h1>
<p>Asked for: {asked}.</p>
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
{cure}
</body>
</html>"""


def render(document: Document) -> str:
    """The whole answer as a page."""
    good = document["passed"]
    words = "The policy holds" if good else "The policy does not hold"
    titles = "".join(
        f'<th scope="col">{escape(artifact["title"])}'
        f"<small>{escape(', '.join(artifact['variants']))}</small></th>"
        for artifact in document["artifacts"]
    )
    return _PAGE.format(
        verdict=_mark(good, words),
        asked=escape(policy_of(document)),
        coverage="\n".join(
            f"<li>{_mark(each['holds'], coverage_of(document, each))}</li>"
            for each in document["coverage"]
        ),
        titles=titles,
        rows="\n".join(_rows(document)),
        cure=_cure(document),
    )


def _rows(document: Document) -> list[str]:
    found, row = [], rows_of(document)
    for each in document["classes"]:
        facts = [each["arch"], f"IREE {each['runtime']}" if each["runtime"] else ""]
        assumed = [f"assumed: {', '.join(each['assumed'])}"] if each["assumed"] else []
        small = escape(", ".join(filter(None, [*facts, *assumed])))
        head = f'<th scope="row">{escape(device_of(each))}<small>{small}</small></th>'
        cells = "".join(map(_cell, row[each["class"]]))
        found.append(f"<tr>{head}{cells}</tr>")
    return found


def _cell(cell: Cell) -> str:
    summary = _mark(cell["accepted"], summary_of(cell))
    lines = [*lines_of(cell), *(f"help: {advice}" for advice in cell["advice"])]
    if not lines:
        return f"<td>{summary}</td>"
    items = "".join(f"<li>{escape(line)}</li>" for line in lines)
    opened = "" if cell["accepted"] else " open"
    return (
        f"<td><details{opened}><summary>{summary}</summary>"
        f"<ul>{items}</ul></details></td>"
    )


def _mark(good: bool, words: str) -> str:
    """Words with a mark, so that colour is not all that tells."""
    kind, mark = ("good", "✓") if good else ("bad", "✗")
    return f'<span class="{kind}">{mark} {escape(words)}</span>'


def _cure(document: Document) -> str:
    lines = "".join(f"<li><code>{escape(c)}</code></li>" for c in cure_lines(document))
    return (
        f"<h2>The fewest targets for this fleet</h2><ul>{lines}</ul>" if lines else ""
    )
