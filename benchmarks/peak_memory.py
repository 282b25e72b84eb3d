"""Memory and time of the GPT training step under budgets of memory.

    pip install -e '.[compiler]' && python benchmarks/peak_memory.py 71MB 66MB

The example with 4 layers of width 256, 128 characters and 8 sequences, with and without
`aotc.checkpoint` around each block. One row per build: the planned peak, what the
device's allocator measured, how many values are computed again, median and minimum of
the step time, and their ratios to those of the build without a budget. Steps of all
builds alternate.
"""

import argparse
import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import aotc
from aotc.cli.verb import MemorySize
from aotc.pipeline import build

SOURCE = Path(__file__).parent.parent / "examples" / "gpt" / "model.py"
SIZES = {"LAYERS": 4, "WIDTH": 256, "HEADS": 8, "LENGTH": 128, "BATCH": 8}
MEASURE = """
import sys, numpy, aotc
from aotc.runtime import engine

model = aotc.load(sys.argv[1], threads=2, allow_unsigned=True)
tokens = numpy.zeros((8, 128), "i4")
for _ in range(3):
    model.train_step(tokens=tokens, targets=tokens)
print(engine.device("llvm-cpu", 2).allocator.statistics["device_bytes_peak"])
"""


def main():
    """Build models with and without checkpoints and budgets; print memory and times."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("budgets", nargs="*", default=["71MB", "66MB"])
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    budgets = [MemorySize().convert(text, None, None) for text in options.budgets]
    cases = [(remat, budget) for remat in (False, True) for budget in (None, *budgets)]
    with tempfile.TemporaryDirectory() as folder:
        built = [made(Path(folder) / str(n), *case) for n, case in enumerate(cases)]
        times = alternate([r.bundle for r in built], options.rounds, options.threads)
        for case, report, t in zip(cases, built, times, strict=True):
            print(json.dumps(row(case, report, t, times[0])))


def made(folder, remat, budget):
    """Write and build the model of one case; return the build report."""
    folder.mkdir()
    text = SOURCE.read_text()
    for constant, value in SIZES.items():
        text = re.sub(rf"(?m)^{constant} = .*$", f"{constant} = {value}", text)
    if remat:
        text = text.replace("x = block(p, x)", "x = aotc.checkpoint(block)(p, x)")
    (folder / "model.py").write_text(text)
    return build(
        folder / "model.py",
        output=folder,
        entries=("train_step",),
        peak_memory=budget,
        sign=False,
    )


def alternate(bundles, rounds, threads):
    """Time steps of all bundles in turns; return the seconds of each."""
    models = [aotc.load(b, threads=threads, allow_unsigned=True) for b in bundles]
    tokens = np.random.default_rng(0).integers(0, 128, (8, 129), "i4")
    batch = {"tokens": tokens[:, :-1], "targets": tokens[:, 1:]}
    times = [[] for _ in models]
    for _ in range(rounds):
        for model, t in zip(models, times, strict=True):
            start = time.perf_counter()
            model.train_step(**batch)
            model.read_state("state")  # the step has ended when its states are written
            t.append(time.perf_counter() - start)
    return [t[2:] for t in times]


def row(case, report, t, first):
    """Return the memory and times of one case."""
    remat, budget = case
    printed = subprocess.check_output(
        [sys.executable, "-c", MEASURE, str(report.bundle)]
    )
    return {
        "checkpoints": remat,
        "budget": budget,
        "planned": report.variants[0].memory["train_step"].peak_bytes,
        "measured": int(printed),
        "again": sum(fit.recomputed for fit in report.fits),
        "median_ms": statistics.median(t) * 1e3,
        "min_ms": min(t) * 1e3,
        "median_ratio": statistics.median(t) / statistics.median(first),
        "min_ratio": min(t) / min(first),
    }


if __name__ == "__main__":
    main()
