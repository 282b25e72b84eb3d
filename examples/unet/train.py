"""Train the U-Net with its compiled step, on images that are made on the way.

python examples/unet/train.py [--steps 600]
"""

import argparse
import tempfile
from pathlib import Path

import numpy

import aotc
from aotc.pipeline import build

HERE = Path(__file__).parent
SIZE, BATCH = 32, 8
CLASSES = BACKGROUND, DISC, RECTANGLE = range(3)


def main():
    """Build, train and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=600)
    steps = parser.parse_args().steps
    with tempfile.TemporaryDirectory() as folder:
        report = build(HERE / "model.py", output=Path(folder))
        print(f"mean IoU {train(aotc.load(report.bundle), steps):.3f}")


def batch(seed, count=BATCH):
    """Noisy images of a disc and a rectangle of one brightness, and the classes."""
    rng = numpy.random.default_rng(seed)
    classes = numpy.stack([picture(rng) for _ in range(count)])
    noise = rng.normal(0, 0.2, classes.shape)
    images = ((classes != BACKGROUND) + noise).astype("float32")
    return {"images": images[..., None], "classes": classes}


def picture(rng):
    """The class of each pixel; one of the shapes may cover the other."""
    classes = numpy.full((SIZE, SIZE), BACKGROUND, "int32")
    rows, columns = numpy.indices(classes.shape)
    for shape in rng.permutation([DISC, RECTANGLE]):
        (y, x), (height, width) = rng.uniform(4, 28, 2), rng.uniform(4, 8, 2)
        dy, dx = abs(rows - y), abs(columns - x)
        disc, rectangle = dy**2 + dx**2 < height**2, (dy < height) & (dx < width)
        classes[disc if shape == DISC else rectangle] = shape
    return classes


def train(model, steps=600):
    """Train; returns the intersection over union on new images, mean over classes."""
    for seed in range(steps):
        model.train_step(**batch(seed + 1))
    new = batch(0, 200)
    found, true = model.predict(images=new["images"]), new["classes"]
    return float(numpy.mean([overlap(found == c, true == c) for c in CLASSES]))


def overlap(a, b):
    """Intersection over union of two sets of pixels."""
    return (a & b).sum() / (a | b).sum()


if __name__ == "__main__":
    main()
