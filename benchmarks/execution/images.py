"""A convolutional network for images of several sizes: see docs/execution-models.md.

    python benchmarks/execution/traffic.py images > images.csv
    aotc bench benchmarks/execution/images.py --traffic images.csv

Four stages of residual blocks (He et al., "Deep residual learning", CVPR 2016), widths
32 to 256, then the mean over all pixels. Height and width are symbols. Weights are
random: what they are makes no difference to the time.
"""

import numpy

import aotc
import aotc.numpy as np
from aotc import nn

aotc.bundle(name="images", version="1.0.0")

WIDTHS, CLASSES = (32, 64, 128, 256), 100
rng = numpy.random.default_rng(0)


def conv(size, inputs, outputs):
    """Return random parameters of a convolution."""
    kernel = rng.standard_normal((size, size, inputs, outputs), "f4")
    scale = (2 / (size * size * inputs)) ** 0.5
    return {"kernel": scale * kernel, "bias": numpy.zeros(outputs, "f4")}


def stage(inputs, outputs):
    """Return random parameters of a stage: a strided convolution and two more."""
    return {
        "down": conv(3, inputs, outputs),
        "first": conv(3, outputs, outputs),
        "second": conv(3, outputs, outputs),
    }


pairs = zip((WIDTHS[0], *WIDTHS), WIDTHS, strict=False)
weights = aotc.Weights(
    {
        "stem": conv(3, 3, WIDTHS[0]),
        "stages": [stage(*pair) for pair in pairs],
        "head": rng.standard_normal((WIDTHS[-1], CLASSES), "f4") / 16,
    }
)
height = aotc.Dim("height", min=32, max=256, multiple_of=16)
width = aotc.Dim("width", min=32, max=256, multiple_of=16)


@aotc.entry(image=aotc.Spec((1, height, width, 3)))
def classify(weights, image):
    """Return the logits [1, 100] of an image."""
    x = nn.relu(nn.conv2d(image, **weights["stem"], padding="SAME"))
    for p in weights["stages"]:
        x = nn.relu(nn.conv2d(x, **p["down"], strides=2, padding="SAME"))
        h = nn.relu(nn.conv2d(x, **p["first"], padding="SAME"))
        x = nn.relu(x + nn.conv2d(h, **p["second"], padding="SAME"))
    return np.mean(x, axis=(1, 2)) @ weights["head"]
