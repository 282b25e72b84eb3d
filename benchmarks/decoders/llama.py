"""A step of a stack of LLaMA's kind that keeps its past, as `gpt2.py`.

`main` is the network of `models_zoo.decoders.LlamaStep`.
"""

import past

import aotc
import aotc.numpy as np
from aotc import nn

DEPTH = 64

weights = aotc.Weights.load("weights.npz")
cache = past.cache()


@aotc.entry(input_ids=past.token, position_ids=past.token)
def main(weights, cache, input_ids, position_ids):
    """Return the next token's logits; all sequences are at one position."""
    position = position_ids[0, 0].astype("i32")
    seen = np.arange(past.CAPACITY) <= position
    x = nn.embedding(weights["words"]["weight"], input_ids)
    new = []
    for number, old in enumerate(cache):
        p = weights["blocks"][str(number)]
        h, projections = norm(p["norms"]["0"], x), p["attention"]["inputs"]
        q, k, v = (
            linear(projections[n], h).reshape(past.BATCH, 1, -1, DEPTH)
            for n in ("0", "1", "2")
        )
        q, k = (nn.rotary_embedding(y, position_ids) for y in (q, k))
        held = past.with_position(old, k, v, position)
        y = nn.attention(q, held["key"], held["value"], mask=seen)
        x = x + linear(p["attention"]["output"], y.reshape(x.shape))
        h = norm(p["norms"]["1"], x)
        x = x + linear(p["down"], nn.silu(linear(p["gate"], h)) * linear(p["up"], h))
        new.append(held)
    return new, linear(weights["head"], norm(weights["norm"], x))


def linear(p, x):
    """Return `nn.Linear`'s result, without a bias, with PyTorch's weight layout."""
    return nn.dense(x, p["weight"].T)


def norm(p, x):
    """Return the RMS norm with PyTorch's parameter names."""
    return nn.rms_norm(x, p["weight"], epsilon=1e-5)
