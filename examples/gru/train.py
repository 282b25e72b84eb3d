"""Train the network with its compiled step, on waves that are made on the way.

python examples/gru/train.py [--steps 400]
"""

import argparse
import tempfile
from pathlib import Path

import numpy

import aotc
from aotc.pipeline import build

HERE = Path(__file__).parent
LENGTH, BATCH, WAVES = 40, 32, 2


def main():
    """Build, train and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=400)
    steps = parser.parse_args().steps
    with tempfile.TemporaryDirectory() as folder:
        report = build(HERE / "model.py", output=Path(folder))
        print(f"error {train(aotc.load(report.bundle), steps):.4f}")
    values, targets = batch(0, 1000).values()
    print(f"of repeating the last value {((values - targets) ** 2).mean():.4f}")


def batch(seed, count=BATCH):
    """Sums of sines of random frequencies and phases, and the same one step later."""
    rng = numpy.random.default_rng(seed)
    rates = rng.uniform(0.2, 1.2, (count, WAVES, 1))
    phases = rng.uniform(0, 2 * numpy.pi, (count, WAVES, 1))
    waves = numpy.sin(rates * numpy.arange(LENGTH + 1) + phases)
    values = waves.mean(axis=1).astype("float32")
    return {"values": values[:, :-1], "targets": values[:, 1:]}


def train(model, steps=400):
    """Train; returns the mean squared error on new sequences."""
    for seed in range(steps):
        model.train_step(**batch(seed + 1))
    values, targets = batch(0, 1000).values()
    return float(((model.predict(values=values) - targets) ** 2).mean())


if __name__ == "__main__":
    main()
