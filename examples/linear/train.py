"""Fit the linear model with its compiled step, to data that is made on the way.

python examples/linear/train.py [--steps 200]
"""

import argparse
import tempfile
from pathlib import Path

import numpy

import aotc
from aotc.pipeline import build

HERE = Path(__file__).parent
FEATURES, ROWS = 8, 256
COEFFICIENTS = numpy.linspace(-2, 2, FEATURES)
BIAS, NOISE = 0.5, 0.1


def main():
    """Build, train and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=200)
    steps = parser.parse_args().steps
    with tempfile.TemporaryDirectory() as folder:
        report = build(HERE / "model.py", output=Path(folder))
        distance = train(aotc.load(report.bundle), steps)
        print(f"{distance:.1e} from the coefficients of least squares")


def batch(seed):
    """Random rows, and for each its number by the coefficients, with some noise."""
    rng = numpy.random.default_rng(seed)
    x = rng.normal(size=(ROWS, FEATURES))
    y = x @ COEFFICIENTS + BIAS + rng.normal(0, NOISE, ROWS)
    return {"x": x.astype("float32"), "y": y.astype("float32")}


def train(model, steps=200):
    """Fit one batch; returns how far the farthest coefficient is from the best."""
    table = batch(0)
    for _ in range(steps):
        model.train_step(**table)
    rows = numpy.column_stack([table["x"], numpy.ones(ROWS)]).astype("float64")
    best = numpy.linalg.lstsq(rows, table["y"])[0]
    params = model.read_state("state")["params"]
    found = numpy.append(params["kernel"], params["bias"])
    return float(abs(found - best).max())


if __name__ == "__main__":
    main()
