"""Costs of `aotc.jit`, variants and counters in a call, and at the start of a process.

    pip install -e '.[compiler]' && python benchmarks/just_in_time.py

A function of two small arrays, one thread; medians and minima of alternating calls, in
µs, and of processes with a warm cache, in ms:

- jit: a warm call, against the same code called through the loader, by name;
- selecting: a call of an entry with code for eight sizes, against an entry of that size
  alone, which both run the same code;
- counting: what is done at a call so that counters can be read;
- start: a fresh process up to its first result, from its start to its end.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy

import aotc
import aotc.numpy as np

PROGRAM = """
import numpy, aotc, aotc.numpy as np

@aotc.jit
def f(x, w):
    return np.tanh(x @ w).sum(axis=1)

f(numpy.ones((8, 64), "f4"), numpy.ones((64, 64), "f4"))
"""

MODEL = """
import aotc, aotc.numpy as np

aotc.bundle(name="{name}", version="1.0.0")
size = {size}

@aotc.entry(x=aotc.Spec((size, 16)))
def f(x):
    return np.tanh(x)
"""
SIZES = "aotc.Dim('size', max=64, specialize=(1, 2, 4, 8, 16, 24, 32, 64))"


def timed(call):
    """Return the microseconds of one call."""
    start = time.perf_counter_ns()
    call()
    return (time.perf_counter_ns() - start) / 1000


def compare(one, other, calls):
    """Time two functions in turns; return both lists of times."""
    for _ in range(200):
        one()
        other()
    pairs = [(timed(one), timed(other)) for _ in range(calls)]
    return [list(column) for column in zip(*pairs, strict=True)]


def row(name, added, times):
    """Return a row with medians and minima, and what the first adds to the second."""
    found = {"name": name, "calls": len(times[0])}
    for which in (statistics.median, min):
        ours, theirs = map(which, times)
        found[which.__name__] = {"with": ours, "without": theirs, added: ours - theirs}
    return found


def jit_overhead(calls):
    """Time a jit function against the loader's call of the same code; return the
    row.
    """

    @aotc.jit(threads=1)
    def f(x, w):
        return np.tanh(x @ w).sum(axis=1)

    x, w = numpy.ones((8, 64), "f4"), numpy.ones((64, 64), "f4")
    f(x, w)
    entry = f.variants[0].entry
    return row("jit", "adds", compare(lambda: f(x, w), lambda: entry(x=x, w=w), calls))


def selection(calls, folder):
    """Time a call that selects among eight sizes against a call of the only one."""
    from aotc.pipeline import build

    entries = []
    for name, size in (("several", SIZES), ("one", "8")):
        source = folder / f"{name}.py"
        source.write_text(MODEL.format(name=name, size=size))
        bundle = build(source, output=folder).bundle
        entries.append(aotc.load(bundle, threads=1).entry("f"))
    several, one = entries
    x = numpy.ones((8, 16), "f4")
    return row(
        "selecting", "adds", compare(lambda: several(x=x), lambda: one(x=x), calls)
    )


def counting(calls):
    """Time the counting of a call; return the row."""
    from aotc.runtime.call_counts import ShapeCounts, Tally

    counts = ShapeCounts(Tally(), 100, 10, 10, fetched=False)
    results, times = [numpy.ones(8)], []
    for _ in range(calls):
        start = time.perf_counter_ns()
        for _ in range(100):  # with the two readings of the clock that a call has
            began = time.perf_counter_ns()
            counts.add(time.perf_counter_ns() - began, results)
        times.append((time.perf_counter_ns() - start) / 100_000)
    zeros = [0.0] * len(times)
    return row("counting", "adds", [times, zeros])


def starts(processes, folder):
    """Time processes with a warm cache, and ones that only import NumPy; return the
    row.
    """
    script = folder / "start.py"
    script.write_text(PROGRAM)
    environment = {**os.environ, "AOTC_CACHE": str(folder / "cache")}

    def run(*command):
        subprocess.run([sys.executable, *command], env=environment, check=True)

    def first():
        run(script)

    def numpy_alone():
        run("-c", "import numpy")

    for call in (first, first, numpy_alone):
        call()
    pairs = [(timed(first) / 1000, timed(numpy_alone) / 1000) for _ in range(processes)]
    times = [list(column) for column in zip(*pairs, strict=True)]
    return row("start", "adds", times)


def main():
    """Print the table, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--calls", type=int, default=3000)
    parser.add_argument("--processes", type=int, default=20)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows = [
            jit_overhead(asked.calls),
            selection(asked.calls, folder),
            counting(asked.calls),
            starts(asked.processes, folder),
        ]
    if asked.json:
        print(json.dumps(rows))
        return
    for each in rows:
        unit = "ms" if each["name"] == "start" else "µs"
        for which in ("median", "min"):
            facts = each[which]
            print(
                f"{each['name']:>10}  {which:>6}  {facts['with']:8.2f} {unit}, without "
                f"{facts['without']:8.2f}, adds {facts['adds']:6.2f}"
            )


if __name__ == "__main__":
    main()
