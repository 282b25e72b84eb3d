"""Products whose right operand is given at each call: any order of axes, and batches.

A model file, which the tests beside it build.
"""

import numpy as onp

import aotc
import aotc.numpy as np
from aotc import nn
from aotc.tracing.tracing import emit

# what is summed, shapes of both operands
PRODUCTS = {
    "rows": ("mk,kn->mn", (49, 37), (37, 100)),
    "one_row": ("mk,kn->mn", (1, 64), (64, 200)),
    "narrow": ("mk,kn->mn", (65, 20), (20, 9)),
    "wide": ("mk,kn->mn", (70, 300), (300, 600)),
    "left_by_columns": ("km,kn->mn", (64, 49), (64, 40)),
    "right_by_columns": ("mk,nk->mn", (40, 33), (50, 33)),
    "both_by_columns": ("km,nk->mn", (33, 40), (50, 33)),
    "over_two_axes": ("abm,abn->mn", (4, 8, 30), (4, 8, 50)),
    "rows_of_two_axes": ("kab,kn->abn", (24, 3, 7), (24, 20)),
    "columns_of_two_axes": ("mk,kab->mab", (20, 24), (24, 3, 11)),
    "rows_around": ("akb,kn->abn", (3, 20, 24), (20, 17)),
    "rows_around_in_batch": ("cakb,ckn->cabn", (2, 3, 20, 24), (2, 20, 17)),
    "sums_at_two_distances": ("abm,ban->mn", (4, 8, 30), (8, 4, 50)),
    "columns_around": ("mk,akb->mab", (20, 24), (3, 24, 11)),
    "batch_of_one": ("bmk,bkn->bmn", (1, 20, 24), (1, 24, 20)),
    "batch": ("bmk,bkn->bmn", (5, 20, 24), (5, 24, 40)),
    "large_batch": ("bmk,bkn->bmn", (300, 9, 8), (300, 8, 16)),
    "batch_by_columns": ("bkm,bnk->bmn", (6, 33, 18), (6, 20, 33)),
    "scores": ("bqhd,bkhd->bhqk", (2, 30, 3, 16), (2, 17, 3, 16)),
    "scores_of_whole_panels": ("bqhd,bkhd->bhqk", (2, 30, 3, 16), (2, 64, 3, 16)),
    "mixed": ("bhqk,bkhd->bhqd", (2, 3, 17, 30), (2, 30, 3, 16)),
    "keys": ("bhqk,bqhd->bhkd", (2, 3, 17, 30), (2, 17, 3, 16)),
    "long_sums": ("km,kn->mn", (260, 128), (260, 1024)),
    "long_sums_over_two_axes": ("abm,abn->mn", (5, 52, 128), (5, 52, 1024)),
    "large_blocks": ("bmk,bkn->bmn", (2, 300, 80), (2, 80, 100)),
}
CONVOLUTIONS = {
    "same": ((2, 7, 9, 12), (3, 3, 12, 20), (1, 1), ((1, 1), (1, 1))),
    "stem": ((1, 15, 13, 3), (5, 5, 3, 40), (2, 2), ((2, 2), (2, 2))),
    "pointwise": ((2, 9, 7, 24), (1, 1, 24, 33), (1, 1), ((0, 0), (0, 0))),
}

_rng = onp.random.default_rng(0)
w = aotc.Weights(
    {
        "experts": _rng.normal(size=(4, 24, 40)).astype("f4"),
        "turned_experts": _rng.normal(size=(4, 40, 24)).astype("f4"),
        "large_experts": _rng.normal(size=(2, 512, 300)).astype("f4"),
    }
)


# image, window, features, strides, padding, dilation
GRADIENTS = {
    "same": ((2, 7, 9, 12), (3, 3), 20, (1, 1), ((1, 1), (1, 1)), (1, 1)),
    "strided": ((2, 9, 10, 8), (3, 2), 24, (2, 1), ((1, 0), (0, 1)), (1, 1)),
    "dilated": ((1, 12, 12, 8), (3, 3), 17, (1, 1), ((2, 2), (2, 2)), (2, 2)),
    "pointwise": ((2, 6, 6, 24), (1, 1), 32, (2, 2), ((0, 0), (0, 0)), (1, 1)),
}


def _product(name):
    subscripts, left, right = PRODUCTS[name]

    def entry(x, y):
        z = np.einsum(subscripts, x, y)
        return z, np.tanh(z) * 0.5

    entry.__name__ = f"product_{name}"
    return aotc.entry(x=aotc.Spec(left, "f32"), y=aotc.Spec(right, "f32"))(entry)


