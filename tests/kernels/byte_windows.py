"""Depthwise convolutions of bytes: zero points, edges, strides, remainders.

A model file, which the tests beside it build. Scales are powers of two, so that no op
of floats rounds but by `round_even`: results are those of the reference, bit by bit.
"""

import numpy as onp

import aotc
from aotc import nn

_rng = onp.random.default_rng(0)

# x, window, strides, padding, dilation; dtype and zero point of the image
WINDOWS = {
    "same": ((1, 14, 14, 32), (3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), "u8", 0),
    "images": ((2, 9, 10, 40), (3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), "u8", 131),
    "strided": ((2, 17, 20, 9), (3, 2), (2, 2), ((0, 1), (0, 1)), (1, 1), "i8", 7),
    "wider": ((1, 11, 17, 48), (5, 5), (1, 1), ((2, 2), (2, 2)), (1, 1), "i8", 0),
    "dilated": ((1, 12, 13, 17), (3, 3), (1, 2), ((2, 2), (3, 3)), (2, 3), "u8", 255),
    "padding": ((1, 3, 3, 80), (3, 3), (1, 1), ((4, 4), (4, 4)), (1, 1), "u8", 200),
    "pixel": ((2, 1, 1, 500), (3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), "i8", -128),
    "unsigned": ((1, 12, 13, 24), (3, 3), (1, 1), ((1, 1), (1, 0)), (1, 1), "u8", 77),
    "signs": ((1, 13, 12, 20), (3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), "i8", -77),
    "line": ((1, 300, 100), (4,), (1,), ((3, 0),), (1,), "u8", 50),
}
UNSIGNED = ("unsigned", "signs")  # whose weights are u8
IMAGE, WEIGHT, RESULT = 2.0**-5, 2.0**-7, 2.0**-4

w = aotc.Weights(
    {
        name: _rng.integers(-128, 128, (*window, 1, x[-1])).astype(
            "u1" if name in UNSIGNED else "i1"
        )
        for name, (x, window, *_) in WINDOWS.items()
    }
)


def _entry(name):
    shape, _, strides, padding, dilation, dtype, zero = WINDOWS[name]

    def entry(w, x):
        image = nn.dequantize(nn.quantize(x, IMAGE, zero, dtype), IMAGE, zero)
        kernel = nn.dequantize(w[name], WEIGHT)
        y = nn.conv(
            image,
            kernel,
            strides=strides,
            padding=padding,
            dilation=dilation,
            groups=shape[-1],
        )
        return nn.dequantize(nn.quantize(y, RESULT, 99, "u8"), RESULT, 99)

    entry.__name__ = name
    return aotc.entry(x=aotc.Spec(shape, "f32"))(entry)


for _name in WINDOWS:
    globals()[_name] = _entry(_name)
