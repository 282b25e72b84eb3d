"""Train the denoiser with its compiled step, on the data of examples/digits.

python examples/dit/train.py [--steps 800]
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
    """Build, train and print one sample of each digit."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=800)
    steps = parser.parse_args().steps
    with tempfile.TemporaryDirectory() as folder:
        report = build(HERE / "model.py", output=Path(folder))
        model = aotc.load(report.bundle)
        print(f"loss {train(model, steps):.3f}")
        images = sample(model, numpy.arange(10, dtype="int32"))
        for row in numpy.concatenate((images + 1) * 4.5, axis=1):
            print("".join(" .:-=+*#%@"[round(shade)] for shade in row.tolist()))


def batch(seed):
    """Images with pixels from -1 to 1, and their digits."""
    chosen = numpy.random.default_rng(seed).permutation(len(DATA["train_x"]))[:BATCH]
    labels = DATA["train_y"][chosen].astype("int32")
    return {"images": scaled(DATA["train_x"][chosen]), "labels": labels}


def scaled(images):
    """Pixels from -1 to 1."""
    return (images / 8 - 1).astype("float32")


def train(model, steps=800):
    """Train; returns the loss on the test images."""
    for seed in range(steps):
        model.train_step(**batch(seed))
    images, labels = (numpy.load(DIGITS / f"test_{name}.npy") for name in "xy")
    times = (numpy.arange(len(images), dtype="float32") + 0.5) / len(images)
    noise = numpy.random.default_rng(0).standard_normal(images.shape, "float32")
    noisy = mixed(scaled(images), noise, times[:, None, None, None])
    found = model.predict(images=noisy, times=times, labels=labels)
    return float(((found - noise) ** 2).mean())


def mixed(images, noise, time):
    """Mix images with noise: images at time 0, noise at time 1."""
    angle = time * numpy.float32(numpy.pi / 2)
    return numpy.cos(angle) * images + numpy.sin(angle) * noise


def sample(model, labels, steps=40):
    """Images of these digits, out of noise.

    Each step finds the noise, and mixes the image without it with a little less of it:
    Song, Meng and Ermon, "Denoising diffusion implicit models", ICLR 2021.
    """
    count, rng = len(labels), numpy.random.default_rng(0)
    noise = rng.standard_normal((count, 8, 8, 1), "float32")
    images = numpy.zeros_like(noise)
    for time in numpy.linspace(0.98, 0.02, steps, dtype="float32"):
        noisy, times = mixed(images, noise, time), numpy.full(count, time)
        noise = model.predict(images=noisy, times=times, labels=labels)
        images = ((noisy - mixed(0, noise, time)) / mixed(1, 0, time)).clip(-1, 1)
    return images[..., 0]


if __name__ == "__main__":
    main()
