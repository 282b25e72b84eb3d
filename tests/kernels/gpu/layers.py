"""A layer of BERT, a block of ResNet, a step of a decoder and one of training.

A model file, which the tests beside it build.
"""

import numpy

import aotc
import aotc.numpy as np
from aotc import nn, optim

WIDTH, HEADS, HIDDEN, LENGTH, CHANNELS, SIZE = 64, 4, 128, 16, 16, 10
rng = numpy.random.default_rng(0)


def kernel(*shape):
    return (0.1 * rng.normal(size=shape)).astype("f4")


def norm():
    return {"scale": numpy.ones(WIDTH, "f4"), "bias": numpy.zeros(WIDTH, "f4")}


def dense(inputs, outputs):
    return {"kernel": kernel(inputs, outputs), "bias": numpy.zeros(outputs, "f4")}


DEPTH = WIDTH // HEADS
weights = aotc.Weights(
    {
        "norm1": norm(),
        "attention": {
            **{name: kernel(WIDTH, HEADS, DEPTH) for name in ("query", "key", "value")},
            "output": kernel(HEADS, DEPTH, WIDTH),
        },
        "norm2": norm(),
        "up": dense(WIDTH, HIDDEN),
        "down": dense(HIDDEN, WIDTH),
        "conv1": kernel(3, 3, CHANNELS, CHANNELS),
        "conv2": kernel(3, 3, CHANNELS, CHANNELS),
    }
)


@aotc.entry(x=aotc.Spec(("batch", LENGTH, WIDTH)))
def bert_layer(weights, x):
    """Attention, then a dense network, both as residuals."""
    x = nn.layer_norm(x + nn.multi_head_attention(x, **weights["attention"]))
    h = nn.dense(nn.gelu(nn.dense(x, **weights["up"])), **weights["down"])
    return nn.layer_norm(x + h, **weights["norm2"])


@aotc.entry(x=aotc.Spec((2, SIZE, SIZE, CHANNELS)))
def resnet_block(weights, x):
    """Two convolutions beside a shortcut."""
    h = nn.relu(nn.conv2d(x, weights["conv1"], padding="SAME"))
    return nn.relu(nn.conv2d(h, weights["conv2"], padding="SAME") + x)


cache = aotc.State(
    {name: numpy.zeros((1, LENGTH, HEADS, DEPTH), "f4") for name in "kv"}
)


@aotc.entry(state=cache, x=aotc.Spec((1, 1, WIDTH)), position=aotc.Spec((), "i32"))
def decode(state, weights, x, position):
    """One token, whose key and value join those of the others."""
    p, h = weights["attention"], nn.layer_norm(x, **weights["norm1"])
    q, k, v = (
        np.einsum("bld,dhe->blhe", h, p[name]) for name in ("query", "key", "value")
    )
    keys, values = (
        np.where((np.arange(LENGTH) == position)[None, :, None, None], new, old)
        for new, old in ((k, state["k"]), (v, state["v"]))
    )
    seen = (np.arange(LENGTH) <= position)[None, None, None, :]
    found = nn.attention(q, keys, values, mask=seen)
    x = x + np.einsum("blhe,hed->bld", found, p["output"])
    h = nn.gelu(nn.dense(nn.layer_norm(x, **weights["norm2"]), **weights["up"]))
    return {"k": keys, "v": values}, x + nn.dense(h, **weights["down"])


start = [dense(WIDTH, HIDDEN), dense(HIDDEN, 10)]
optimizer = optim.adam(1e-2)
trained = aotc.State({"params": start, "moments": optimizer.init(start)})


@aotc.entry(state=trained, x=aotc.Spec((32, WIDTH)), labels=aotc.Spec((32,), "i32"))
def train_mlp(state, x, labels):
    """A step of Adam for a dense network of two layers; returns the loss."""

    def loss(params):
        first, second = params
        logits = nn.dense(nn.relu(nn.dense(x, **first)), **second)
        return nn.cross_entropy(logits, labels).mean()

    params = state["params"]
    value, gradients = aotc.value_and_grad(loss)(params)
    updates, moments = optimizer.update(gradients, state["moments"], params)
    return {"params": optim.apply_updates(params, updates), "moments": moments}, value
