"""A decoder of LLaMA's kind whose weights are a GGUF file, in any type that is read.

`model.gguf`, beside this file, is written by `benchmarks/decoder_table.py`. Weights of
bf16 are multiplied by rows of bf16, all others by rows of f32.
"""

import numpy

import aotc
import aotc.numpy as np
from aotc import nn

CAPACITY = 256  # positions that there is room for
PROMPT = 128  # tokens that are read at once

weights = aotc.Weights.load("model.gguf")
_known, _tree = weights.metadata, weights.tree
_depth = int(_known["llama.rope.dimension_count"])
_layers = int(_known["llama.block_count"])
_heads = int(_known["llama.attention.head_count_kv"])
_table = _tree["token_embd"]["weight"]
_is_narrow = not isinstance(_table, nn.QuantizedWeights) and _table.dtype.itemsize == 2
_kind = _table.dtype if _is_narrow else numpy.dtype("f4")
cache = aotc.State(
    [
        {
            name: numpy.zeros((1, _heads, CAPACITY, _depth), _kind)
            for name in ("key", "value")
        }
        for _ in range(_layers)
    ]
)


@aotc.entry(tokens=aotc.Spec((1, PROMPT), "i32"))
def prefill(weights, cache, tokens):
    """Write a prompt's keys and values to the cache; return the next token's logits."""

    def attend(held, q, k, v):
        return nn.attention(q, k, v, causal=True)

    return run(weights, cache, tokens, np.arange(PROMPT), attend)


@aotc.entry(tokens=aotc.Spec((1, 1), "i32"), position=aotc.Spec((), "i32"))
def step(weights, cache, tokens, position):
    """Write one token's keys and values to the cache; return the next token's
    logits.
    """
    seen = np.arange(CAPACITY)[None, :] <= position

    def attend(held, q, k, v):
        keys, values = (by_heads(held[name]) for name in ("key", "value"))
        return nn.attention(q, keys, values, mask=seen)

    return run(weights, cache, tokens, np.reshape(position, (1,)), attend)


def by_heads(x):
    """Swap the axes of positions and heads."""
    return np.transpose(x, (0, 2, 1, 3))


def linear(x, weight):
    """Return `x @ weight.T` for a weight [outputs, inputs], quantised or not."""
    if isinstance(weight, nn.QuantizedWeights):
        return weight.linear(x)
    return x @ weight.T


def norm(x, weight):
    """Return the rows divided by their root mean square, times the weight."""
    return nn.rms_norm(x, np.astype(weight, x.dtype))


def run(weights, cache, tokens, positions, attend):
    """Run the decoder on tokens; return new cache entries and the last token's
    logits.
    """
    table = weights["token_embd"]["weight"]
    is_quantized = isinstance(table, nn.QuantizedWeights)
    x = nn.embedding(table.dequantize() if is_quantized else table, tokens)
    new = []
    for number, old in enumerate(cache):
        p = {k: w["weight"] for k, w in weights["blk"][str(number)].items()}
        h = norm(x, p["attn_norm"])
        heads = (1, tokens.shape[1], -1, _depth)
        q, k, v = (np.reshape(linear(h, p[f"attn_{name}"]), heads) for name in "qkv")
        q, k = (nn.rotary_embedding(y, positions[None]) for y in (q, k))
        held = {
            name: np.dynamic_update_slice(
                old[name], by_heads(y), [0, 0, positions[0], 0]
            )
            for name, y in (("key", k), ("value", v))
        }
        y = np.reshape(attend(held, q, k, v), x.shape)
        x = x + linear(y, p["attn_output"])
        h = norm(x, p["ffn_norm"])
        gated = nn.silu(linear(h, p["ffn_gate"])) * linear(h, p["ffn_up"])
        x = x + linear(gated, p["ffn_down"])
        new.append(held)
    last = norm(x[:, -1], weights["output_norm"]["weight"])
    return new, linear(last, weights["output"]["weight"])
