"""Results whose rows, or groups of rows, have scales and shifts of their own.

A model file, which the tests beside it build.
"""

import numpy as onp

import aotc
import aotc.numpy as np
from aotc import nn

_rng = onp.random.default_rng(0)

w = aotc.Weights(
    {
        "matrix": _rng.normal(size=(40, 35)).astype("f"),
        "experts": _rng.normal(size=(3, 40, 35)).astype("f"),
        "window": _rng.normal(size=(3, 3, 6, 20)).astype("f"),
        "channels": _rng.normal(size=(3, 3, 1, 24)).astype("f"),
    }
)
_n = aotc.Dim("n", min=0)
_line = aotc.Spec((70,), "f32")


@aotc.entry(x=aotc.Spec((70, 40), "f32"), s=_line, t=aotc.Spec((35,), "f32"))
def product(w, x, s, t):
    """Scale a product by rows and by columns."""
    return nn.relu(x @ w["matrix"] * s[:, None] + t) - s[:, None]


@aotc.entry(x=aotc.Spec((_n, 40), "f32"), s=aotc.Spec((_n, 1), "f32"))
def any_rows(w, x, s):
    return x @ w["matrix"] * s


@aotc.entry(x=aotc.Spec((3, 30, 40), "f32"), s=aotc.Spec((30, 3), "f32"))
def experts(w, x, s):
    """Scale as many rows of each product, in another order than the scales."""
    return np.sum(x @ w["experts"] * s.T[..., None], 0)


@aotc.entry(x=aotc.Spec((3, 30, 40), "f32"), s=aotc.Spec((3,), "f32"))
def of_each_product(w, x, s):
    """A number for each product, which is read as a whole tensor."""
    return x @ w["experts"] * s[:, None, None]


@aotc.entry(x=aotc.Spec((2, 9, 11, 6), "f32"), s=aotc.Spec((2, 9, 11, 1), "f32"))
def pixels(w, x, s):
    return nn.relu(nn.conv(x, w["window"], padding="SAME") * s)


@aotc.entry(x=aotc.Spec((2, 9, 11, 24), "f32"), s=aotc.Spec((2, 9, 11), "f32"))
def pixels_of_channels(w, x, s):
    y = nn.conv(x, w["channels"], padding="SAME", groups=24)
    return y * s[..., None], nn.max_pool(x, 3, strides=1, padding="SAME") + s[..., None]


@aotc.entry(x=aotc.Spec((70, 100), "f32"), s=_line)
def norms(x, s):
    return nn.layer_norm(x) * s[:, None], nn.softmax(x) + s[:, None]


@aotc.entry(x=aotc.Spec((5, 6, 64, 30), "f32"), s=aotc.Spec((5, 6), "f32"))
def reductions(x, s):
    """Reduce over lines of columns, and over columns."""
    return np.sum(x, 2) * s[..., None], np.max(x, 3) * s[..., None]


@aotc.entry(
    x=aotc.Spec((_n, 13, 40), "f32"),
    s=aotc.Spec((_n, 1, 35), "f32"),
    t=aotc.Spec((_n, 35), "f32"),
)
def any_groups(w, x, s, t):
    """A vector for 13 rows, which is less than a tile or more."""
    return nn.gelu(x @ w["matrix"] * s + t[:, None])


@aotc.entry(x=aotc.Spec((3, 30, 40), "f32"), s=aotc.Spec((3, 35), "f32"))
def groups_of_experts(w, x, s):
    return x @ w["experts"] + s[:, None]


@aotc.entry(
    x=aotc.Spec((2, 9, 11, 6), "f32"),
    s=aotc.Spec((2, 1, 1, 20), "f32"),
    t=aotc.Spec((2, 9, 20), "f32"),
)
def images_and_lines(w, x, s, t):
    return nn.conv(x, w["window"], padding="SAME") * s + t[:, :, None]


@aotc.entry(x=aotc.Spec((2, 9, 11, 24), "f32"), s=aotc.Spec((2, 24), "f32"))
def images_of_channels(w, x, s):
    s = s[:, None, None]
    y = nn.conv(x, w["channels"], padding="SAME", groups=24)
    return y * s, nn.max_pool(x, 3, strides=1, padding="SAME") + s


@aotc.entry(x=aotc.Spec((4, 17, 100), "f32"), s=aotc.Spec((4, 100), "f32"))
def norms_of_groups(x, s):
    s = s[:, None]
    return nn.layer_norm(x) * s + s, nn.softmax(x) + s


@aotc.entry(x=aotc.Spec((5, 6, 64, 30), "f32"), s=aotc.Spec((5, 30), "f32"))
def reductions_of_groups(x, s):
    return np.sum(x, 2) * s[:, None]


@aotc.entry(x=aotc.Spec((4, 17, 40), "f32"), s=aotc.Spec((17, 35), "f32"))
def same_in_every_group(w, x, s):
    """Repeated along the first axis, which is read as a whole tensor."""
    return x @ w["matrix"] + s


@aotc.entry(
    x=aotc.Spec((2, 3, 5, 40), "f32"),
    s=aotc.Spec((2, 5, 35), "f32"),
    t=aotc.Spec((2, 3, 5), "f32"),
)
def between_groups(w, x, s, t):
    """Repeated between two axes of rows, which is read as a whole tensor."""
    return x @ w["matrix"] * s[:, None] + t[..., None]
