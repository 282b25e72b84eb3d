"""Products and convolutions of bf16 and f16, by weights and by inputs.

A model file, which the tests beside it build. What is summed up is rounded once, and
each op after it by itself.
"""

import numpy as onp

import aotc
import aotc.numpy as np
from aotc import nn
from aotc.numpy.products import dot_general

_rng = onp.random.default_rng(0)

# dtype, rows, depth, features: rows of more than one part, and what is left of one
PRODUCTS = {
    "square": ("bf16", 48, 48, 48),
    "remainders": ("bf16", 49, 37, 100),
    "one_row": ("bf16", 1, 64, 200),
    "narrow": ("bf16", 65, 20, 9),
    "several_parts": ("bf16", 7, 1100, 64),
    "fetched_ahead": ("bf16", 70, 512, 600),
    "halves": ("f16", 49, 37, 100),
    "row_of_halves": ("f16", 1, 300, 72),
}
# dtype, what is summed, shapes of both operands
CHANGING = {
    "changing": ("bf16", "mk,kn->mn", (49, 37), (37, 100)),
    "left_by_columns": ("bf16", "km,kn->mn", (300, 49), (300, 40)),
    "odd_terms_by_columns": ("bf16", "km,kn->mn", (301, 49), (301, 40)),
    "few_rows": ("bf16", "mk,kn->mn", (9, 64), (64, 100)),
    "few_rows_of_odd_terms": ("bf16", "mk,kn->mn", (9, 63), (63, 100)),
    "few_by_columns": ("bf16", "km,kn->mn", (600, 7), (600, 33)),
    "both_by_columns": ("f16", "km,nk->mn", (33, 40), (50, 33)),
    "over_two_axes": ("bf16", "abm,abn->mn", (4, 8, 30), (4, 8, 50)),
    "rows_of_two_axes": ("f16", "kab,kn->abn", (24, 3, 7), (24, 20)),
    "rows_around": ("bf16", "akb,kn->abn", (3, 20, 24), (20, 17)),
    "batch": ("f16", "bmk,bkn->bmn", (5, 20, 24), (5, 24, 40)),
    "scores": ("bf16", "bqhd,bkhd->bhqk", (2, 30, 3, 16), (2, 17, 3, 16)),
    "mixed": ("bf16", "bhqk,bkhd->bhqd", (2, 3, 17, 30), (2, 30, 3, 16)),
}
# dtype, x, kernel, strides, padding, dilation
CONVOLUTIONS = {
    "same": ("bf16", (1, 14, 14, 16), (3, 3, 32), (1, 1), ((1, 1), (1, 1)), (1, 1)),
    "stem": ("bf16", (1, 15, 13, 3), (7, 7, 64), (2, 2), ((3, 3), (3, 3)), (1, 1)),
    "pixels": ("f16", (2, 9, 30, 7), (1, 1, 33), (1, 1), ((0, 0), (0, 0)), (1, 1)),
    "dilated": ("f16", (1, 20, 20, 6), (3, 3, 17), (1, 1), ((2, 2), (2, 2)), (2, 2)),
    "few": ("bf16", (1, 9, 14, 16), (3, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1)),
    "one": ("f16", (1, 9, 14, 24), (2, 5, 1), (1, 1), ((0, 1), (2, 2)), (1, 1)),
    "uneven": ("bf16", (3, 8, 8, 4), (5, 2, 12), (1, 2), ((2, 2), (0, 1)), (1, 3)),
}


def _weights():
    found = {}
    for name, (_, _, depth, features) in PRODUCTS.items():
        found[name] = _rng.normal(size=(depth, features)).astype("f")
    for name, (_, x, (lines, positions, features), *_) in CONVOLUTIONS.items():
        shape = (lines, positions, x[-1], features)
        found[name] = _rng.normal(size=shape).astype("f")
    found["bias"] = _rng.normal(size=640).astype("f")
    return found


w = aotc.Weights(_weights())


def _product(name):
    dtype, rows, depth, features = PRODUCTS[name]

    def entry(w, x, residual):
        bias = np.astype(w["bias"][:features], dtype)
        y = x @ np.astype(w[name], dtype) + bias
        return nn.relu(y) * np.asarray(1.7, dtype) - residual

    entry.__name__ = name
    specs = {"x": (rows, depth), "residual": (rows, features)}
    specs = {key: aotc.Spec(shape, dtype) for key, shape in specs.items()}
    return aotc.entry(**specs)(entry)


