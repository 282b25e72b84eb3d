"""Train the experts with the compiled step, on the text of examples/gpt.

python examples/moe/train.py [--steps 350]
"""

import argparse
import tempfile
from pathlib import Path

import numpy

import aotc
from aotc.pipeline import build

HERE = Path(__file__).parent
LENGTH, BATCH = 64, 16
TEXT = numpy.frombuffer((HERE.parent / "gpt" / "text.txt").read_bytes(), "u1")


def main():
    """Build, train and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=350)
    steps = parser.parse_args().steps
    with tempfile.TemporaryDirectory() as folder:
        report = build(HERE / "model.py", output=Path(folder))
        figures = train(aotc.load(report.bundle), steps)
    for name, figure in figures.items():
        print(name, numpy.round(figure, 3).tolist())


def batch(seed):
    """Pieces of the text from random places, and the same one character later."""
    places = numpy.random.default_rng(seed).integers(0, len(TEXT) - LENGTH, BATCH)
    pieces = TEXT[places[:, None] + numpy.arange(LENGTH + 1)].astype("int32")
    return {"tokens": pieces[:, :-1], "targets": pieces[:, 1:]}


def train(model, steps=350):
    """Train; returns means over new pieces: loss, and what goes to which expert."""
    for seed in range(steps):
        model.train_step(**batch(seed))
    figures = [model.evaluate(**batch(steps + seed)) for seed in range(20)]
    return {
        name: numpy.mean([each[name] for each in figures], axis=0)
        for name in figures[0]
    }


if __name__ == "__main__":
    main()
