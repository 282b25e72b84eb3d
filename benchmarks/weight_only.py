"""Time products by weights of 8 and 4 bits: what they read, and what they compute.

    python benchmarks/weight_only.py [--target x86_64-v4-dot] [--calls 30] [--only q6_k]

A weight of 16384 features by 4096 terms in each format of `weight_only_layer.py`,
multiplied by one row (as a step of a decoder does: GB/s of integers and scales) and by
128 (G op/s). Processor time of one thread, the least of some calls, so that a busy
machine disturbs it little. The last column is the largest difference from NumPy in f64,
relative to the largest value.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import aotc
from aotc import reference
from aotc.importers import load
from aotc.machine.target import Target
from aotc.pipeline import build

MODEL = Path(__file__).parent / "weight_only_layer.py"


def main() -> None:
    """Print a row for each format and number of rows."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--target", default="x86_64-v4-dot")
    parser.add_argument("--calls", type=int, default=30)
    parser.add_argument("--numerics", default="strict")
    parser.add_argument("--only", default="", help="what names of products contain")
    asked = parser.parse_args()
    names = [each.name for each in load(MODEL).entries if asked.only in each.name]
    program = load(MODEL, names)
    with tempfile.TemporaryDirectory() as folder:
        report = build(
            MODEL,
            entries=names,
            output=Path(folder),
            targets=[Target.parse(asked.target)],
            self_check="off",
            sign=False,
            numerics=asked.numerics,
        )
        bundle = aotc.load(report.bundle, allow_unsigned=True, threads=1)
        print("| product | ms | GB/s | G op/s | differs by |\n|---|--:|--:|--:|--:|")
        for entry in program.entries:
            _print_row(program, entry, getattr(bundle, entry.name), asked.calls)


def _print_row(program: Any, entry: Any, call: Any, calls: int) -> None:
    """Time calls of an entry and print its row."""
    (port,) = entry.ports("input")
    x = np.random.default_rng(1).standard_normal(port.type.shape).astype("f4")
    found, times = np.asarray(call(x=x)), []
    for _ in range(calls):
        start = time.process_time()
        call(x=x)
        times.append(time.process_time() - start)
    part = f".{entry.name.rpartition('_')[0]}."
    read = [port.name for port in entry.arguments if part in port.name]
    arrays = [program.parameters[name] for name in read]
    q = max(arrays, key=np.size)
    bits = int(entry.name.removeprefix("int")[0])
    stored = sum(a.nbytes for a in arrays) - q.nbytes + q.size * bits // 8
    least = min(times)
    rate, operations = stored / least / 1e9, 2 * x.shape[0] * q.size / least / 1e9
    given = [
        x if p.kind == "input" else program.parameters[p.name] for p in entry.arguments
    ]
    (wanted,) = reference.evaluate(program.module, entry.name, given)
    error = abs(found - wanted).max() / abs(wanted).max()
    print(
        f"| {entry.name} | {1e3 * least:.2f} | {rate:.1f} | {operations:.0f} "
        f"| {error:.1e} |",
        flush=True,
    )


if __name__ == "__main__":
    main()
