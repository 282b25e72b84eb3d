"""Train the digits model with its compiled training step, and store the weights.

    python examples/digits/train.py [--epochs 20]

Nothing is computed in Python: the step is built once, then fed with batches. What it
writes, `digits.safetensors`, is what `aotc build examples/digits/model.py` packs.
"""

import argparse
import tempfile
from pathlib import Path

import numpy
from safetensors.numpy import save_file

import aotc
from aotc.core.pytree import flatten, leaf_names
from aotc.pipeline import build

HERE = Path(__file__).parent
BATCH = 64


def main():
    """Build the training entries, train, and write the weights."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=20)
    epochs = parser.parse_args().epochs
    data = numpy.load(HERE / "digits.npz")
    images, labels = data["train_x"].astype("float32"), data["train_y"].astype("int32")
    test_x, test_y = numpy.load(HERE / "test_x.npy"), numpy.load(HERE / "test_y.npy")
    with tempfile.TemporaryDirectory() as folder:
        entries = ("train_step", "evaluate")
        report = build(HERE / "model.py", entries=entries, output=Path(folder))
        model = aotc.load(report.bundle)
        for epoch in range(epochs):
            loss = train_epoch(model, images, labels, seed=epoch)
            accuracy = (model.evaluate(images=test_x) == test_y).mean()
            print(f"epoch {epoch + 1:2}  loss {loss:.4f}  test accuracy {accuracy:.1%}")
        params = model.read_state("state")["params"]
    leaves, tree = flatten(params)
    named = dict(zip(leaf_names(tree), leaves, strict=True))
    save_file(named, HERE / "digits.safetensors")
    print(f"wrote {HERE / 'digits.safetensors'}")


def train_epoch(model, images, labels, seed):
    """One pass over the data in random order; returns the mean loss."""
    order = numpy.random.default_rng(seed).permutation(len(images))
    batches = [order[i : i + BATCH] for i in range(0, len(order) - BATCH + 1, BATCH)]
    losses = [model.train_step(images=images[b], labels=labels[b]) for b in batches]
    return numpy.mean(losses)


if __name__ == "__main__":
    main()
