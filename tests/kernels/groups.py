"""Convolutions of several groups: narrow and wide ones, what changes, what follows.

A model file, which the tests beside it build.
"""

import numpy as onp

import aotc
import aotc.numpy as np
from aotc import nn

_rng = onp.random.default_rng(0)

# x, window, strides, padding, dilation, groups, features
GROUPED = {
    "resnext": ((1, 14, 14, 64), (3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 16, 64),
    "pairs": ((2, 9, 10, 26), (3, 3), (2, 1), ((1, 0), (1, 1)), (1, 1), 13, 26),
    "eight": ((2, 9, 11, 40), (3, 3), (2, 2), ((1, 1), (1, 1)), (1, 1), 5, 40),
    "uneven": ((2, 8, 9, 21), (2, 3), (1, 2), ((0, 1), (2, 2)), (1, 2), 7, 21),
    "twice": ((1, 12, 12, 20), (3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 20, 40),
    "three_each": ((1, 10, 7, 22), (3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 22, 66),
    "fewer": ((1, 10, 10, 36), (3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 9, 18),
    "line": ((2, 60, 32), (5,), (1,), ((4, 0),), (1,), 8, 32),
    "pixels": ((60, 1, 1, 64), (1, 1), (1, 1), ((0, 0), (0, 0)), (1, 1), 16, 64),
    "shuffled": ((1, 9, 9, 60), (1, 1), (1, 1), ((0, 0), (0, 0)), (1, 1), 3, 60),
    "padding": ((1, 3, 3, 32), (3, 3), (1, 1), ((4, 4), (4, 4)), (1, 1), 8, 32),
    "long_lines": ((1, 6, 40, 64), (3, 9), (1, 1), ((1, 1), (4, 4)), (1, 1), 8, 64),
    "one_vector": ((1, 14, 14, 48), (3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 3, 48),
    "wide": ((1, 7, 7, 128), (3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 4, 128),
    "two": ((2, 9, 10, 10), (5, 5), (2, 2), ((2, 2), (2, 2)), (1, 1), 2, 100),
    "remainder": ((1, 9, 9, 24), (3, 2), (1, 1), ((1, 1), (0, 1)), (2, 1), 3, 72),
    "few_features": ((2, 9, 10, 40), (3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 2, 6),
    "wide_line": ((1, 1, 80, 64), (1, 7), (1, 1), ((0, 0), (3, 3)), (1, 1), 2, 64),
    "wide_pixels": ((40, 1, 1, 64), (1, 1), (1, 1), ((0, 0), (0, 0)), (1, 1), 2, 64),
}
BATCHES = ("resnext", "wide")  # also with a number of images that a call decides
CHANGING = ("resnext", "remainder", "wide")  # also by kernels that are inputs
TRAINED = ("eight", "wide")  # also differentiated


def _kernel_shape(name):
    x, window, _, _, _, groups, features = GROUPED[name]
    return (*window, x[-1] // groups, features)


w = aotc.Weights(
    {name: _rng.normal(size=_kernel_shape(name)).astype("f") / 4 for name in GROUPED}
    | {"bias": _rng.normal(size=128).astype("f")}
)


def _convolve(name, x, kernel):
    _, _, strides, padding, dilation, groups, _ = GROUPED[name]
    options = {"strides": strides, "padding": padding, "dilation": dilation}
    return nn.conv(x, kernel, **options, groups=groups)


def _define(name, function, **specs):
    function.__name__ = name
    globals()[name] = aotc.entry(**specs)(function)


def _entry(name):
    return lambda w, x: np.clip(
        _convolve(name, x, w[name]) + w["bias"][: GROUPED[name][-1]], -1.0, 6.0
    )


for _name, (_shape, *_) in GROUPED.items():
    _define(_name, _entry(_name), x=aotc.Spec(_shape))
for _name in BATCHES:
    _any = ("images", *GROUPED[_name][0][1:])
    _define(f"{_name}_of_any_batch", _entry(_name), x=aotc.Spec(_any))


def _changing(name):
    return lambda x, kernel: nn.silu(_convolve(name, x, kernel))


for _name in CHANGING:
    _specs = aotc.Spec(GROUPED[_name][0]), aotc.Spec(_kernel_shape(_name))
    _define(f"{_name}_changing", _changing(_name), x=_specs[0], kernel=_specs[1])


def _slopes(name):
    def loss(w, x):
        return np.sum(np.sin(_convolve(name, x, w[name])))

    def slopes(w, x):
        by_weights, by_image = aotc.grad(loss, argnums=(0, 1))(w, x)
        return by_weights[name], by_image

    return slopes


for _name in TRAINED:
    _define(f"{_name}_trained", _slopes(_name), x=aotc.Spec(GROUPED[_name][0]))


@aotc.entry(x=aotc.Spec((1, 14, 14, 64)))
def read_twice(w, x):
    """Added to what it is made of; the sums are a result as well."""
    y = _convolve("resnext", x, w["resnext"])
    return y, nn.relu(y) + x


@aotc.entry(x=aotc.Spec((1, 14, 14, 48)))
def two_of_one_image(w, x):
    """Convolutions that share what they read, by different weights."""
    one = _convolve("one_vector", x, w["one_vector"])
    other = _convolve("one_vector", x, w["one_vector"] * 0.5 + 1.0)
    return one * nn.sigmoid(other)
