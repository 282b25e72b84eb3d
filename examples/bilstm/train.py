"""Train the network with its compiled step, on sequences that are made on the way.

python examples/bilstm/train.py [--steps 200]
"""

import argparse
import tempfile
from pathlib import Path

import numpy

import aotc
from aotc.pipeline import build

HERE = Path(__file__).parent
LENGTH, BATCH, LETTERS = 24, 32, 5


def main():
    """Build, train and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=200)
    steps = parser.parse_args().steps
    with tempfile.TemporaryDirectory() as folder:
        report = build(HERE / "model.py", output=Path(folder))
        print(f"accuracy {train(aotc.load(report.bundle), steps):.1%}")


def batch(seed, count=BATCH):
    """Letters from 1 on with blanks (0) between them, and the tag of each position."""
    rng = numpy.random.default_rng(seed)
    letters = rng.integers(1, LETTERS + 1, (count, LENGTH), "int32")
    letters *= rng.random((count, LENGTH)) < 0.4
    after = last_before(letters[:, ::-1])[:, ::-1]
    tags = 1 + numpy.sign(last_before(letters) - after)
    return {"letters": letters, "tags": tags}


def last_before(letters):
    """The last letter before each position; 0 where there is none."""
    found = numpy.zeros_like(letters)
    for i in range(1, LENGTH):
        here = letters[:, i - 1]
        found[:, i] = numpy.where(here > 0, here, found[:, i - 1])
    return found


def train(model, steps=200):
    """Train; returns the share of right tags in new sequences."""
    for seed in range(steps):
        model.train_step(**batch(seed + 1))
    letters, tags = batch(0, 1000).values()
    return float((model.predict(letters=letters).argmax(axis=-1) == tags).mean())


if __name__ == "__main__":
    main()
