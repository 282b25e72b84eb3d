"""A step of GPT-2 that keeps its past: weights.npz and inputs.npz lie beside it.

`main` is the network of `models_zoo.decoders.Gpt2Step`, with weights under PyTorch's
names.
"""

import past

import aotc
import aotc.numpy as np
from aotc import nn

HEADS = 12

weights = aotc.Weights.load("weights.npz")
cache = past.cache()


@aotc.entry(input_ids=past.token, position_ids=past.token)
def main(weights, cache, input_ids, position_ids):
    """Return the next token's logits; all sequences are at one position."""
    position = position_ids[0, 0].astype("i32")
    seen = np.arange(past.CAPACITY) <= position
    x = nn.embedding(weights["words"]["weight"], input_ids)
    x = x + nn.embedding(weights["positions"]["weight"], position_ids)
    new = []
    for number, old in enumerate(cache):
        p = weights["blocks"][str(number)]
        projected = linear(p["attention"]["inputs"]["0"], norm(p["norms"]["0"], x))
        q, k, v = (
            y.reshape(past.BATCH, 1, HEADS, -1) for y in np.split(projected, 3, axis=-1)
        )
        held = past.with_position(old, k, v, position)
        y = nn.attention(q, held["key"], held["value"], mask=seen)
        x = x + linear(p["attention"]["output"], y.reshape(x.shape))
        y = nn.gelu(linear(p["mlp"]["0"], norm(p["norms"]["1"], x)), approximate=True)
        x = x + linear(p["mlp"]["2"], y)
        new.append(held)
    return new, norm(weights["norm"], x) @ weights["words"]["weight"].T


def linear(p, x):
    """Return `nn.Linear`'s result with PyTorch's weight layout."""
    return nn.dense(x, p["weight"].T, p["bias"])


def norm(p, x):
    """Return the layer norm with PyTorch's parameter names."""
    return nn.layer_norm(x, p["weight"], p["bias"], epsilon=1e-5)
