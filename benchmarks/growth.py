"""Growth of aotc's own stages with the graph: all that is done before IREE's compiler.

    pip install -e '.[compiler]' && python benchmarks/growth.py [--json FILE] [--write]

Graphs of `growth_model.py` with 500 to 50,000 ops, of fixed and of symbolic batch, each
in a process of its own. Ops are those of the graph dialect when calls are inlined and
derivatives written, which is when a module has most of them. For each stage: time of
the processor, the least of three runs where they are short, per op, and the exponent by
which it grows (1 is linear). Memory is the most that the process held above what it
started with.

Passes are run one by one, and charged what they cost in a build: the runner compares
the bytecode of the module before and after each, and a stage of a build has that of
before from the pass before. What a stage leaves is verified. The first call of the
self-check by the reference evaluator is not added up, nor is the text for people.

`--write` puts the tables into docs/growth.md. `--check` exits 1 where the time of a
stage grows faster than the graph: the witness of what counts of calls cannot see, such
as copies of lists and sets (`growth_counts.py`).
"""

import argparse
import json
import math
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from growth_stages import OPS_OF_STEP, GrowingBuild, size_of

PAGE = Path(__file__).parent.parent / "docs" / "growth.md"
MARK = "<!-- written by benchmarks/growth.py -->"

SIZES = (500, 2_000, 8_000, 20_000, 50_000)
BATCHES = ("4", "batch")
# what a build without a check, or an order to print, leaves out
NOT_ADDED = ("reference", "text for people")
MOST = 1.3  # the exponent of a stage that grows no faster than the graph, as measured
LEAST_SHARE = 0.02  # of the time of all stages, below which clocks decide
TICK = 1e-9  # seconds
SHORT = 5.0  # seconds; a run that takes less is repeated
RUNS = 3


# ---- one graph, in a process of its own ---------------------------------------------


@dataclass
class Stages:
    """Wall time in seconds and peak memory in bytes of each stage."""

    seconds: dict[str, float] = field(default_factory=dict)
    peaks: dict[str, int] = field(default_factory=dict)

    @contextmanager
    def measured(self, name: str) -> Iterator[None]:
        """Measure time and memory of a stage in the context; repeated ones add up."""
        Path("/proc/self/clear_refs").write_text("5")  # the kernel forgets the peak
        start = time.process_time()
        yield
        seconds = time.process_time() - start
        self.seconds[name] = self.seconds.get(name, 0.0) + seconds
        self.peaks[name] = max(self.peaks.get(name, 0), _resident("VmHWM"))


def _resident(what: str) -> int:
    """Return this process's resident bytes: `VmRSS` now, `VmHWM` at its peak."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(what)) * 1024


def measure_one(kind: str, steps: int, batch: str) -> dict[str, Any]:
    """Build a model up to IREE twice; return the stages of the second, warm build."""
    measure_stages(kind, 1, batch)  # imports are no part of any stage
    return measure_stages(kind, steps, batch)


def measure_stages(kind: str, steps: int, batch: str) -> dict[str, Any]:
    """Build a model up to IREE; return the time and memory of its stages."""
    from aotc.dialects.limits import graph_ops
    from aotc.mlir import bytecode
    from aotc.programs.program import GRAPH_STAGES

    stages, ops, before = Stages(), 0, _resident("VmRSS")
    build = GrowingBuild(kind, steps, batch)
    for step in build.steps():
        if step.pass_ is None:
            with stages.measured(step.name):
                step.run()
            continue
        name, (stage, number) = step.pass_.name, step.place
        start = time.process_time()
        bytecode(build.module)
        serialization = time.process_time() - start
        with stages.measured(name):
            step.run()
        if number:  # a build has the bytes that the pass before left
            rest = stages.seconds[name] - serialization
            stages.seconds[name] = max(rest, TICK)  # of clocks, where nothing is left
        if stage in GRAPH_STAGES:
            ops = max(ops, len(graph_ops(build.module)))
    peaks = {name: peak - before for name, peak in stages.peaks.items()}
    return {"ops": ops, "seconds": stages.seconds, "bytes": peaks}


# ---- all of them --------------------------------------------------------------------


def measure(kind: str, size: int, batch: str) -> dict[str, Any]:
    """Measure one graph several times; return the fastest time of each stage."""
    steps = str(size_of(kind, size))
    command = [sys.executable, __file__, "--one", kind, steps, batch]
    found: list[dict[str, Any]] = []
    while not found or (len(found) < RUNS and _total(found[0]["seconds"]) < SHORT):
        answer = subprocess.run(command, check=True, capture_output=True, text=True)
        found.append(json.loads(answer.stdout))
    merged = {"kind": kind, "batch": batch, "ops": found[0]["ops"]}
    for what in ("seconds", "bytes"):
        merged[what] = {
            name: min(each[what][name] for each in found) for name in found[0][what]
        }
    return merged


def _total(seconds: dict[str, float]) -> float:
    """Return the sum of the stage times that count."""
    return sum(value for name, value in seconds.items() if name not in NOT_ADDED)


def growth(rows: list[dict[str, Any]], stage: str | None = None) -> float:
    """Return the exponent of the time (of a stage) over the ops, 1 where it is
    linear.
    """
    times = [
        _total(r["seconds"]) if stage is None else r["seconds"][stage] for r in rows
    ]
    first, last = rows[0]["ops"], rows[-1]["ops"]
    return math.log(times[-1] / times[0]) / math.log(last / first)


def growing(rows: list[dict[str, Any]]) -> list[str]:
    """Return the stages whose time grows faster than the graph, as text."""
    graph, seconds = f"{rows[0]['kind']}, {rows[0]['batch']}", rows[-1]["seconds"]
    least = LEAST_SHARE * _total(seconds)
    exponents = {x: growth(rows, x) for x, time in seconds.items() if time > least}
    return [f"{graph}: {x} by {n:.2f}" for x, n in exponents.items() if n > MOST]


def by_graph(rows: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Group rows by kind of graph and batch, sorted by size."""
    found: dict[Any, list[dict[str, Any]]] = {}
    for row in rows:
        found.setdefault((row["kind"], row["batch"]), []).append(row)
    return [sorted(each, key=lambda row: row["ops"]) for each in found.values()]


