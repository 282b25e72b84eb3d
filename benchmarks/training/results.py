"""Tables of training steps."""

from __future__ import annotations

import math
import statistics

from inference.results import Row, line, rule, time_table

from .models import MODELS


def all_tables(rows: list[Row]) -> str:
    """Return all tables of these rows."""
    tables = (size_table(rows), time_table(rows), mean_table(rows), cost_table(rows))
    return "\n\n".join(filter(None, tables))


def size_table(rows: list[Row]) -> str:
    """Return a table of the size of each model."""
    lines = [line("model", "sizes"), rule(2, 0)]
    for name in dict.fromkeys(row.model for row in rows):
        lines.append(line(name, MODELS[name].title))
    return "\n".join(lines)


def mean_table(rows: list[Row]) -> str:
    """Return a table of geometric mean ratios to peers, and of models no slower."""
    groups: dict[tuple[str, int], list[Row]] = {}
    for row in rows:
        if not row.peer and not math.isnan(row.ratio):
            groups.setdefault((row.system, row.threads), []).append(row)
    heads = ("time", "of minima", "slower", "memory")
    lines = [line("system", "threads", "models", *heads), rule(3, len(heads))]
    for key, found in groups.items():
        memory = [memory_ratio(row, rows) for row in found]
        known = [ratio for ratio in memory if not math.isnan(ratio)]
        lines.append(
            line(
                *key,
                len(found),
                _mean(row.ratio for row in found),
                _mean(row.ratio_of_minima for row in found),
                sum(row.ratio > 1 for row in found),
                _mean(known) if known else "",
            )
        )
    return "\n".join(lines)


def cost_table(rows: list[Row]) -> str:
    """Return a table by system: time spread, first step, memory, build, losses."""
    heads = (
        *("p50 / min", "p90 / p50", "first step, s", "peak, MB", "warm peak, MB"),
        *("by the leanest peer", "build, s", "dispatches", "loss error"),
    )
    lines = [line("model", "threads", "system", *heads), rule(3, len(heads))]
    for row in rows:
        if row.failure is None:
            lines.append(line(row.model, row.threads, row.system, *_cells(row, rows)))
    return "\n".join(lines)


def memory_ratio(row: Row, rows: list[Row]) -> float:
    """Return warm steps' memory over that of the leanest peer of the same precision."""
    peers = [
        each.warm_peak_bytes
        for each in rows
        if each.peer
        and each.failure is None
        and (each.model, each.threads) == (row.model, row.threads)
        and each.precision == row.precision
    ]
    return row.warm_peak_bytes / min(peers) if peers else math.nan


def _cells(row: Row, rows: list[Row]) -> list[str]:
    """Return the cells of a row's costs."""
    memory = math.nan if row.peer else memory_ratio(row, rows)
    return [
        f"{row.median_ms / row.minimum_ms:.2f}",
        f"{row.p90_ms / row.median_ms:.2f}",
        f"{row.cold_start_seconds:.2f}",
        f"{row.peak_bytes / 1e6:.0f}",
        f"{row.warm_peak_bytes / 1e6:.0f}",
        "" if math.isnan(memory) else f"{memory:.2f}",
        "" if row.build_seconds is None else f"{row.build_seconds:.1f}",
        "" if row.dispatches is None else str(row.dispatches),
        "" if row.error is None else f"{row.error:.0e}",
    ]


def _mean(ratios: object) -> str:
    """Return a geometric mean as text."""
    return f"{statistics.geometric_mean(ratios):.2f}"
