"""Train the LSTM with its compiled step, on sequences that are made on the way.

python examples/lstm/train.py [--steps 500]
"""

import argparse
import tempfile
from pathlib import Path

import numpy

import aotc
from aotc.pipeline import build

HERE = Path(__file__).parent
LENGTH, BATCH = 24, 32


def main():
    """Build, train and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=500)
    steps = parser.parse_args().steps
    with tempfile.TemporaryDirectory() as folder:
        report = build(HERE / "model.py", output=Path(folder))
        print(f"error {train(aotc.load(report.bundle), steps):.4f}")


def batch(seed, count=BATCH):
    """Sequences of numbers in [0, 1) and marks at two of them, and the marked sums."""
    rng = numpy.random.default_rng(seed)
    numbers = rng.random((count, LENGTH), "float32")
    places = rng.random((count, LENGTH)).argsort(axis=1)
    marks = (places < 2).astype("float32")
    sequences = numpy.stack([numbers, marks], axis=-1)
    return {"sequences": sequences, "sums": (numbers * marks).sum(axis=1)}


def train(model, steps=500):
    """Train; returns the mean squared error on new sequences (at first 0.17)."""
    for seed in range(steps):
        model.train_step(**batch(seed + 1))
    new = batch(0, 1000)
    return float(
        ((model.predict(sequences=new["sequences"]) - new["sums"]) ** 2).mean()
    )


if __name__ == "__main__":
    main()