def _convolution(name):
    shape, kernel, strides, padding = CONVOLUTIONS[name]

    def entry(x, y):
        return nn.relu(nn.conv2d(x, y, strides=strides, padding=padding))

    entry.__name__ = f"convolution_{name}"
    return aotc.entry(x=aotc.Spec(shape, "f32"), y=aotc.Spec(kernel, "f32"))(entry)


def _gradient(name):
    shape, window, features, strides, padding, dilation = GRADIENTS[name]

    def entry(x, y):
        def loss(y):
            z = nn.conv2d(x, y, strides=strides, padding=padding, dilation=dilation)
            return np.sum(np.tanh(z))

        return aotc.grad(loss)(y) * 0.5

    entry.__name__ = f"gradient_{name}"
    kernel = (*window, shape[-1], features)
    return aotc.entry(x=aotc.Spec(shape, "f32"), y=aotc.Spec(kernel, "f32"))(entry)


for _name in GRADIENTS:
    globals()[f"gradient_{_name}"] = _gradient(_name)
for _name in PRODUCTS:
    globals()[f"product_{_name}"] = _product(_name)
for _name in CONVOLUTIONS:
    globals()[f"convolution_{_name}"] = _convolution(_name)


@aotc.entry(x=aotc.Spec((40, 24), "f32"))
def with_itself(x):
    """Both operands are one tensor, which is read again by what follows."""
    gram = x.T @ x
    return gram + 1.0, nn.relu(x @ x.T) - 1.0


@aotc.entry(x=aotc.Spec((24, 24), "f32"))
def squared(x):
    """Both operands, and what is added, are one tensor."""
    return x @ x + x, nn.relu(x @ x.T + x)


@aotc.entry(x=aotc.Spec((4, 10, 24), "f32"), bias=aotc.Spec((4, 1, 40), "f32"))
def experts(w, x, bias):
    """Weights in a batch, packed, and what differs from product to product is added."""
    return nn.relu(x @ w["experts"] + bias) @ w["turned_experts"]


@aotc.entry(x=aotc.Spec((4, 10, 24), "f32"), bias=aotc.Spec((40,), "f32"))
def experts_by_columns(w, x, bias):
    """Multiply by the weights from the other side, with one bias for all products."""
    return np.einsum("emk,enk->emn", x, w["turned_experts"]) + bias


@aotc.entry(x=aotc.Spec((2, 70, 512), "f32"))
def experts_fetched_ahead(w, x):
    """The last panel of a product fetches the first one of the next."""
    return x @ w["large_experts"]


@aotc.entry(x=aotc.Spec((2, 40, 24), "f32"), y=aotc.Spec((2, 33, 24), "f32"))
def of_transposes(x, y):
    """Transposes before products: of both operands, of the batch, one that stays."""
    both = x[0] @ y[0].T + np.einsum("km,kn->mn", x[1].T, y[1].T)
    batch = np.transpose(x, (0, 2, 1)) @ x
    uneven = np.reshape(np.transpose(x, (2, 0, 1)), (24, 80)).T @ x[0].T
    return both, batch, uneven


@aotc.entry(x=aotc.Spec((64, 48), "f32"), y=aotc.Spec((64, 32), "f32"))
def gradients(x, y):
    """A product and its derivative by both operands."""

    def loss(pair):
        return np.sum(np.tanh(pair[0] @ pair[1]) * y)

    z, grads = aotc.value_and_grad(loss)((x, x.T @ y))
    return z, grads[0], grads[1]


@aotc.entry(x=aotc.Spec((600, 48), "f32"), y=aotc.Spec((600, 256), "f32"))
def of_one_long_operand(x, y):
    """Two products of the same rows, which lie side by side."""
    return x.T @ y, x.T @ np.tanh(y)


@aotc.entry(x=aotc.Spec((2, 9, 11, 8), "f32"), y=aotc.Spec((8, 8), "f32"))
def of_windows(x, y):
    """Windows are both operands, and the left one that is added to the product."""
    windows = emit("windows", x, window=(2, 9), strides=(1, 1), dilation=(1, 1))
    given = {"lhs_batch": (), "rhs_batch": (), "dtype": "f32"}
    shared = {"lhs_contract": (0, 1, 2), "rhs_contract": (0, 1, 2)}
    one = {"lhs_contract": (5,), "rhs_contract": (0,)}
    both = emit("dot_general", windows, windows, **given, **shared)
    return both, emit("dot_general", windows, y, **given, **one) + windows
