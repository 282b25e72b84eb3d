"""Measurements as rows, as JSON and as tables of markdown."""

from __future__ import annotations

import json
import math
import shutil
import statistics
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from .measuring import Times

PAGE = Path(__file__).parents[2] / "docs" / "performance.md"
PLOT = PAGE.parent / "_static" / "models.svg"
PLOT_TEXT = "Time of each system by that of the fastest peer"
BEGIN, END = "<!-- tables -->", "<!-- end of tables -->"


@dataclass
class Row:
    """The measurements of one system on one model with a number of threads.

    Attributes:
        error: of its outputs, or why there are no times.
        precision: that it is told to compute in; none leaves the dtypes of the model.
        ratio: its time by that of the fastest peer of the same precision: medians of
            paired rounds.
        ratio_of_minima: the same of the smallest times.
        ratio_to_static: its time by that of the build for static sizes, medians of
            paired rounds; None where there is no such build.
        static_ratio_of_minima: the same of the smallest times.
        warm_peak_bytes: the most resident memory after the first result.
        install_bytes: of what has to be installed beside the artifact; None where that
            is not known.
    """

    model: str
    batch: int
    threads: int
    system: str
    peer: bool
    precision: str | None = None
    error: float | None = None
    failure: str | None = None
    median_ms: float = math.nan
    minimum_ms: float = math.nan
    p90_ms: float = math.nan
    p99_ms: float = math.nan
    ratio: float = math.nan
    ratio_of_minima: float = math.nan
    ratio_to_static: float | None = None
    static_ratio_of_minima: float | None = None
    cold_start_seconds: float = math.nan
    peak_bytes: int = 0
    warm_peak_bytes: int = 0
    artifact_bytes: int = 0
    install_bytes: int | None = None
    build_seconds: float | None = None
    pass_seconds: float | None = None
    dispatches: int | None = None


def compare_with_peers(rows: Iterable[Row], times: dict[str, Times]) -> None:
    """Fill in medians, minima and ratios to peers in the rows of one model."""
    timed = [row for row in rows if row.system in times]
    for row in timed:
        row.median_ms = times[row.system].median * 1e3
        row.minimum_ms = times[row.system].minimum * 1e3
        row.p90_ms = times[row.system].percentile(90) * 1e3
        row.p99_ms = times[row.system].percentile(99) * 1e3
        static = times.get(f"{row.system} static")
        if static is not None:
            row.ratio_to_static = times[row.system].ratio(static)
            row.static_ratio_of_minima = times[row.system].minimum / static.minimum
    for row in timed:
        peers = [times[each.system] for each in timed if _is_peer_of(row, each)]
        if peers:
            fastest = min(peers, key=lambda each: each.median)
            least = min(each.minimum for each in peers)
            row.ratio = times[row.system].ratio(fastest)
            row.ratio_of_minima = times[row.system].minimum / least


def _is_peer_of(row: Row, other: Row) -> bool:
    """Return whether `other` is a peer in the same precision as `row`."""
    return other.peer and other.precision == row.precision


def write_json(rows: list[Row], facts: dict[str, object], file: Path) -> None:
    """Write all rows and facts as JSON; what was not measured is null."""
    found = {**facts, "rows": [_without_nan(asdict(row)) for row in rows]}
    file.write_text(json.dumps(found, indent=1) + "\n")


def write_page(rows: list[Row], plot: Path | None) -> None:
    """Write the tables between their marks in docs/performance.md, and the plot."""
    text = all_tables(rows)
    if plot is not None:
        shutil.copy(plot, PLOT)
        text = f"![{PLOT_TEXT}]({PLOT.relative_to(PAGE.parent)})\n\n{text}"
    replace_between(BEGIN, END, text)


