"""Train the BERT with its compiled step, and let it fill in a line.

python examples/bert/train.py [--steps 600]
"""

import argparse
import tempfile
from pathlib import Path

import numpy

import aotc
from aotc.pipeline import build

HERE = Path(__file__).parent
LENGTH, BATCH = 32, 32
PAD, MASK, NOT_ASKED = 0, 1, -1  # as in model.py
TEXT = numpy.frombuffer((HERE.parent / "gpt" / "text.txt").read_bytes(), "u1")


def main():
    """Build, train and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=600)
    steps = parser.parse_args().steps
    with tempfile.TemporaryDirectory() as folder:
        report = build(HERE / "model.py", output=Path(folder))
        model = aotc.load(report.bundle)
        print(f"accuracy {train(model, steps):.1%}")
        print(filled(model, "We h_ld these tru_hs to be s_lf-"))


def batch(seed, count=BATCH):
    """Pieces of the text, of several lengths, and 15 % of the characters as targets.

    Of these, 8 of 10 are masked, one is another character and one stays: the paper's.
    """
    rng = numpy.random.default_rng(seed)
    places = rng.integers(0, len(TEXT) - LENGTH, count)
    pieces = TEXT[places[:, None] + numpy.arange(LENGTH)].astype("int32")
    there = numpy.arange(LENGTH) < rng.integers(LENGTH // 2, LENGTH + 1, (count, 1))
    asked = there & (rng.random(pieces.shape) < 0.15)
    chance = rng.random(pieces.shape)
    tokens = numpy.where(asked & (chance < 0.8), MASK, pieces)
    others = rng.choice(TEXT, pieces.shape)
    tokens = numpy.where(asked & (chance > 0.9), others, tokens)
    return {
        "tokens": numpy.where(there, tokens, PAD).astype("int32"),
        "targets": numpy.where(asked, pieces, NOT_ASKED).astype("int32"),
    }


def train(model, steps=600):
    """Train; returns the share of right characters among those asked in new masks."""
    for seed in range(steps):
        model.train_step(**batch(seed + 1))
    tokens, targets = batch(0, 200).values()
    asked = targets != NOT_ASKED
    found = model.predict(tokens=tokens).argmax(axis=-1)
    return float((found == targets)[asked].mean())


def filled(model, line):
    """The line, with a likely character at each _."""
    tokens = numpy.full((1, LENGTH), PAD, "int32")
    tokens[0, : len(line)] = [*line.replace("_", chr(MASK)).encode()]
    found = model.predict(tokens=tokens).argmax(axis=-1)
    return "".join(
        chr(guess) if character == "_" else character
        for guess, character in zip(found[0], line, strict=False)
    )


if __name__ == "__main__":
    main()
