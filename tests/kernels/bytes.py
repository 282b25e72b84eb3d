"""Quantised parts of networks, between which bytes are in memory.

A model file, which the tests beside it build. Scales are powers of two, so that no op
of floats rounds but by `round_even`: results are those of the reference, bit by bit.
"""

import numpy as onp

import aotc
import aotc.numpy as np
from aotc import nn

_rng = onp.random.default_rng(0)


def _integers(dtype, *shape):
    info = onp.iinfo(dtype)
    return _rng.integers(info.min, info.max, shape, endpoint=True).astype(dtype)


w = aotc.Weights(
    {
        "rows": _integers("i1", 64, 96),
        "shifted": _integers("u1", 64, 96),
        "zeros": _integers("u1", 96),
        "kernel": _integers("i1", 3, 3, 32, 32),
        "depthwise": _integers("i1", 3, 3, 1, 32),
        "groups": _integers("i1", 3, 3, 16, 32),
        "pixels": _integers("i1", 1, 1, 16, 48),
        "square": _integers("i1", 64, 64),
    }
)
STEP, TINY = 2.0**-4, 2.0**-7
IMAGE = aotc.Spec((1, 11, 12, 32))
ROWS = aotc.Spec((2, 40, 64))


def levels(x, scale=STEP, zero_point=120, dtype="u8"):
    """Quantise and dequantise."""
    return nn.dequantize(nn.quantize(x, scale, zero_point, dtype), scale, zero_point)


def weight(q, zero_point=None):
    """A dequantised weight."""
    zero_point = onp.zeros((), "u1" if q.dtype == "u8" else "i1") if (
        zero_point is None) else zero_point  # fmt: skip
    axis = None if zero_point.ndim == 0 else 1
    scale = onp.full(zero_point.shape, TINY, "f")
    return nn.dequantize(q, scale, zero_point, axis=axis)


@aotc.entry(x=ROWS)
def shifted(w, x):
    """Weights with a zero point for each feature."""
    return levels(levels(x) @ weight(w["shifted"], w["zeros"]), 2.0)


@aotc.entry(x=ROWS)
def tables(w, x):
    """Functions of one byte: behind a product, whose bytes are read too, and alone."""
    y = nn.quantize(levels(x) @ weight(w["rows"]), 2.0**-1, 7, "i8")
    z = nn.dequantize(y, 2.0**-1, 7)
    gate = levels(nn.sigmoid(z * 0.25), 2.0**-8, 0)
    alone = nn.quantize(np.tanh(levels(x)), 2.0**-7, -3, "i8")
    return nn.quantize(z * gate, 2.0**-2, 100, "u8"), levels(nn.gelu(z)), alone, y


@aotc.entry(x=ROWS)
def layers(w, x):
    """Layers of one structure, each with a zero point and a table of its own."""
    y = levels(x)
    for scale, zero in ((0.5, 7), (0.25, -3), (0.25, 5)):
        z = nn.quantize(y @ weight(w["square"]), 2.0**-1, zero, "i8")
        y = levels(nn.gelu(nn.dequantize(z, 2.0**-1, zero) * scale), 2.0**-4, 60 + zero)
    return y


@aotc.entry(x=ROWS)
def attention(w, x):
    """Products of what calls give, in heads, and what a projection makes of them."""
    heads = np.reshape(levels(x, 2.0**-2, 131), (2, 40, 4, 16))
    q = levels(np.transpose(heads, (0, 2, 1, 3)), 2.0**-2, 131)
    k = levels(np.transpose(levels(heads * 0.5), (0, 2, 3, 1)))
    scores = levels(q @ k, 2.0, 100)
    mixed = levels(scores @ q, 64.0, 99)
    back = levels(np.transpose(mixed, (0, 2, 1, 3)), 64.0, 99)
    return levels(np.reshape(back, (2, 40, 64)) @ weight(w["rows"]), 2.0**9)


@aotc.entry(x=IMAGE)
def residual(w, x):
    """Convolutions, one of them depthwise, and what is added to their results."""
    image = levels(x)
    h = levels(nn.relu(nn.conv2d(image, weight(w["kernel"]), padding=1)), 1.0, 0)
    h = levels(nn.conv2d(h, weight(w["depthwise"]), padding=1, groups=32), 4.0)
    y = levels(image + h, 4.0, 128)
    return levels(nn.relu(y), 4.0, 3), y


@aotc.entry(x=IMAGE)
def groups(w, x):
    """Convolutions of groups, beside what they read, by another scale and enlarged."""
    image = levels(x)
    h = levels(nn.conv2d(image, weight(w["groups"]), padding=1, groups=2), 0.5)
    h = levels(nn.relu(nn.conv2d(h, weight(w["pixels"]), groups=2)), 1.0, 0)
    joined = levels(np.concatenate([image, h, image], 3), 0.5, 40)
    padded = np.pad(joined, [(0, 0), (1, 0), (0, 0), (0, 0)])
    places = onp.array([0, 0, 1, 1, 2, 3] * 2, "i4")
    return levels(np.take(padded, places, 1), 0.5, 40)


@aotc.entry(x=aotc.Spec((33, 200)), y=aotc.Spec((200,)))
def sums(x, y):
    """Sums and extremes of rows and columns, of bytes and to bytes."""
    q = levels(x)
    rows = levels(np.sum(q, 1), 4.0)
    highest = levels(np.max(levels(x + y), 1) + np.max(q, 1), 2.0**-3, 9)
    return rows, highest, levels(np.sum(q, 0), 1.0)


@aotc.entry(x=aotc.Spec((64, 100)), y=aotc.Spec((9, 8, 33)), z=aotc.Spec((40, 5)))
def shares(x, y, z):
    """Softmax to bytes, of bytes that are in memory, or just made, and of columns."""
    rows = nn.quantize(nn.softmax(levels(x)), 2.0**-8, 0, "u8")
    q = nn.quantize(y, STEP, -9, "i8")
    heads = nn.softmax(nn.dequantize(q, STEP, -9) * 2.0)
    columns = nn.softmax(levels(z), axis=0)
    gate = levels(x) * nn.sigmoid(levels(x * 2.0, 2.0**-3, 99))
    return (
        rows,
        nn.quantize(heads, 2.0**-7, -128, "i8"),
        nn.quantize(columns, 2.0**-9, 0, "u8"),
        levels(gate),
        q,
    )


@aotc.entry(x=aotc.Spec((6, 40, 44, 3)))
def moved(x):
    """Bytes in another order of axes."""
    q = nn.quantize(x, STEP, 7, "u8")
    return np.transpose(q, (0, 3, 1, 2)), np.transpose(
        np.astype(q, "i16"), (1, 0, 2, 3)
    )


@aotc.entry(x=aotc.Spec((2, 15, 16, 40)))
def pools(x):
    """Extremes and means of windows of bytes, and means of images."""
    q = levels(x)
    highest = nn.max_pool(q, (3, 3), (2, 2), ((1, 1), (1, 1)))
    mean = nn.avg_pool(levels(x + 1.0, STEP, 9), (2, 2), (2, 2))
    images = np.sum(levels(x * 2.0), (1, 2)) * 2.0**-8
    return levels(highest), levels(mean), levels(images, STEP, 3)
