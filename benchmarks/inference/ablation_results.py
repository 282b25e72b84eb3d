"""Gains of a part of the compiler: rows, JSON and a table of markdown."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from pathlib import Path

from .ablation_builds import Built
from .measuring import Times
from .results import line, replace_between, rule

MARKS = "<!-- ablation -->", "<!-- end of ablation -->"


@dataclass
class Change:
    """The effect of leaving one part out of a program's build.

    Attributes:
        part: the pass or the family of kernels that is left out.
        has_effect: whether IREE gets other IR then.
        dispatches: of the whole program, and without the part; likewise the others.
        kernel_ms: what the model of schedules expects of all kernels.
        ratio: the time without the part by that of the whole: median of paired rounds.
        ratio_of_minima: the same of the smallest times.
        error: of the outputs, relative to the largest.
        failure: why it cannot be built.
    """

    case: str
    part: str
    has_effect: bool = False
    dispatches: tuple[int, int] | None = None
    kernel_calls: tuple[int, int] | None = None
    kernel_gflop: tuple[float, float] | None = None
    kernel_ms: tuple[float, float] | None = None
    median_ms: tuple[float, float] | None = None
    ratio: float | None = None
    ratio_of_minima: float | None = None
    error: float | None = None
    failure: str | None = None

    def note_builds(self, full: Built, less: Built) -> None:
        """Record the counts of the full build and the one without the part."""
        self.failure = less.failure
        if less.failure is None:
            self.dispatches = full.dispatches, less.dispatches
            self.kernel_calls = full.kernel_calls, less.kernel_calls
            self.kernel_gflop = full.kernel_gflop, less.kernel_gflop
            self.kernel_ms = full.kernel_ms, less.kernel_ms

    def note_times(self, full: Times, less: Times) -> None:
        """Record the times of the full build and the one without the part."""
        self.median_ms = full.median * 1e3, less.median * 1e3
        self.ratio = less.ratio(full)
        self.ratio_of_minima = less.minimum / full.minimum


def change_table(changes: list[Change]) -> str:
    """Return a Markdown line for each part and program that it changes."""
    heads = ("dispatches", "calls of kernels", "GFLOP in kernels", "expected of them")
    lines = [line("left out", "case", *heads, "time"), rule(2, len(heads) + 1)]
    for part in dict.fromkeys(each.part for each in changes):
        found = [each for each in changes if each.part == part]
        changed = [each for each in found if each.has_effect]
        lines += [line(part, each.case, *_cells(each)) for each in changed]
        if not changed:
            lines.append(line(part, "none", *[""] * (len(heads) + 1)))
    return "\n".join(lines)


def idle_passes(ran: dict[str, dict[str, bool]]) -> str:
    """Return a sentence on the passes that changed nothing in any program."""
    places = list(dict.fromkeys(place for each in ran.values() for place in each))
    idle = [place for place in places if not any(e.get(place) for e in ran.values())]
    if not idle:
        return "Every pass changed the IR of one of these programs, wherever it stands."
    return (
        "Passes of whole builds that changed the IR of none of these programs, by "
        f"their number: {', '.join(idle)}."
    )


def write_rows(
    changes: list[Change],
    ran: dict[str, dict[str, bool]],
    facts: dict[str, object],
    file: Path,
) -> None:
    """Write all changes and the run's facts as JSON."""
    rows = [asdict(each) for each in changes]
    found = {**facts, "rows": rows, "changed_by_pass": ran}
    file.write_text(json.dumps(found, indent=1) + "\n")


def write_page(changes: list[Change], ran: dict[str, dict[str, bool]]) -> None:
    """Write the table between its marks in docs/performance.md."""
    replace_between(*MARKS, f"{change_table(changes)}\n\n{idle_passes(ran)}")


def _cells(change: Change) -> list[str]:
    """Return the cells of a change."""
    if change.failure is not None:
        return [f"not built ({change.failure.partition(':')[0]})", "", "", "", ""]
    return [
        _pair(change.dispatches, "d"),
        _pair(change.kernel_calls, "d"),
        _pair(change.kernel_gflop, ".3g"),
        f"{_pair(change.kernel_ms, '.3g')} ms",
        _time(change),
    ]


def _pair(values: tuple[float, float] | None, form: str) -> str:
    """Return `55 → 60` as text, or one number if both are equal."""
    if values is None:
        return ""
    before, after = (format(value, form) for value in values)
    return before if before == after else f"{before} → {after}"


def _time(change: Change) -> str:
    """Return the ratio of times as text, or the error of wrong results."""
    if change.ratio is None or change.ratio_of_minima is None:
        wrong = change.error is not None and not math.isclose(change.error, 0)
        return f"– (error {change.error:.1e})" if wrong else ""
    return f"{change.ratio:.2f} / {change.ratio_of_minima:.2f}"
