"""A decoder of LLaMA's kind with the sizes of its weights, to measure builds with.

`weights.safetensors`, beside this file, is written by `benchmarks/build_memory.py`.
"""

import numpy

import aotc
import aotc.numpy as np
from aotc import nn

DEPTH = 64  # of a head
CAPACITY = 256  # positions that there is room for
PROMPT = 128  # tokens that are read at once

weights = aotc.Weights.load("weights.safetensors")
_tree = weights.tree
_kind = _tree["words"].dtype
_width = _tree["words"].shape[1]
cache = aotc.State(
    [
        {
            name: numpy.zeros((1, CAPACITY, _width // DEPTH, DEPTH), _kind)
            for name in ("key", "value")
        }
        for _ in _tree["layers"]
    ]
)


@aotc.entry(tokens=aotc.Spec((1, PROMPT), "i32"))
def prefill(weights, cache, tokens):
    """Write a prompt's keys and values to the cache; return the next token's logits."""
    return run(weights, cache, tokens, np.arange(PROMPT))


@aotc.entry(tokens=aotc.Spec((1, 1), "i32"), position=aotc.Spec((), "i32"))
def step(weights, cache, tokens, position):
    """Write one token's keys and values to the cache; return the next token's
    logits.
    """
    return run(weights, cache, tokens, np.reshape(position, (1,)))


def run(weights, cache, tokens, positions):
    """Run the decoder on tokens; return new cache entries and the last token's
    logits.
    """
    x = nn.embedding(weights["words"], tokens)
    seen = np.arange(CAPACITY)[None, :] <= positions[:, None]
    new = []
    for number, old in enumerate(cache):
        p = weights["layers"][str(number)]
        h = nn.rms_norm(x, p["before"])
        heads = (1, tokens.shape[1], -1, DEPTH)
        q, k, v = (np.reshape(h @ p[name].T, heads) for name in "qkv")
        q, k = (nn.rotary_embedding(y, positions[None]) for y in (q, k))
        held = {
            name: np.dynamic_update_slice(old[name], y, [0, positions[0], 0, 0])
            for name, y in (("key", k), ("value", v))
        }
        y = nn.attention(q, held["key"], held["value"], mask=seen)
        x = x + np.reshape(y, x.shape) @ p["o"].T
        h = nn.rms_norm(x, p["after"])
        x = x + (nn.silu(h @ p["gate"].T) * (h @ p["up"].T)) @ p["down"].T
        new.append(held)
    return new, nn.rms_norm(x[:, -1], weights["norm"]) @ weights["head"].T