def table(rows: list[dict[str, Any]]) -> str:
    """Return the Markdown table of one kind of graph: ms per op by size, and growth."""
    sizes = " | ".join(f"{row['ops']:,} ops" for row in rows)
    lines = [f"| stage | {sizes} | growth |", "|---" * (len(rows) + 2) + "|"]
    added = [name for name in rows[0]["seconds"] if name not in NOT_ADDED]
    for stage in (*added, *NOT_ADDED, None):
        each = [
            _total(r["seconds"]) if stage is None else r["seconds"][stage] for r in rows
        ]
        cells = [f"{t * 1e3 / r['ops']:.4f}" for t, r in zip(each, rows, strict=True)]
        name = stage or "**all, ms an op**"
        exponent = f"{growth(rows, stage):.2f}" if len(rows) > 1 else ""
        lines.append(f"| {name} | {' | '.join(cells)} | {exponent} |")
    peaks = [max(row["bytes"].values()) / row["ops"] / 1024 for row in rows]
    lines.append(
        f"| peak memory, KiB an op | {' | '.join(f'{p:.1f}' for p in peaks)} | |"
    )
    return "\n".join(lines)


def tables(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Yield a titled table for each kind of graph and batch."""
    for found in by_graph(rows):
        kind, batch = found[0]["kind"], found[0]["batch"]
        size = "any size" if batch == "batch" else batch
        yield f"### {kind}, batch of {size}\n\n{table(found)}\n"


def measured(
    kinds: Iterable[str], batches: Sequence[str], sizes: Sequence[int]
) -> Iterator[dict[str, Any]]:
    """Measure every graph and print progress; yield a row for each."""
    for kind in kinds:
        for batch in batches:
            for size in sizes:
                row = measure(kind, size, batch)
                per_op = _total(row["seconds"]) * 1e3 / row["ops"]
                print(f"{kind}, {batch}: {row['ops']} ops, {per_op:.3f} ms", flush=True)
                yield row


def write(text: str) -> None:
    """Write the tables into the page behind the mark."""
    before, _, _ = PAGE.read_text(encoding="utf-8").partition(MARK)
    PAGE.write_text(f"{before}{MARK}\n\n{text}\n", encoding="utf-8")


def main() -> None:
    """Measure every kind of graph in every size, and print its table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--kinds", nargs="+", choices=OPS_OF_STEP, default=[*OPS_OF_STEP]
    )
    parser.add_argument("--sizes", nargs="+", type=int, default=SIZES)
    parser.add_argument("--batches", nargs="+", default=BATCHES)
    parser.add_argument("--read", nargs="+", type=Path, help="tables of such files")
    parser.add_argument("--json", type=Path, help="write all figures to this file")
    parser.add_argument("--write", action="store_true", help="renew docs/growth.md")
    parser.add_argument("--check", action="store_true", help="fail above linear")
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.one:
        kind, steps, batch = asked.one
        print(json.dumps(measure_one(kind, int(steps), batch)))
        return
    if asked.read:
        rows = [row for file in asked.read for row in json.loads(file.read_text())]
    else:
        rows = list(measured(asked.kinds, asked.batches, asked.sizes))
    if asked.json:
        asked.json.write_text(f"{json.dumps(rows, indent=1)}\n", encoding="utf-8")
    text = "\n".join(tables(rows))
    print(text)
    if asked.write:
        write(text)
    if asked.check:
        sys.exit("\n".join(each for x in by_graph(rows) for each in growing(x)) or 0)


if __name__ == "__main__":
    main()
