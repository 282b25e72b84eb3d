"""Draw what `benchmarks/models.py` has measured; needs matplotlib.

    python -m inference.plot MODELS.json PLOT.svg

A panel for each batch and number of threads, a line for each model, a mark for each
system: its median by that of the fastest peer, so that marks left of 1 are faster. The
same figures give the same bytes.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("svg")
matplotlib.rcParams |= {
    "svg.fonttype": "none",
    "svg.hashsalt": "aotc",
    "font.size": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
}

from matplotlib import pyplot  # noqa: E402
from matplotlib.axes import Axes  # noqa: E402

MARKS = "o^svDP*X"
SHOWN = 0.5, 4.0  # what is beyond is drawn at the edges

Row = dict[str, Any]


def main() -> None:
    """Draw the figure of one file of results."""
    source, target = map(Path, sys.argv[1:])
    rows = [row for row in json.loads(source.read_text())["rows"] if row["ratio"]]
    panels = sorted({(row["batch"], row["threads"]) for row in rows})
    models = list(dict.fromkeys(row["model"] for row in rows))
    systems = {row["system"]: row["peer"] for row in rows}
    figure, axes = pyplot.subplots(
        1,
        max(1, len(panels)),
        sharey=True,
        squeeze=False,
        figsize=(1.6 + 3.2 * max(1, len(panels)), 1.2 + 0.22 * len(models)),
        layout="constrained",
    )
    for axis, panel in zip(axes[0], panels, strict=False):
        of_panel = [row for row in rows if (row["batch"], row["threads"]) == panel]
        draw(axis, of_panel, models, systems)
        axis.set_title("batch {}, threads {}".format(*panel))
    handles = {
        text: mark
        for axis in axes[0]
        for mark, text in zip(*axis.get_legend_handles_labels(), strict=True)
    }
    figure.legend(
        handles.values(), handles, loc="outside lower center", ncols=4, frameon=False
    )
    figure.savefig(target, metadata={"Date": None})


def draw(
    axis: Axes, rows: list[Row], models: list[str], systems: dict[str, bool]
) -> None:
    """Draw one panel of bars; peers are marked."""
    low, high = SHOWN
    axis.axvline(1, color="0.7", linewidth=0.8)
    for number, (system, is_peer) in enumerate(systems.items()):
        found = [row for row in rows if row["system"] == system]
        axis.plot(
            [min(max(row["ratio"], low), high) for row in found],
            [models.index(row["model"]) for row in found],
            MARKS[number % len(MARKS)],
            color=f"C{number}",
            markersize=4 if is_peer else 6,
            fillstyle="none" if is_peer else "full",
            label=system,
        )
    axis.set(xscale="log", xlim=(low / 1.05, high * 1.05))
    axis.set_xticks(
        [0.5, 0.7, 1, 1.5, 2, 3, 4], ["≤ 0.5", "0.7", "1", "1.5", "2", "3", "≥ 4"]
    )
    axis.minorticks_off()
    axis.set_yticks(range(len(models)), models)
    axis.set_ylim(len(models) - 0.5, -0.5)
    axis.grid(axis="y", linewidth=0.3)
    axis.set_xlabel("time ÷ the fastest peer's")


if __name__ == "__main__":
    main()
