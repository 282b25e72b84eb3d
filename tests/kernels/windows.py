"""Depthwise convolutions and pooling: remainders, edges, strides, what follows.

A model file, which the tests beside it build.
"""

import numpy as onp

import aotc
import aotc.numpy as np
from aotc import nn

_rng = onp.random.default_rng(0)

# x, window, strides, padding, dilation
DEPTHWISE = {
    "same": ((1, 14, 14, 32), (3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1)),
    "images": ((2, 9, 10, 40), (3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1)),
    "strided": ((2, 15, 16, 24), (3, 3), (2, 2), ((0, 1), (0, 1)), (1, 1)),
    "few_channels": ((1, 20, 20, 9), (3, 3), (2, 1), ((1, 1), (1, 1)), (1, 1)),
    "wider": ((1, 11, 17, 48), (5, 5), (1, 1), ((2, 2), (2, 2)), (1, 1)),
    "widest": ((1, 10, 10, 33), (7, 7), (1, 1), ((3, 3), (3, 3)), (1, 1)),
    "dilated": ((1, 12, 13, 17), (3, 3), (1, 2), ((2, 2), (3, 3)), (2, 3)),
    "unpadded": ((1, 16, 33, 64), (3, 2), (1, 1), ((0, 0), (0, 0)), (1, 1)),
    "many_lines": ((3, 64, 20, 100), (3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1)),
    "one_pixel": ((2, 1, 1, 700), (3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1)),
    "all_padding": ((1, 3, 3, 80), (3, 3), (1, 1), ((4, 4), (4, 4)), (1, 1)),
    "long_window": ((1, 40, 600), (20,), (1,), ((19, 0),), (1,)),
    "line": ((1, 600, 1000), (4,), (1,), ((3, 0),), (1,)),
}
POOLS = {
    "greatest": ((1, 15, 15, 40), (3, 3), (2, 2), ((1, 1), (1, 1)), (1, 1)),
    "mean": ((3, 12, 12, 24), (2, 2), (2, 2), ((0, 0), (0, 0)), (1, 1)),
    "mean_at_edges": ((1, 9, 9, 35), (3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1)),
    "whole_image": ((1, 7, 7, 200), (7, 7), (1, 1), ((0, 0), (0, 0)), (1, 1)),
}

w = aotc.Weights(
    {
        name: _rng.normal(size=(*window, 1, x[-1])).astype("f")
        for name, (x, window, *_) in DEPTHWISE.items()
    }
    | {"bias": _rng.normal(size=1000).astype("f")}
)


def _depthwise(name):
    shape, _, strides, padding, dilation = DEPTHWISE[name]

    def entry(w, x):
        y = nn.conv(
            x,
            w[name],
            strides=strides,
            padding=padding,
            dilation=dilation,
            groups=shape[-1],
        )
        return np.clip(y + w["bias"][: shape[-1]], 0.0, 6.0)

    entry.__name__ = name
    return aotc.entry(x=aotc.Spec(shape, "f32"))(entry)


def _pool(name):
    shape, window, strides, padding, dilation = POOLS[name]
    pool = nn.max_pool if name == "greatest" else nn.avg_pool

    def entry(x):
        y = pool(x, window, strides, padding, dilation=dilation)
        return nn.relu(y)

    entry.__name__ = name
    return aotc.entry(x=aotc.Spec(shape, "f32"))(entry)


for _name in DEPTHWISE:
    globals()[_name] = _depthwise(_name)
for _name in POOLS:
    globals()[_name] = _pool(_name)


@aotc.entry(x=aotc.Spec((1, 10, 10, 40), "f32"))
def read_twice(w, x):
    """Added to what it is made of; the windows' sums are a result as well."""
    y = nn.conv(x, w["images"], padding=((1, 1), (1, 1)), groups=40)
    return y, nn.swish(y) + x


@aotc.entry(x=aotc.Spec((1, 10, 10, 40), "f32"), k=aotc.Spec((3, 3, 1, 40), "f32"))
def given_weights(x, k):
    """The kernel is an input."""
    return nn.conv(x, k, padding=((1, 1), (1, 1)), groups=40) * 2.0


@aotc.entry(x=aotc.Spec((2, 8, 8, 64), "f32"))
def not_a_number(x):
    """The greatest of anything and NaN is NaN."""
    return nn.max_pool(np.log(x), (2, 2), (2, 2))
