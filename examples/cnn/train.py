"""Train the network with its compiled step, on the data of examples/digits.

python examples/cnn/train.py [--steps 400]
"""

import argparse
import tempfile
from pathlib import Path

import numpy

import aotc
from aotc.pipeline import build

HERE = Path(__file__).parent
DIGITS = HERE.parent / "digits"
BATCH = 64
DATA = dict(numpy.load(DIGITS / "digits.npz"))


def main():
    """Build, train and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=400)
    steps = parser.parse_args().steps
    with tempfile.TemporaryDirectory() as folder:
        report = build(HERE / "model.py", output=Path(folder))
        print(f"test accuracy {train(aotc.load(report.bundle), steps):.1%}")


def batch(seed):
    """Images with pixels from 0 to 1 and some noise, and their digits."""
    rng = numpy.random.default_rng(seed)
    chosen = rng.permutation(len(DATA["train_x"]))[:BATCH]
    images = DATA["train_x"][chosen] / 16
    images = (images + rng.normal(0, 0.1, images.shape)).astype("float32")
    return {"images": images, "labels": DATA["train_y"][chosen].astype("int32")}


def train(model, steps=400):
    """Train; returns the accuracy on the test images."""
    for seed in range(steps):
        model.train_step(**batch(seed))
    test_x, test_y = (
        numpy.load(DIGITS / "test_x.npy"),
        numpy.load(DIGITS / "test_y.npy"),
    )
    return float((model.predict(images=test_x / 16).argmax(axis=1) == test_y).mean())


if __name__ == "__main__":
    main()
