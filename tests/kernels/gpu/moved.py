"""Transposes, concatenations, gates and rotary embeddings, as GPU kernels have them.

A model file, which the tests beside it build.
"""

import numpy

import aotc
import aotc.numpy as np
from aotc import nn


@aotc.entry(x=aotc.Spec((3, 70, 130)), b=aotc.Spec((130,)))
def transposed(x, b):
    """Elementwise ops before a transpose of sides that no tile divides."""
    return np.transpose(nn.relu(x + b), (0, 2, 1))


@aotc.entry(x=aotc.Spec(("n", 40, 36), "bf16"), y=aotc.Spec((36, "n", 40), "bf16"))
def transposed_between(x, y):
    """A transpose that what is computed after it reads, of a size that a call has."""
    return np.tanh(np.transpose(x, (2, 0, 1))) * y


@aotc.entry(x=aotc.Spec((aotc.Dim("count", min=0), 64, 16)))
def transposed_in_whole_tiles(x):
    """Tiles without masks, of which a call with no matrices has none."""
    return np.transpose(np.exp(x), (0, 2, 1))


@aotc.entry(x=aotc.Spec((1, 5, 5, 32)), w=aotc.Spec((32, 32, 3, 3)))
def turned(x, w):
    """The gradient of an image, by a kernel that is transposed and then turned."""

    def loss(x):
        return (nn.conv(x, np.transpose(w, (2, 3, 1, 0)), padding="SAME") ** 2).sum()

    return aotc.grad(loss)(x)


@aotc.entry(x=aotc.Spec((60, 100)))
def transposed_twice(x):
    """Two readers of one transpose, of which one is a result."""
    y = np.transpose(x)
    return y, y * y - 1


@aotc.entry(x=aotc.Spec(("n", 50)), y=aotc.Spec(("n", 70)), z=aotc.Spec(("n", 20)))
def concatenated(x, y, z):
    """Parts of their own sizes, of which the kernel computes some."""
    return np.concatenate([np.exp(x), y, z * 2 + 1], axis=1)


@aotc.entry(x=aotc.Spec((16, 512)))
def gated(x):
    """Halves of one tensor: the gate of a SwiGLU."""
    gate, value = np.split(x, 2, axis=1)
    return nn.silu(gate) * value


@aotc.entry(x=aotc.Spec(("n", 512), "f16"))
def gated_by_gelu(x):
    """The gate of a GEGLU, of columns in turn."""
    return nn.gelu(x[:, ::2]) * x[:, 1::2]


@aotc.entry(
    q=aotc.Spec((2, "n", 4, 32)), c=aotc.Spec(("n", 16)), s=aotc.Spec(("n", 16))
)
def rotated(q, c, s):
    """A rotary embedding of a query, whose angles all heads share."""
    first, second = np.split(q, 2, axis=-1)
    c, s = c[:, None], s[:, None]
    return np.concatenate([first * c - second * s, second * c + first * s], axis=-1)


@aotc.entry(x=aotc.Spec((64, 80), "i32"))
def reversed_integers(x):
    """Integers, backwards."""
    return np.flip(x, 0) + x


@aotc.entry(x=aotc.Spec((64, 80)))
def masked(x):
    """Positions, and a choice by what is transposed."""
    y = np.transpose(x)
    return np.where(np.arange(64) > 20, y, 0.0)


@aotc.entry(x=aotc.Spec((64, 80)), table=aotc.Spec((9, 64)), at=aotc.Spec((80,), "i32"))
def looked_up(x, table, at):
    """A transpose, and what is looked up, are one kernel."""
    return np.transpose(x) + table[at]


state = aotc.State({name: numpy.zeros((64, 80), "f4") for name in "mv"})


@aotc.entry(state=state, g=aotc.Spec((80, 64)))
def stepped(state, g):
    """A transposed gradient, and states that are written in place."""
    g = np.transpose(g)
    m, v = state["m"] * 0.9 + g, state["v"] * 0.99 + g * g
    return {"m": m, "v": v}, np.sum(m)
