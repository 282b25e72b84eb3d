"""Elementwise ops that end with bytes, which no other kernel computes.

A model file, which the tests beside it build. Scales are powers of two.
"""

import aotc
import aotc.numpy as np
from aotc import nn

ROWS = aotc.Spec((24, 44))
IMAGES = aotc.Spec((2, 9, 10, 40))


@aotc.entry(x=ROWS)
def forms(x):
    """Quantise in the forms of graphs: clamped before, after, twice or not at all."""
    return (
        nn.quantize(x, 0.5, 0, "u8"),
        nn.quantize(x, 0.25, 121, "u8"),
        nn.quantize(x, 1.0, 5, "i8"),
        nn.quantize(x, 1.0, -128, "i8"),
        np.astype(np.clip(np.round(x) + 3.0, 10.0, 200.0), "u8"),
        np.astype(np.round(x), "i8"),
        np.astype(np.round(np.clip(x, 0.0, 6.0)) + 1.0, "u8"),
        np.astype(np.maximum(np.round(np.minimum(x, 99.0)), 2.0), "i8"),
    )


@aotc.entry(x=ROWS)
def other_forms(x):
    """Bounds that are not whole, and no rounding or not at the end."""
    return (
        np.astype(np.round(np.clip(x, 0.5, 6.5)), "u8"),
        np.astype(np.round(x + 0.25), "u8"),
        np.astype(np.clip(x, 0.0, 255.0), "u8"),
        np.astype(np.round(x) + 0.5, "u8"),
    )


@aotc.entry(x=IMAGES, gate=aotc.Spec((2, 1, 1, 40)), bias=aotc.Spec((40,)))
def gated(x, gate, bias):
    """Bytes times a number for each channel of an image."""
    q = nn.quantize(x, 2.0**-4, 120, "u8")
    y = nn.dequantize(q, 2.0**-4, 120) * gate
    return q, nn.quantize(y + bias, 2.0**-3, 7, "u8")


def _of_halves(x):
    wide = np.astype(x, "f32")
    return (
        nn.quantize(wide, 0.25, 121, "u8"),
        np.astype(np.round(np.clip(x / 0.25, 0, 255)), "u8"),
        np.astype(np.round(np.clip(x * 3.0, -128, 127)) + 128, "u8"),
        np.astype(np.clip(np.round(x) + -56.0, -99.0, 99.0), "i8"),
        np.astype(np.round(x) + 300.0, "u8"),
    )


@aotc.entry(x=aotc.Spec((24, 44), "bf16"))
def of_bf16(x):
    """Rounded as f32, and in their own dtype."""
    return _of_halves(x)


@aotc.entry(x=aotc.Spec((24, 44), "f16"))
def of_f16(x):
    """Rounded as f32, and in their own dtype."""
    return _of_halves(x)


@aotc.entry(x=aotc.Spec(("n", 3, 40)))
def symbolic(x):
    """Rows whose number a call decides, with several zero points."""
    found = nn.quantize(nn.relu(x), 2.0**-3, 0, "u8")
    return found, *(nn.quantize(x, 2.0**-3, zero, "u8") for zero in (9, 200))
