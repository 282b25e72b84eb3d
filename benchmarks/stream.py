"""Items a second through `aotc.stream`, beside calls one by one.

    pip install -e '.[compiler]' && python benchmarks/stream.py

Two models: `predict` of the digits example, an image an item, where a call takes some
20 µs; and sums over 16 images of 1024 by 1024 numbers, where the copy of the inputs
takes long, too. One thread computes. The ways take turns; one row a model, with the
median of items a second for each way.
"""

import argparse
import json
import statistics
import tempfile
import time
from collections import deque
from pathlib import Path

import numpy as np

DIGITS = Path(__file__).parent.parent / "examples" / "digits"
LARGE = """
import aotc
import aotc.numpy as np


@aotc.entry(x=aotc.Spec((16, 1024, 1024)))
def total(x):
    return np.sum(np.tanh(np.sin(x) * np.exp(-x * x)), axis=(1, 2))
"""


def build(source):
    """Build a model for this machine and load it."""
    import aotc
    from aotc.pipeline import build

    folder = Path(tempfile.mkdtemp())
    report = build(source, output=folder)
    return aotc.load(report.bundle, threads=1)


def digits():
    """Return an entry, and items for it: single images."""
    images = np.load(DIGITS / "test_x.npy")
    items = [images[i : i + 1] for i in range(len(images))]
    return build(DIGITS / "model.py").predict, items * 10


def large():
    """Return an entry that takes 64 MiB, and items for it."""
    source = Path(tempfile.mkdtemp()) / "model.py"
    source.write_text(LARGE)
    x = np.random.default_rng(0).random((16, 1024, 1024), "f4")
    return build(source).total, [x] * 8


def ways(entry, items, batched):
    """Return, by name, functions that compute all items: by calls, streams and
    batches.
    """
    import aotc

    def streamed(**more):
        deque(aotc.stream(entry, items, **more), maxlen=0)

    def in_batches(rows):
        streamed(depth=2 * rows, latency=0.001, max_rows=rows)

    found = {"calls": lambda: [entry(x=x) for x in items], "stream": streamed}
    if batched:
        found |= {f"batches_of_{n}": lambda n=n: in_batches(n) for n in (8, 64)}
    return found


def measure(entry, items, batched, rounds):
    """Return items per second of each way: medians of rounds in turns."""
    seconds = {}
    for _ in range(rounds):
        for name, way in ways(entry, items, batched).items():
            start = time.perf_counter()
            way()
            seconds.setdefault(name, []).append(time.perf_counter() - start)
    rates = {n: len(items) / statistics.median(each) for n, each in seconds.items()}
    return {name: float(f"{rate:.3g}") for name, rate in rates.items()}


def main():
    """Print a row for each model."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    rounds = parser.parse_args().rounds
    for model, batched in ((digits, True), (large, False)):
        row = measure(*model(), batched, rounds)
        print(json.dumps({"model": model.__name__, **row}))


if __name__ == "__main__":
    main()
