"""The error of a chip's model against measured products.

    python -m benchmarks.gpu.model_error [FILE] [--arch sm_90]

FILE is a table of products in many schedules (`benchmarks/gpu/measured`), by default
that of an H200, with the least of several runs. Prints for each kernel how long the
schedule that the model chooses among them took, beside the best one, and how far the
model's times are off, as the geometric mean of factors.
"""

from __future__ import annotations

import argparse
import csv
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from aotc.kernels.gpu.machines import MACHINES, Gpu
from aotc.kernels.gpu.matrices import Counts, ProductTile, nanoseconds

MEASURED = Path(__file__).with_name("measured") / "products-h200.csv"


@dataclass(frozen=True)
class Measured:
    """The measured time of a matrix product in one schedule.

    Args:
        kernel: its name.
        dtype: of the factors.
        counts: the sizes of the matrices.
        tile: the schedule.
        us: microseconds.
    """

    kernel: str
    dtype: str
    counts: Counts
    tile: ProductTile
    us: float


def read(file: Path) -> list[Measured]:
    """Read the rows of a table of measurements."""
    sizes = ("batch", "rows", "columns", "depth")
    tile = ("tile_rows", "tile_columns", "tile_depth", "warps", "stages")
    with file.open(encoding="utf-8", newline="") as text:
        return [
            Measured(
                row["kernel"],
                row["dtype"],
                Counts(*(int(row[n]) for n in sizes), row["has_windows"] == "1"),
                ProductTile(*(int(row[n]) for n in tile)),
                float(row["us"]),
            )
            for row in csv.DictReader(text)
        ]


def errors(rows: Sequence[Measured], machine: Gpu) -> tuple[float, float]:
    """Return the mean error of the model's times, and the loss by its choice of
    schedule.

    The first is the geometric mean of factors; the second the time of the schedule that
    the model chooses over that of the best.
    """
    found = [nanoseconds(x.tile, x.counts, x.dtype, machine) / 1e3 for x in rows]
    ratios = [abs(math.log(us / row.us)) for us, row in zip(found, rows, strict=True)]
    chosen = rows[found.index(min(found))]
    best = min(row.us for row in rows)
    return math.exp(sum(ratios) / len(ratios)), chosen.us / best


def main() -> None:
    """Print a line for each kernel, and the means."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gpu.model_error", description=__doc__
    )
    parser.add_argument("file", nargs="?", type=Path, default=MEASURED)
    parser.add_argument("--arch", choices=[*MACHINES], default="sm_90")
    asked = parser.parse_args()
    machine, lines = MACHINES[asked.arch], []
    for (kernel, dtype), rows in groupby(read(asked.file), key):
        off, loss = errors([*rows], machine)
        lines.append((off, loss))
        print(f"{kernel} {dtype}: off by {off:.2f}, chosen over best {loss:.2f}")
    means = [
        math.exp(sum(map(math.log, each)) / len(each))
        for each in zip(*lines, strict=True)
    ]
    print(f"all: off by {means[0]:.3f}, chosen over best {means[1]:.3f}")


def key(row: Measured) -> tuple[str, str]:
    """Return the kernel name and dtype of a row."""
    return row.kernel, row.dtype


if __name__ == "__main__":
    main()
