"""One call of an entry compiled for two levels of the processor, in turn.

    python benchmarks/cpu_level_time.py [EXAMPLE:ENTRY:BATCH …] [--levels A B]
                                        [--rounds N]

Both variants are of one bundle and loaded in one process; after each call the other is
called. They compute in the calling thread, and what is measured is processor time, so
that other work on the machine counts for less. One row an entry: medians and minima in
ms, and their ratios, of which one above 1 says that the second level is faster.
"""

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np

from aotc import load
from aotc.machine.target import Target
from aotc.pipeline import build

EXAMPLES = Path(__file__).parent.parent / "examples"
CALLS = (
    *("digits:predict:1024", "vit:predict:64", "resnet:predict:64"),
    *("bert:predict:64", "cnn:predict:256", "unet:predict:64"),
)


def bundle_of(example, entry, levels, folder):
    """Build a bundle of one entry of an example for these CPU levels; return its
    path.
    """
    report = build(
        EXAMPLES / example / "model.py",
        entries=(entry,),
        targets=[Target.parse(level) for level in levels],
        output=folder,
        sign=False,
    )
    return report.bundle


def arrays(entry, batch):
    """Draw inputs, with each symbolic size set to `batch`; integers are 0 or 1."""
    random = np.random.default_rng(0)
    for leaf in entry.inputs:
        shape = [size if isinstance(size, int) else batch for size in leaf.shape]
        drawn = random.random(shape)
        yield (drawn if leaf.dtype.startswith("f") else drawn < 0.5).astype(
            {"f32": np.float32, "i32": np.int32}[leaf.dtype]
        )


def measure(call, levels, rounds):
    """Time a call at both CPU levels in turns; return medians and minima."""
    example, entry, batch = call.split(":")
    calls = {}
    with tempfile.TemporaryDirectory() as folder:
        bundle = bundle_of(example, entry, levels, Path(folder))
        for level in levels:
            model = load(bundle, allow_unsigned=True, target=level, threads=1)
            calls[level] = model.entry(entry).call_flat
        inputs = list(arrays(model.manifest.entry_points[entry], int(batch)))
        times = {level: [] for level in levels}
        for number in range(rounds + 1):
            for level, run in calls.items():
                start = time.process_time()
                results = [np.asarray(leaf).copy() for leaf in run(inputs)]
                assert results
                if number:  # the first call has more to do
                    times[level].append((time.process_time() - start) * 1e3)
    row = {"call": call}
    for level in levels:
        row[level] = [statistics.median(times[level]), min(times[level])]
    first, second = (row[level] for level in levels)
    row["ratios"] = [a / b for a, b in zip(first, second, strict=True)]
    return row


def main():
    """Print a row of times for each call."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("calls", nargs="*", default=CALLS)
    parser.add_argument("--levels", nargs=2, default=["x86_64-v3", "x86_64-v4"])
    parser.add_argument("--rounds", type=int, default=200)
    options = parser.parse_args()
    for call in options.calls:
        row = measure(call, options.levels, options.rounds)
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
