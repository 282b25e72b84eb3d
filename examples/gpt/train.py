"""Train the GPT with its compiled step, and let it continue a line.

python examples/gpt/train.py [--steps 400]
"""

import argparse
import tempfile
from pathlib import Path

import numpy

import aotc
from aotc.pipeline import build

HERE = Path(__file__).parent
LENGTH, BATCH = 64, 16
TEXT = numpy.frombuffer((HERE / "text.txt").read_bytes(), "u1").astype("int32")


def main():
    """Build, train and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=400)
    steps = parser.parse_args().steps
    with tempfile.TemporaryDirectory() as folder:
        report = build(HERE / "model.py", output=Path(folder))
        model = aotc.load(report.bundle)
        print(f"loss {train(model, steps):.3f} nats per character")
        print(continued(model, "We hold these "))


def batch(seed):
    """Pieces of the text from random places, and the same one character later."""
    places = numpy.random.default_rng(seed).integers(0, len(TEXT) - LENGTH, BATCH)
    pieces = TEXT[places[:, None] + numpy.arange(LENGTH + 1)]
    return {"tokens": pieces[:, :-1], "targets": pieces[:, 1:]}


def train(model, steps=400):
    """Train; returns the loss of the last steps on average."""
    losses = [model.train_step(**batch(seed)) for seed in range(steps)]
    return float(numpy.mean(losses[-20:]))


def continued(model, start, count=200):
    """A start of up to LENGTH characters, and the likeliest ones after it."""
    text = [*start.encode()]
    for _ in range(count):
        seen = text[-LENGTH:]
        tokens = numpy.zeros((1, LENGTH), "int32")
        tokens[0, : len(seen)] = seen  # what comes later is not looked at
        text.append(int(model.predict(tokens=tokens)[0, len(seen) - 1].argmax()))
    return bytes(text).decode()


if __name__ == "__main__":
    main()
