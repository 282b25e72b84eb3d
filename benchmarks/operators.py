"""Single operators in aotc and PyTorch (oneDNN), beside what the processor can do.

    pip install -e '.[torch]' && python benchmarks/operators.py [--cases PATTERN …]

Every distinct convolution of ResNet-50 and MobileNetV2, the products of BERT and GPT-2,
softmax, normalisation and reductions: f32, batch 1. All cases are entries of one
bundle. Each system has a process of its own; they take turns, after their results are
compared. PyTorch runs eagerly (convolutions channels-last), and with weights and
activations in oneDNN's own blocked layouts (`packed`). Inputs are where the system
wants them before.

Prints and writes a table: medians / minima in ms, aotc's time over that of the faster
way of PyTorch (above 1: aotc is slower), and by aotc's minimum its GFLOP/s, GB/s and
share of the roofline: of the time that the bytes at the bandwidth of a copy, or the
operations at the measured FMA peak, take at least. What lies in a cache can go beyond.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import statistics
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

import numpy as np
from operator_tables.cases import Case, all_cases

from aotc.machine.device import probe

FOLDER = Path(__file__).parent
TOLERANCE = 1e-4  # of the largest value
MOST_CALLS = 1000
COLUMNS = (
    "case", "aotc", "eager", "packed", "ratio", "of minima", "GFLOP/s", "GB/s", "roof",
)  # fmt: skip


def python(*words: object, **variables: str) -> list[str]:
    """Return the arguments of `Popen` that run a module of this folder."""
    environment = {**os.environ, "PYTHONPATH": str(FOLDER), **variables}
    command = [sys.executable, "-m", *map(str, words)]
    return {"args": command, "env": environment, "text": True}


class System:
    """A child process that makes the calls of one system.

    Args:
        kind: aotc, eager or packed.
        options: of the command line.
        bundle: of aotc.
    """

    def __init__(self, kind: str, options: argparse.Namespace, bundle: Path) -> None:
        self.kind = kind
        threads = str(options.threads)
        words = ["operator_tables.serve", kind, threads, options.clock, bundle]
        self._process = subprocess.Popen(
            **python(*words, OMP_NUM_THREADS=threads),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def call(self, case: Case, count: int) -> list[float] | None:
        """Return the seconds of `count` calls; None if the system lacks the case."""
        return self._ask(case, count)

    def result(self, case: Case, folder: Path) -> np.ndarray | None:
        """Return the system's result of a case."""
        file = folder / f"{self.kind}.npy"
        file.unlink(missing_ok=True)
        self._ask(case, file)
        return np.load(file) if file.exists() else None

    def _ask(self, case: Case, what: object) -> list[float] | None:
        """Send a command to the child; return its answer."""
        print(case.name, what, sep="\t", file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        if not line:
            sys.exit(f"{self.kind} ended with {self._process.wait()} in {case.name}")
        return json.loads(line)

    def stop(self) -> None:
        """End the child process."""
        self._process.stdin.close()
        self._process.wait()


def require_equal(case: Case, systems: list[System], folder: Path) -> None:
    """Exit unless all systems compute the same result of a case."""
    wanted, *others = (system.result(case, folder) for system in systems)
    for system, found in zip(systems[1:], others, strict=True):
        if found is None:
            continue
        error = np.abs(found.reshape(wanted.shape) - wanted).max()
        if not error <= TOLERANCE * np.abs(wanted).max():
            sys.exit(f"{case.name}: {system.kind} differs from aotc by {error:.1e}")


def measure(
    case: Case, systems: list[System], options: argparse.Namespace
) -> dict[str, list[list[float]]]:
    """Time a case on all systems in turns; return the seconds by system."""
    times, counts = {}, {}
    for system in systems:
        first = system.call(case, 3)
        if first is not None:
            share = options.seconds / options.rounds
            counts[system] = max(1, min(MOST_CALLS, round(share / min(first))))
            times[system.kind] = []
    order = list(counts)
    for number in range(options.rounds):
        first = number % len(order)
        for system in order[first:] + order[:first]:
            times[system.kind].append(system.call(case, counts[system]))
    return times


def row(case: Case, times: dict[str, list[list[float]]], limits: dict) -> dict:
    """Return a case's row of figures; times in ms."""
    calls = {kind: sum(rounds, []) for kind, rounds in times.items()}
    ms = {
        kind: {"median": 1e3 * statistics.median(each), "min": 1e3 * min(each)}
        for kind, each in calls.items()
    }
    peers = [found for kind, found in ms.items() if kind != "aotc"]
    seconds = ms["aotc"]["min"] / 1e3
    least = max(
        case.flops / limits["gflops"] / 1e9, case.bytes / limits["gbytes"] / 1e9
    )
    return {
        "case": case.name,
        "group": group(case),
        "ms": ms,
        **{
            f"ratio_of_{name}s": ms["aotc"][which] / min(each[which] for each in peers)
            for name, which in (("median", "median"), ("minimum", "min"))
        },
        "gflops": case.flops / seconds / 1e9,
        "gbytes": case.bytes / seconds / 1e9,
        "roofline_share": least / seconds,
    }


def group(case: Case) -> str:
    """Return the group under which a case is summarised."""
    if case.groups > 1:
        return "depthwise"
    if case.family == "conv":
        return f"conv {case.weight[0]}×{case.weight[1]}"
    return "gemm of one row" if case.flops and case.shape[0] == 1 else case.family


def groups_table(rows: list[dict]) -> str:
    """Return a Markdown table of geometric means by group of cases."""
    groups: dict[str, list[dict]] = {}
    for each in rows:
        groups.setdefault(each["group"], []).append(each)
    lines = [
        "| group | cases | ratio of medians | of minima | share of the roofline |",
        "| --- | --: | --: | --: | --: |",
    ]
    for name, members in {**groups, "all": rows}.items():
        ratio, minima, share = (
            statistics.geometric_mean(each[figure] for each in members)
            for figure in ("ratio_of_medians", "ratio_of_minimums", "roofline_share")
        )
        lines.append(
            f"| {name} | {len(members)} | {ratio:.2f} | {minima:.2f} | {share:.0%} |"
        )
    return "\n".join(lines)


def table(rows: list[dict], limits: dict) -> str:
    """Return a Markdown table of all rows."""

    def times(found: dict | None) -> str:
        return "" if found is None else f"{found['median']:.3g} / {found['min']:.3g}"

    cells = [
        (
            each["case"],
            *(times(each["ms"].get(kind)) for kind in COLUMNS[1:4]),
            f"{each['ratio_of_medians']:.2f}",
            f"{each['ratio_of_minimums']:.2f}",
            f"{each['gflops']:.0f}" if each["gflops"] else "",
            f"{each['gbytes']:.1f}",
            f"{each['roofline_share']:.0%}",
        )
        for each in rows
    ]
    lines = [COLUMNS, ["---"] + ["--:"] * (len(COLUMNS) - 1), *cells]
    text = "\n".join(f"| {' | '.join(cell)} |" for cell in lines)
    return (
        f"{text}\n\n{groups_table(rows)}\n\nFMA peak {limits['gflops']:.0f} GFLOP/s, "
        f"copy {limits['gbytes']:.1f} GB/s\n"
    )


def parse() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--cases", nargs="+", default=["*"], metavar="PATTERN", help="such as 'gemm_*'")
    add("--list", action="store_true", help="only the names of the cases")
    add("--level", default="x86_64-v4", choices=["x86_64-v4", "x86_64-v3"])
    add("--threads", type=int, default=1)
    add("--rounds", type=int, default=7)
    add("--seconds", type=float, default=1.0, help="of each system and case")
    add("--bundle", type=Path, help="of an earlier run with --keep, with all cases")
    add("--keep", type=Path, metavar="FOLDER", help="build the bundle there")
    add("--output", type=Path, default=Path("operators.json"), metavar="FILE.json",
        help="beside which the table is written, as .md")  # fmt: skip
    add("--clock", choices=["wall", "processor"], default="wall",
        help="processor: for one thread on a machine that others use too")  # fmt: skip
    options = parser.parse_args()
    if options.clock == "processor" and options.threads > 1:
        parser.error("--clock processor needs --threads 1: it is the caller's time")
    return options


def build(cases: list[Case], level: str, folder: Path) -> Path:
    """Build one bundle with an entry per case; return its path."""
    words = ["aotc.cli.main", "build", FOLDER / "operator_tables" / "model.py"]
    words += ["--name", "operators", "--target", level, "--no-sign", "--self-check"]
    words += ["off", "--no-cache", "--force", "-o", folder]
    names = " ".join(case.name for case in cases)
    subprocess.run(
        **python(*words, AOTC_OPERATORS=names), check=True, stdout=subprocess.DEVNULL
    )
    return folder / "operators-1.0.0.aotc"


def main() -> None:
    """Build, compare and time all cases; print and write the tables."""
    options = parse()
    cases = [
        case
        for case in all_cases()
        if any(fnmatch.fnmatch(case.name, pattern) for pattern in options.cases)
    ]
    if options.list:
        print(*(case.name for case in cases), sep="\n")
        return
    if not cases:
        sys.exit("no case has such a name; --list shows them")
    words = ["operator_tables.limits", options.level, options.threads, options.clock]
    limits = json.loads(subprocess.check_output(**python(*words)))
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        kept = options.keep or folder
        bundle = options.bundle or build(cases, options.level, kept)
        systems = []
        for kind in COLUMNS[1:4]:
            systems.append(System(kind, options, bundle))
            stack.callback(systems[-1].stop)
        rows = []
        for case in cases:
            require_equal(case, systems, folder)
            rows.append(row(case, measure(case, systems, options), limits))
            print(json.dumps(rows[-1]), file=sys.stderr)
    facts = {
        "schema": "aotc.operators/1",
        "processor": probe(cpu_only=True)["cpu"],
        "limits": limits,
        **{name: getattr(options, name) for name in ("level", "threads", "clock")},
        "rows": rows,
    }
    options.output.write_text(json.dumps(facts, indent=2) + "\n")
    text = table(rows, limits)
    options.output.with_suffix(".md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
