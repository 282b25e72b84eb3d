"""A decoder that keeps keys and values, and the same network over whole sequences."""

import numpy

import aotc
from aotc import nn
from aotc import numpy as np

CAPACITY, WIDTH, HEADS, SHARED, DEPTH, WORDS, BATCH = 40, 64, 4, 2, 16, 50, 2
rng = numpy.random.default_rng(0)


def normal(*shape):
    return 0.3 * rng.standard_normal(shape, "f4")


def block():
    """Parameters of one layer."""
    return {
        "query": normal(WIDTH, HEADS, DEPTH),
        "key": normal(WIDTH, SHARED, DEPTH),
        "value": normal(WIDTH, SHARED, DEPTH),
        "output": normal(HEADS, DEPTH, WIDTH),
        "gate": normal(WIDTH, 2 * WIDTH),
        "up": normal(WIDTH, 2 * WIDTH),
        "down": normal(2 * WIDTH, WIDTH),
    }


weights = aotc.Weights(
    {"words": normal(WORDS, WIDTH), "blocks": [block() for _ in range(2)]}
)
empty = numpy.zeros((BATCH, CAPACITY, SHARED, DEPTH), "f4")
cache = aotc.State([{"key": empty, "value": empty} for _ in range(2)])


def network(weights, tokens, positions, attend):
    """Scores of the next words; `attend(layer, query, key, value)` knows the past."""
    x = nn.embedding(weights["words"], tokens)
    for number, p in enumerate(weights["blocks"]):
        h = nn.rms_norm(x)
        query, key, value = (
            np.tensordot(h, p[name], 1) for name in ("query", "key", "value")
        )
        query, key = (nn.rotary_embedding(y, positions) for y in (query, key))
        x = x + np.tensordot(attend(number, query, key, value), p["output"], 2)
        h = nn.rms_norm(x)
        x = x + (nn.silu(h @ p["gate"]) * (h @ p["up"])) @ p["down"]
    return nn.rms_norm(x) @ weights["words"].T


@aotc.entry(tokens=aotc.Spec((BATCH, 1), "i32"), position=aotc.Spec((), "i32"))
def decode(weights, cache, tokens, position):
    """Scores after one more token of each sequence."""
    new = []

    def attend(layer, query, key, value):
        start = [0, position, 0, 0]
        key = np.dynamic_update_slice(cache[layer]["key"], key, start)
        value = np.dynamic_update_slice(cache[layer]["value"], value, start)
        new.append({"key": key, "value": value})
        return nn.attention(query, key, value, mask=np.arange(CAPACITY) <= position)

    scores = network(weights, tokens, np.reshape(position, (1,)), attend)
    return new, scores[:, 0]


@aotc.entry(tokens=aotc.Spec((BATCH, CAPACITY), "i32"))
def predict(weights, tokens):
    """Scores after each token of whole sequences."""

    def attend(layer, query, key, value):
        return nn.attention(query, key, value, causal=True)

    return network(weights, tokens, None, attend)