def replace_between(begin: str, end: str, text: str) -> None:
    """Write a text between two marks in docs/performance.md."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(begin)
    _, _, after = rest.partition(end)
    PAGE.write_text(f"{before}{begin}\n\n{text}\n\n{end}{after}", encoding="utf-8")


def time_table(rows: list[Row]) -> str:
    """Return the table of milliseconds: a line per model, a column per system."""
    systems = list(dict.fromkeys(row.system for row in rows))
    lines = [line("model", "batch", "threads", *systems), rule(3, len(systems))]
    for key, found in _by_model(rows).items():
        cells = {row.system: _time(row) for row in found}
        lines.append(line(*key, *(cells.get(name, "") for name in systems)))
    return "\n".join(lines)


def tail_table(rows: list[Row]) -> str:
    """Return the table of percentiles over medians, and medians over minima."""
    systems = list(dict.fromkeys(row.system for row in rows))
    lines = [line("model", "batch", "threads", *systems), rule(3, len(systems))]
    for key, found in _by_model(rows).items():
        cells = {row.system: _tail(row) for row in found}
        lines.append(line(*key, *(cells.get(name, "") for name in systems)))
    return "\n".join(lines)


def mean_table(rows: list[Row]) -> str:
    """Return the table of geometric mean ratios to the fastest peers."""
    groups: dict[tuple[int, int, str], list[Row]] = {}
    for row in rows:
        if not row.peer and not math.isnan(row.ratio):
            groups.setdefault((row.batch, row.threads, row.system), []).append(row)
    if not groups:
        return ""
    lines = [line("batch", "threads", "system", "models", "mean"), rule(3, 2)]
    for key, found in groups.items():
        medians, minima = (
            statistics.geometric_mean(getattr(row, name) for row in found)
            for name in ("ratio", "ratio_of_minima")
        )
        lines.append(line(*key, len(found), f"{medians:.2f} / {minima:.2f}"))
    return "\n".join(lines)


def all_tables(rows: list[Row]) -> str:
    """Return all tables of these rows."""
    tables = (
        time_table(rows),
        mean_table(rows),
        tail_table(rows),
        static_table(rows),
        fact_table(rows),
    )
    return "\n\n".join(filter(None, tables))


def static_table(rows: list[Row]) -> str:
    """Return the table of any-size builds over static builds; empty without."""
    found = [row for row in rows if row.ratio_to_static is not None]
    if not found:
        return ""
    lines = [line("model", "batch", "threads", "system", "by static"), rule(4, 1)]
    for row in found:
        ratios = f"{row.ratio_to_static:.2f} / {row.static_ratio_of_minima:.2f}"
        lines.append(line(row.model, row.batch, row.threads, row.system, ratios))
    return "\n".join(lines)


def fact_table(rows: list[Row]) -> str:
    """Return the table of start time, memory, sizes and build time by system."""
    heads = (
        *("cold start, s", "peak, MB", "artifact, MB", "install, MB"),
        *("build, s", "passes, s", "dispatches"),
    )
    lines = [line("model", "batch", "threads", "system", *heads), rule(4, len(heads))]
    for key, found in _by_model(rows).items():
        for row in found:
            if row.failure is None:
                lines.append(line(*key, row.system, *_facts(row)))
    return "\n".join(lines)


def _without_nan(fields: dict[str, object]) -> dict[str, object]:
    """Return fields with NaN replaced by None."""
    return {name: None if value != value else value for name, value in fields.items()}


def _by_model(rows: list[Row]) -> dict[tuple[str, int, int], list[Row]]:
    """Group rows by model, batch and threads."""
    found: dict[tuple[str, int, int], list[Row]] = {}
    for row in rows:
        found.setdefault((row.model, row.batch, row.threads), []).append(row)
    return found


def _time(row: Row) -> str:
    """Return median and minimum as text; for aotc also the ratio to the fastest
    peer.
    """
    if row.failure is not None:
        return f"– ({row.failure})"
    text = f"{row.median_ms:.4g} / {row.minimum_ms:.4g}"
    if row.peer or math.isnan(row.ratio):
        return text
    return f"{text}; **{row.ratio:.2f} / {row.ratio_of_minima:.2f}**"


def _tail(row: Row) -> str:
    """Return p50 over the minimum, and p90 and p99 over p50, as text."""
    if row.failure is not None or math.isnan(row.median_ms):
        return ""
    ratios = (
        row.median_ms / row.minimum_ms,
        row.p90_ms / row.median_ms,
        row.p99_ms / row.median_ms,
    )
    return " / ".join(f"{ratio:.2f}" for ratio in ratios)


def _facts(row: Row) -> list[str]:
    """Return the cells of a row's start time, memory, sizes and build time."""
    return [
        f"{row.cold_start_seconds:.2f}",
        f"{row.peak_bytes / 1e6:.0f}",
        f"{row.artifact_bytes / 1e6:.1f}",
        "" if row.install_bytes is None else f"{row.install_bytes / 1e6:.0f}",
        "" if row.build_seconds is None else f"{row.build_seconds:.1f}",
        "" if row.pass_seconds is None else f"{row.pass_seconds:.1f}",
        "" if row.dispatches is None else str(row.dispatches),
    ]


def line(*cells: object) -> str:
    """Return a Markdown row of these cells."""
    return f"| {' | '.join(str(cell) for cell in cells)} |"


def rule(left: int, right: int) -> str:
    """Return the Markdown rule with columns aligned left and right."""
    return "|" + "---|" * left + "--:|" * right
