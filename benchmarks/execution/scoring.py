"""A small language model that scores texts: the evidence of docs/execution-models.md.

    python benchmarks/execution/traffic.py scoring > scoring.csv
    aotc bench benchmarks/execution/scoring.py --traffic scoring.csv

A GPT of 4 layers and width 256. `score` takes one request of 1 to 512 tokens, and the
token that follows each of them; it gives the logarithms of their probabilities, which
sum up to the score of the text. Weights are random: what they are makes no difference
to the time.
"""

import numpy

import aotc
import aotc.numpy as np
from aotc import nn

aotc.bundle(name="scoring", version="1.0.0")

VOCABULARY, LAYERS, WIDTH, HEADS, LONGEST = 4096, 4, 256, 4, 512
rng = numpy.random.default_rng(0)


def normal(*shape):
    """Return random normal weights of a shape."""
    return 0.05 * rng.standard_normal(shape, "f4")


def dense(inputs, outputs):
    """Return random parameters of a dense layer."""
    return {"kernel": normal(inputs, outputs), "bias": numpy.zeros(outputs, "f4")}


def norm():
    """Return the initial parameters of a layer norm."""
    return {"scale": numpy.ones(WIDTH, "f4"), "bias": numpy.zeros(WIDTH, "f4")}


def block():
    """Return random parameters of a transformer block."""
    depth = WIDTH // HEADS
    kernels = {name: normal(WIDTH, HEADS, depth) for name in ("query", "key", "value")}
    return {
        "norm1": norm(),
        "attention": {**kernels, "output": normal(HEADS, depth, WIDTH)},
        "norm2": norm(),
        "up": dense(WIDTH, 4 * WIDTH),
        "down": dense(4 * WIDTH, WIDTH),
    }


weights = aotc.Weights(
    {
        "tokens": normal(VOCABULARY, WIDTH),
        "positions": normal(LONGEST, WIDTH),
        "blocks": [block() for _ in range(LAYERS)],
        "norm": norm(),
    }
)
length = aotc.Dim("length", max=LONGEST)


tokens = aotc.Spec((1, length), "i32")


@aotc.entry(tokens=tokens, following=tokens)
def score(weights, tokens, following):
    """Return log probabilities [1, length] of the following tokens, given those
    before.
    """
    positions = nn.embedding(weights["positions"], np.arange(tokens.shape[1]))
    x = nn.embedding(weights["tokens"], tokens) + positions
    for p in weights["blocks"]:
        h = nn.layer_norm(x, **p["norm1"])
        x = x + nn.multi_head_attention(h, **p["attention"], causal=True)
        h = nn.layer_norm(x, **p["norm2"])
        x = x + nn.dense(nn.gelu(nn.dense(h, **p["up"])), **p["down"])
    logits = nn.layer_norm(x, **weights["norm"]) @ weights["tokens"].T
    return -nn.cross_entropy(logits, following)
