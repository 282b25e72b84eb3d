"""Find the rates with the compiled step, from measurements that are made on the way.

python examples/ode/train.py [--steps 150]
"""

import argparse
import tempfile
from functools import cache
from pathlib import Path

import numpy

import aotc
from aotc.pipeline import build

HERE = Path(__file__).parent
TIMES = numpy.logspace(-4, 3, 36)
RATES = numpy.array([0.04, 3e7, 1e4])
EXPERIMENTS, BATCH, NOISE = 32, 8, 0.01


def main():
    """Build, train and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=150)
    steps = parser.parse_args().steps
    with tempfile.TemporaryDirectory() as folder:
        report = build(HERE / "model.py", output=Path(folder))
        # operations on few numbers: handing them to threads takes longer than they do
        errors = train(aotc.load(report.bundle, threads=1), steps)
    print("rates are off by", ", ".join(f"{error:.2%}" for error in errors))


def batch(seed):
    """Some of the experiments: where they start, and what was measured."""
    chosen = numpy.random.default_rng(seed).permutation(EXPERIMENTS)[:BATCH]
    starts, observed = experiments()
    return {"starts": starts[chosen], "observed": observed[chosen]}


@cache
def experiments():
    """Mixtures of A and C, and their concentrations at the TIMES, with noise."""
    rng = numpy.random.default_rng(0)
    share = rng.uniform(0.3, 1, EXPERIMENTS)
    starts = numpy.stack([share, 0 * share, 1 - share], axis=-1)
    y, observed = starts, []
    for before, after in zip([0, *TIMES], TIMES, strict=False):
        for _ in range(20):  # by steps far smaller than the model's
            y = midpoint(y, (after - before) / 20)
        observed.append(y)
    noise = rng.normal(1, NOISE, (len(TIMES), EXPERIMENTS, 3))
    return starts, (observed * noise).swapaxes(0, 1)


def midpoint(y, step):
    """One step of the implicit midpoint rule from the concentrations [count, 3]."""
    x = y
    for _ in range(8):  # Newton's
        change, slope = reaction((x + y) / 2)
        matrix = numpy.eye(3) - step / 2 * slope
        error = x - y - step * change
        x = x - numpy.linalg.solve(matrix, error[..., None])[..., 0]
    return x


def reaction(y):
    """The change of the concentrations [count, 3] in time, and its derivative."""
    (a, b, c), (k, m, n) = y.T, RATES
    first, second, third = k * a, m * b * b, n * b * c
    change = numpy.stack([third - first, first - second - third, second], -1)
    zero = 0 * a
    by_a = [zero - k, zero + k, zero]
    by_b = [n * c, -n * c - 2 * m * b, 2 * m * b]
    by_c = [n * b, -n * b, zero]
    return change, numpy.stack([by_a, by_b, by_c]).transpose(2, 1, 0)


def train(model, steps=150):
    """Train; returns by how much each of the rates is off, relative."""
    for seed in range(steps):
        model.train_step(**batch(seed))
    return numpy.abs(model.rates() / RATES - 1)


if __name__ == "__main__":
    main()