def _changing(name):
    dtype, summed, *shapes = CHANGING[name]

    def entry(x, y):
        return np.einsum(summed, x, y)

    entry.__name__ = name
    x, y = (aotc.Spec(shape, dtype) for shape in shapes)
    return aotc.entry(x=x, y=y)(entry)


def _convolution(name):
    dtype, shape, (_, _, features), strides, padding, dilation = CONVOLUTIONS[name]

    def entry(w, x):
        kernel = np.astype(w[name], dtype)
        y = nn.conv2d(x, kernel, strides=strides, padding=padding, dilation=dilation)
        return nn.relu(y + np.astype(w["bias"][:features], dtype))

    entry.__name__ = name
    return aotc.entry(x=aotc.Spec(shape, dtype))(entry)


for _name in PRODUCTS:
    globals()[_name] = _product(_name)
for _name in CHANGING:
    globals()[_name] = _changing(_name)
for _name in CONVOLUTIONS:
    globals()[_name] = _convolution(_name)


@aotc.entry(x=aotc.Spec((4, 9, 8, 16), "bf16"), dy=aotc.Spec((4, 9, 8, 24), "bf16"))
def kernel_gradient(x, dy):
    """A product of windows over images, whose rows do not lie at one distance."""

    def convolved(kernel):
        return nn.conv2d(x, kernel, padding="SAME")

    _, pull = aotc.vjp(convolved, np.zeros((3, 3, 16, 24), "bf16"))
    return pull(dy)


@aotc.entry(
    x=aotc.Spec((40, 64), "bf16"), y=aotc.Spec((40, 96), "bf16"), v=aotc.Spec((64, 96))
)
def rounded(x, y, v):
    """A matrix of f32, rounded by who packs it, and as it is and transposed."""
    narrow = np.astype(v, "bf16")
    return x @ narrow, y @ narrow.T


@aotc.entry(x=aotc.Spec((40, 48), "bf16"), q=aotc.Spec((48, 64), "i8"))
def by_bytes(x, q):
    """Bytes that change, of which floats are made before they are packed."""
    return x @ np.astype(q, "bf16")


@aotc.entry(x=aotc.Spec((20, 48), "bf16"))
def sums_of_f32(w, x):
    """Sums that are not rounded, and what follows in f32, of which bf16 are made."""
    axes = {"contract": ((1,), (0,))}
    y = dot_general(x, np.astype(w["square"], "bf16"), dtype="f32", **axes)
    z = nn.relu(y + w["bias"][:48])
    return y, np.astype(z, "bf16"), np.astype(z, "f16")


@aotc.entry(x=aotc.Spec((20, 48), "f16"))
def read_twice(w, x):
    """The rounded sums are a result, and what is computed from them, in f32."""
    y = x @ np.astype(w["square"], "f16")
    return y, np.astype(y, "f32") * w["bias"][:48]


@aotc.entry(x=aotc.Spec((20, 48), "f32"))
def rounded_before(w, x):
    """Operands that are rounded first, as mixed precision writes them."""
    y = np.astype(x, "bf16") @ np.astype(w["square"], "bf16")
    return np.tanh(np.astype(y, "f32")) + x


@aotc.entry(x=aotc.Spec((aotc.Dim("n", min=1, max=99), 37), "bf16"))
def any_rows(w, x):
    """Multiply as many rows as a call says."""
    return nn.relu(x @ np.astype(w["remainders"], "bf16"))


@aotc.entry(x=aotc.Spec((20, 37), "bf16"))
def joined(w, x):
    """Products of one left operand, of which one reads another."""
    parts = [np.astype(w["remainders"][:, i : i + 32], "bf16") for i in (0, 32, 64)]
    first, second, third = (x @ part for part in parts)
    return nn.relu(first) * second, third + np.asarray(0.3, "bf16")


@aotc.entry(x=aotc.Spec((8, 48), "f16"))
def overflowing(w, x):
    """Sums and what follows that f16 does not hold, nor numbers below the normal."""
    y = x @ np.astype(w["square"], "f16")
    large, small = np.asarray(3e4, "f16"), np.asarray(1e-7, "f16")
    return y * large, y * small, -(y * small)


@aotc.entry(x=aotc.Spec((20, 48), "bf16"))
def masked(w, x):
    """Mask cotangents by a comparison of sums that f32 reads as well."""
    y = x @ np.astype(w["square"], "bf16")

    def loss(y):
        return np.sum(np.astype(nn.relu(y), "f32") * np.astype(y, "f32"))

    return aotc.grad(loss)(y)
