"""The evidence as one HTML page, which needs no other file and no script."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

import numpy as np

from aotc.cli.evidence_forms.plots import PlotAxis, PlotLine, plot
from aotc.cli.evidence_forms.rows import TERMS, FigureCell, header, place, rows, title
from aotc.evidence.report import Evidence

Row = Mapping[str, float]

_ABOVE = 4.0  # times the bound: what of a latency over a rate is shown
_STYLE = """\
:root { color-scheme: light dark; --line: #8884; --best: #1a7f37; --head: #f6f6f6;
  --line-0: #0072b2; --line-1: #d55e00; --line-2: #009e73; --line-3: #a3447f;
  --line-4: #a06a00; --line-5: #3a7ca5; --line-6: #5f5f5f; }
@media (prefers-color-scheme: dark) {
  :root { --best: #4ac26b; --head: #262626;
    --line-0: #56b4e9; --line-1: #ff8c42; --line-2: #2ecc9a; --line-3: #e08fc0;
    --line-4: #e6b84c; --line-5: #8fd0ff; --line-6: #b0b0b0; }
}
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem;
  padding: 0 1rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .2rem .8rem .2rem 0; text-align: right; white-space: nowrap;
  border-bottom: 1px solid var(--line); }
thead th { background: var(--head); }
th[scope=row], thead th:first-child { text-align: left; font-weight: 400; }
.best { color: var(--best); font-weight: 600; }
.table { overflow-x: auto; }
dt { font-weight: 600; } dd { margin: 0 0 .4rem 1.2rem; }
svg { width: 100%; max-width: 46rem; height: auto; }
svg text { font: 12px system-ui, sans-serif; fill: currentColor; }
svg polyline { fill: none; stroke-width: 2; }
svg .grid { stroke: var(--line); }
svg .limit { stroke: currentColor; stroke-dasharray: 5 4; }
"""


def to_html(evidence: Evidence) -> str:
    """Return the HTML page: a table, and plots of latencies and of latency over
    rate.
    """
    name = escape(f"Evidence: {Path(evidence.source).name}, {evidence.entry}")
    notes = "\n".join(f"<li>{escape(note)}</li>" for note in evidence.notes())
    return f"""\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{name}</title>
<style>
{_STYLE}</style>
</head>
<body>
<h1>{name}</h1>
<p>{escape(title(evidence))}</p>
<p>{escape(place(evidence))}</p>
<div class="table">
{_table(header(evidence), rows(evidence))}
</div>
<p>★ is the best of its row.</p>
<ul>
{notes}
</ul>
<h2>Warm calls</h2>
<p>The share of calls that take no longer than that.</p>
{_distributions(evidence)}
<h2>Latency over rate</h2>
<p>Milliseconds in which 99 % of the calls end; the dashed line is the bound.</p>
{_rates(evidence)}
<h2>Terms</h2>
<dl>
{_terms()}
</dl>
</body>
</html>
"""


def _table(
    names: Sequence[str], figures: Sequence[tuple[str, Sequence[FigureCell]]]
) -> str:
    """Return the HTML table of figures: one column for each contender."""
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in names)
    body = "\n".join(
        f'<tr><th scope="row">{escape(name)}</th>{"".join(map(_cell, cells))}</tr>'
        for name, cells in figures
    )
    return f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody>\n</table>"


def _cell(cell: FigureCell) -> str:
    """Return a figure as an HTML cell; the best of its row has a mark besides
    colour.
    """
    mark = ' class="best"' if cell.is_best else ""
    return f"<td{mark}>{'★ ' if cell.is_best else ''}{escape(cell.text)}</td>"


def _terms() -> str:
    """Return the definitions of terms as HTML."""
    pairs = TERMS.items()
    return "\n".join(f"<dt>{escape(k)}</dt><dd>{escape(v)}</dd>" for k, v in pairs)


def _distributions(evidence: Evidence) -> str:
    """Return the plot of each contender's latency distribution (cumulative)."""
    shares = np.linspace(0, 1, 101)
    lines = [
        PlotLine(each.name, [*zip(np.quantile(times, shares), shares, strict=True)])
        for each in evidence.figures
        if len(times := each.measured.medians)
    ]
    values = [x for line in lines for x, _ in line.points]
    if not values:
        return "<p>All calls were refused.</p>"
    x = PlotAxis.over("ms", values, is_log=True)
    return plot("Distribution of latencies", x, PlotAxis("share", 0, 1), lines)


def _rates(evidence: Evidence) -> str:
    """Return the plot of 99th percentile latency over the rate of arrivals."""
    top = _ABOVE * evidence.bound
    lines = [
        PlotLine(each.name, [(row["rate"], row["p99"]) for row in found])
        for each in evidence.figures
        if (found := _rows_up_to(top, evidence.latency_over_rate(each)))
    ]
    points = [point for line in lines for point in line.points]
    if not points:
        return "<p>All calls were refused.</p>"
    x = PlotAxis.over("calls a second", [rate for rate, _ in points])
    y = PlotAxis("p99, ms", 0, top)
    return plot("Latency over the rate of arrivals", x, y, lines, evidence.bound)


def _rows_up_to(highest: float, points: Sequence[Row]) -> list[Row]:
    """Return the rows whose latency fits the plot, and the first one beyond it."""
    within = [row["p99"] <= highest for row in points]
    return [row for i, row in enumerate(points) if i == 0 or within[i - 1]]
