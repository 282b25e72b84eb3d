"""Time attention of one query by a cache of 8192 positions, by what the cache holds.

    python benchmarks/cache_dtypes.py [--target x86_64-v4-dot] [--calls 30]

Sixteen heads of 64 elements, of `cache_dtypes_layer.py`. Processor time of one thread,
the least of some calls, which are made in turns, so that a busy machine disturbs it
little; the bytes of keys and values that it reads a second; and the largest difference
from the cache of f32, relative to the largest value.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np

import aotc
from aotc.core.dtypes import to_numpy
from aotc.importers import load
from aotc.machine.target import Target
from aotc.pipeline import build

MODEL = Path(__file__).parent / "cache_dtypes_layer.py"


def main() -> None:
    """Print a row for each dtype."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--target", default="x86_64-v4-dot")
    parser.add_argument("--calls", type=int, default=30)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        report = build(
            MODEL,
            output=Path(folder),
            targets=[Target.parse(asked.target)],
            self_check="off",
            sign=False,
        )
        bundle = aotc.load(report.bundle, allow_unsigned=True, threads=1)
        _print_rows(bundle, asked.calls)


def _print_rows(bundle: aotc.Model, calls: int) -> None:
    """Time calls of each entry, and print a row for each dtype of the cache."""
    program, inputs = load(MODEL), {}
    for entry in program.entries:
        ports = {port.name: port.type for port in entry.ports("input")}
        q = np.random.default_rng(1).standard_normal(ports["q"].shape)
        inputs[entry.name] = {
            "q": q.astype(to_numpy(ports["q"].dtype)),
            "position": np.array(8191, "i4"),  # all of them are seen
        }
    times: dict[str, list[float]] = {name: [] for name in inputs}
    found = {}
    for _ in range(calls):
        for name, given in inputs.items():
            start = time.process_time()
            found[name] = bundle.entries[name](**given)
            times[name].append(time.process_time() - start)
    exact = np.asarray(found["f32"], "f4")
    print("| cache | ms | GB/s | by f32 | differs by |\n|---|--:|--:|--:|--:|")
    for entry in program.entries:
        held = [port.name for port in entry.arguments if port.kind != "input"]
        read = sum(program.parameters[name].nbytes for name in held)
        least = min(times[entry.name])
        error = abs(np.asarray(found[entry.name], "f4") - exact).max()
        print(
            f"| {entry.name} | {1e3 * least:.2f} | {read / least / 1e9:.1f} "
            f"| {min(times['f32']) / least:.2f} | {error / abs(exact).max():.1e} |"
        )


if __name__ == "__main__":
    main()
