"""Norms, softmax and reductions: remainders, and what is around them.

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
NORMS = (nn.softmax, nn.log_softmax, nn.layer_norm, nn.rms_norm)

# matrices, their rows, and their columns: remainders of vectors and tiles, many parts
COLUMNS = [(1, 300, 8), (3, 40, 17), (2, 129, 31), (5, 7, 401), (1, 2, 5000)]

w = aotc.Weights(
    {
        "scale": _rng.normal(size=768).astype("f"),
        "bias": _rng.normal(size=768).astype("f"),
        "long": _rng.normal(size=(3, 1, 300)).astype("f"),
    }
)


def _reductions(x, axis):
    product = np.prod(1.0 + 0.05 * x, axis)  # neither 0 nor infinite
    return *(op(x, axis) for op in (np.sum, np.mean, np.max, np.min)), product


def _all_of(shape):
    def entry(x):
        if len(shape) == 2:
            return *(norm(x) for norm in NORMS), *_reductions(x, 1)
        return _reductions(x, 1)

    entry.__name__ = _name(shape)
    return aotc.entry(x=aotc.Spec(shape, "f32"))(entry)


def _name(shape):
    return "_".join(["of", *map(str, shape)])


for _shape in SIZES + COLUMNS:
    globals()[_name(_shape)] = _all_of(_shape)

# of a few elements, as in a step of a decoder
FEW = ("a", (1, 128)), ("b", (1, 768)), ("c", (16, 8)), ("d", (5, 31))


@aotc.entry(**{name: aotc.Spec(shape, "f32") for name, shape in FEW})
def norms_of_few(a, b, c, d):
    return tuple(norm(x) for x in (a, b, c, d) for norm in NORMS)


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
    """Add up squares of the elements, and of a step after the sums."""
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
    """Add up a row so long that it is summed in parts of parts."""
    return np.sum(x, -1)


@aotc.entry(x=aotc.Spec((2, 6, 7, 90), "f32"), y=aotc.Spec((2, 6, 7, 90), "f32"))
def means_of_pixels(w, x, y):
    """Elements that are computed, and a step after the sums, with a vector of each."""
    return np.tanh(np.mean(x * y * w["scale"][:90], (1, 2)) + w["bias"][:90])


_ANY = aotc.Spec((aotc.Dim("batch", min=0), "length", 72))


@aotc.entry(x=_ANY, y=_ANY)
def any_rows(w, x, y):
    """Reduce as many rows as a call says."""
    z = nn.layer_norm(x + y, w["scale"][:72], w["bias"][:72])
    return z, nn.softmax(x * 2.0), np.max(x, -1) - np.sum(y, -1)


@aotc.entry(x=aotc.Spec((aotc.Dim("batch", min=0), 5, 3, 72)))
def any_images(x):
    """Reduce as many matrices as a call says."""
    return np.sum(x, (1, 2))


def _loss(w, x):
    found = nn.layer_norm(x, w["scale"][:72], w["bias"][:72]), nn.rms_norm(x)
    return sum(np.sum(np.sin(y)) for y in found) + np.sum(nn.log_softmax(x)[..., 0])


@aotc.entry(x=aotc.Spec((37, 72), "f32"))
def derivatives(w, x):
    """Gradients read the statistics of norms; each norm has two readers."""
    loss, (of_weights, of_rows) = aotc.value_and_grad(_loss, argnums=(0, 1))(w, x)
    return loss, of_weights["scale"], of_weights["bias"], of_rows


@aotc.entry(x=_ANY)
def any_derivatives(w, x):
    """Derivatives of as many rows as a call says."""
    return aotc.grad(_loss, argnums=1)(w, x)
