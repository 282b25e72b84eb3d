"""Convolutions of 3×3 windows over bytes: of both signs, padded by zero points or not.

A model file, which the tests beside it build. Scales are powers of two, and sums below
2**24: no op of floats rounds but by `round_even`.
"""

import numpy as onp

import aotc
from aotc import nn

_rng = onp.random.default_rng(0)

# x, features, dtype and zero point of the image, padding
CONVOLUTIONS = {
    "zeros_around": ((1, 11, 12, 32), 40, "u8", 0, ((1, 1), (1, 1))),
    "zero_points_around": (
        (aotc.Dim("n", min=0), 6, 9, 32),
        17,
        "u8",
        131,
        ((1, 1), (0, 2)),
    ),
    "signed": ((1, 7, 7, 64), 64, "i8", -3, ((1, 1), (1, 1))),
    "unpadded": ((1, 3, 5, 32), 32, "i8", 0, ((0, 0), (0, 0))),
}


def _kernel(*shape):
    """All bytes, and the ends of their range, of which sums are largest."""
    ends = _rng.choice([-128, 127], shape)
    some = _rng.integers(-128, 127, shape, endpoint=True)
    return onp.where(_rng.random(shape) < 0.3, ends, some).astype("i1")


w = aotc.Weights(
    {
        name: _kernel(3, 3, x[-1], features)
        for name, (x, features, *_) in CONVOLUTIONS.items()
    }
)


def _convolution(name):
    shape, _, dtype, zero_point, padding = CONVOLUTIONS[name]

    def entry(w, x):
        image = nn.dequantize(nn.quantize(x, 0.5, zero_point, dtype), 0.5, zero_point)
        y = nn.conv2d(image, nn.dequantize(w[name], 2.0**-6), padding=padding)
        return y, nn.quantize(nn.relu(y), 32.0, 9, "u8")

    entry.__name__ = name
    return aotc.entry(x=aotc.Spec(shape, "f32"))(entry)


for _name in CONVOLUTIONS:
    globals()[_name] = _convolution(_name)
