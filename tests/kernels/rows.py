"""Norms, softmax and reductions along the last axes: remainders, what is around them.

A model file, which the tests beside it build.
"""

import numpy as onp

import aotc
import aotc.numpy as np
from aotc import nn

_rng = onp.random.default_rng(0)

# rows and their length: remainders of vectors, of steps of vectors, of rows of a tile
SIZES = [(600, 8), (300, 15), (256, 16), (241, 17), (150, 31), (47, 100), (7, 601)]
SIZES += [(3, 4099)]
OPS = {
    "softmax": nn.softmax,
    "log_softmax": nn.log_softmax,
    "layer_norm": nn.layer_norm,
    "rms_norm": nn.rms_norm,
    "sum": lambda x: np.sum(x, -1),
    "mean": lambda x: np.mean(x, -1),
    "greatest": lambda x: np.max(x, -1),
    "least": lambda x: np.min(x, -1),
    "product": lambda x: np.prod(1.0 + 0.05 * x, -1),  # neither 0 nor infinite
}

w = aotc.Weights(
    {
        "scale": _rng.normal(size=768).astype("f"),
        "bias": _rng.normal(size=768).astype("f"),
        "long": _rng.normal(size=(3, 1, 300)).astype("f"),
    }
)


def _all_of(shape):
    def entry(x):
        return tuple(op(x) for op in OPS.values())

    entry.__name__ = "of_{}_{}".format(*shape)
    return aotc.entry(x=aotc.Spec(shape, "f32"))(entry)


for _shape in SIZES:
    globals()["of_{}_{}".format(*_shape)] = _all_of(_shape)

_X = aotc.Spec((40, 768), "f32")


@aotc.entry(x=_X, y=_X)
def residual(w, x, y):
    """A sum that the norm alone reads."""
    return nn.layer_norm(x + y, w["scale"], w["bias"])


@aotc.entry(x=_X, y=_X)
def read_twice(w, x, y):
    """A sum that the norm reads and what follows it."""
    z = x + y
    return nn.rms_norm(z, w["scale"]) + z


@aotc.entry(x=_X, y=_X)
def also_a_result(w, x, y):
    """A sum that is a result as well, and so computed before."""
    z = x + y
    return nn.layer_norm(z, w["scale"], w["bias"]), z


@aotc.entry(x=_X)
def masked(w, x):
    """Scores that are scaled and hidden in part; both results are read."""
    y = nn.softmax(x * 0.125 + w["bias"])
    return y, y * w["scale"]


@aotc.entry(x=_X)
def squares(x):
    """Of the elements, and of a step after the sums."""
    return np.sqrt(np.mean(x * x, -1) + 1.0)


@aotc.entry(x=aotc.Spec((90, 33), "f32"), y=aotc.Spec((90, 33), "f32"))
def short_products(w, x, y):
    """Rows side by side, whose elements are computed."""
    return np.sum(x * y * w["scale"][:33], -1)


@aotc.entry(x=aotc.Spec((5, 3, 1, 300), "f32"))
def several_axes(w, x):
    """Rows along more than one axis, whose scale has those axes, too."""
    return nn.layer_norm(x, w["long"], axes=(1, 2, 3)), np.max(x, (2, 3))


@aotc.entry(x=aotc.Spec((7, 900), "f32"))
def everything(x):
    """One row, and a result without axes."""
    return np.mean(x), np.max(x) * 2.0 - x[0, 0]


@aotc.entry(x=aotc.Spec((1, 1 << 20), "f32"))
def long_sum(x):
    """As long as what is added in parts of parts."""
    return np.sum(x, -1)


_ANY = aotc.Spec((aotc.Dim("batch", min=0), "length", 72))


@aotc.entry(x=_ANY, y=_ANY)
def any_rows(w, x, y):
    """As many rows as a call says."""
    z = nn.layer_norm(x + y, w["scale"][:72], w["bias"][:72])
    return z, nn.softmax(x * 2.0), np.max(x, -1) - np.sum(y, -1)
