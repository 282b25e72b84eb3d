"""Convolutions of 3×3 windows: tiles at edges, remainders, what follows, who reads.

A model file, which the tests beside it build.
"""

import numpy as onp

import aotc
import aotc.numpy as np
from aotc import control, nn

_rng = onp.random.default_rng(0)

# x, features, padding
CONVOLUTIONS = {
    "whole_tiles": ((1, 16, 16, 16), 32, ((1, 1), (1, 1))),
    "edges": ((2, 14, 15, 20), 24, ((1, 1), (1, 1))),
    "unpadded": ((1, 12, 11, 33), 40, ((0, 0), (0, 0))),
    "uneven": ((1, 9, 20, 8), 17, ((0, 1), (1, 0))),
    "widely_padded": ((1, 8, 8, 16), 70, ((2, 3), (3, 2))),
    "all_padding": ((1, 3, 3, 8), 16, ((4, 4), (4, 4))),
    "one_line": ((1, 1, 30, 24), 16, ((1, 1), (1, 1))),
    "one_result": ((1, 3, 3, 40), 48, ((0, 0), (0, 0))),
    "one_channel": ((3, 10, 10, 1), 16, ((1, 1), (1, 1))),
    "small_images": ((5, 7, 7, 64), 128, ((1, 1), (1, 1))),
    "narrow": ((1, 20, 20, 64), 9, ((1, 1), (1, 1))),
}


def _weights():
    found = {
        name: _rng.normal(size=(3, 3, x[-1], features)).astype("f")
        for name, (x, features, _) in CONVOLUTIONS.items()
    }
    found["square"] = _rng.normal(size=(3, 3, 24, 24)).astype("f")
    sizes = 2.0 ** _rng.integers(-20, 20, (3, 3, 24, 40))
    found["ranges"] = (_rng.normal(size=(3, 3, 24, 40)) * sizes).astype("f")
    found["bias"] = _rng.normal(size=128).astype("f")
    return aotc.Weights(found)


w = _weights()


def _convolution(name):
    shape, features, padding = CONVOLUTIONS[name]

    def entry(w, x):
        y = nn.conv2d(x, w[name], padding=padding)
        return nn.relu(y + w["bias"][:features])

    entry.__name__ = name
    return aotc.entry(x=aotc.Spec(shape, "f32"))(entry)


for _name in CONVOLUTIONS:
    globals()[_name] = _convolution(_name)

_SAME = ((1, 1), (1, 1))
_image = aotc.Spec((2, 10, 9, 24), "f32")


@aotc.entry(x=_image)
def residual(w, x):
    """Add the convolved array to the result; the sums are a result as well."""
    y = nn.conv2d(x, w["square"], padding=_SAME)
    return y, nn.gelu(y + x)


@aotc.entry(x=_image)
def chain(w, x):
    """One weight twice, and what is computed of it beside."""
    y = nn.relu(nn.conv2d(x, w["square"], padding=_SAME) * 0.1)
    return nn.conv2d(y, w["square"], padding=_SAME) + np.sum(w["square"])


@aotc.entry(x=_image)
def ranges(w, x):
    """Weights of very different sizes, and nothing but their sums."""
    return nn.conv2d(x, w["ranges"], padding=_SAME)


@aotc.entry(x=aotc.Spec((aotc.Dim("n", min=0), 10, 9, 24), "f32"))
def images(w, x):
    """Convolve as many images as a call has."""
    return nn.relu(nn.conv2d(x, w["square"], padding=_SAME) + w["bias"][:24])


@aotc.entry(x=_image)
def repeated(w, x):
    """Convolve in each step of a loop."""

    def step(_, y):
        return np.tanh(nn.conv2d(y, w["square"], padding=_SAME) * 0.05)

    return control.fori_loop(0, 3, step, x)


@aotc.entry(x=_image, k=aotc.Spec((3, 3, 24, 24), "f32"))
def given_weights(x, k):
    """The kernel is an input: not transformed."""
    return nn.conv2d(x, k, padding=_SAME)
