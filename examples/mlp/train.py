"""Train both models with their compiled steps, on the data of examples/digits.

python examples/mlp/train.py [--steps 400]
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
        model = aotc.load(report.bundle)
        for name in ("logistic", "mlp"):
            print(f"{name:8}  test accuracy {train(model, name, steps):.1%}")


def batch(seed):
    """Images as rows of 64 pixels from 0 to 1, and their digits."""
    chosen = numpy.random.default_rng(seed).permutation(len(DATA["train_x"]))[:BATCH]
    labels = DATA["train_y"][chosen].astype("int32")
    return {"x": scaled(DATA["train_x"][chosen]), "labels": labels}


def scaled(images):
    """Images as rows of pixels from 0 to 1."""
    return images.reshape(len(images), -1).astype("float32") / 16


def train(model, name, steps=400):
    """Train the model of a name; returns its accuracy on the test images."""
    for seed in range(steps):
        model.entry(f"train_{name}")(**batch(seed))
    test_x, test_y = (
        numpy.load(DIGITS / "test_x.npy"),
        numpy.load(DIGITS / "test_y.npy"),
    )
    probabilities = model.entry(f"predict_{name}")(x=scaled(test_x))
    return float((probabilities.argmax(axis=1) == test_y).mean())


if __name__ == "__main__":
    main()
