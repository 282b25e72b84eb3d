"""A layer of a transformer's encoder in bf16."""

import aotc
import aotc.numpy as np
from aotc import nn, random

aotc.bundle(name="encoder", version="1.0.0")

WIDTH, HEADS, HIDDEN, LENGTH = 256, 4, 1024, 128


def init():
    """Return random parameters in bf16."""
    keys = iter(random.split(random.key(0), 6))
    depth = WIDTH // HEADS

    def kernel(*shape):
        return np.astype(0.06 * random.normal(next(keys), shape), "bf16")

    def norm():
        return {"scale": np.ones(WIDTH, "bf16"), "bias": np.zeros(WIDTH, "bf16")}

    attention = {name: kernel(WIDTH, HEADS, depth) for name in ("query", "key")}
    attention |= {"value": kernel(WIDTH, HEADS, depth)}
    attention |= {"output": kernel(HEADS, depth, WIDTH)}
    return {
        "norm1": norm(),
        "attention": attention,
        "norm2": norm(),
        "up": {"kernel": kernel(WIDTH, HIDDEN), "bias": np.zeros(HIDDEN, "bf16")},
        "down": {"kernel": kernel(HIDDEN, WIDTH), "bias": np.zeros(WIDTH, "bf16")},
    }


weights = aotc.Weights(init())


@aotc.entry(x=aotc.Spec(("batch", LENGTH, WIDTH), "bf16"))
def encode(weights, x):
    """Return the result of attention and a dense network, both as residuals."""
    h = nn.layer_norm(x, **weights["norm1"])
    x = x + nn.multi_head_attention(h, **weights["attention"])
    h = nn.layer_norm(x, **weights["norm2"])
    return x + nn.dense(nn.gelu(nn.dense(h, **weights["up"])), **weights["down"])
