"""A small decoder of LLaMA's kind that reads characters, to be trained and rounded.

`train_step` is forward, backward and AdamW; `predict` gives the logits of each next
character, by the weights of the GGUF file that is beside this one, in any type
(`benchmarks/precision_gguf.py` writes it).
"""

from pathlib import Path

import aotc
import aotc.numpy as np
from aotc import nn, optim, random

VOCABULARY = 128
LAYERS = 4
WIDTH, HIDDEN = 256, 512  # K types have blocks of 256
HEADS = 4
LENGTH, BATCH = 64, 16
FILE = Path(__file__).with_name("model.gguf")

MATRICES = {
    **{f"attn_{name}": (WIDTH, WIDTH) for name in ("q", "k", "v", "output")},
    **{f"ffn_{name}": (HIDDEN, WIDTH) for name in ("gate", "up")},
    "ffn_down": (WIDTH, HIDDEN),
}


def init(seed=0):
    """Fresh parameters, by the names of a GGUF file: matrices normal, norms one."""
    keys = iter(random.split(random.key(seed), 2 + len(MATRICES) * LAYERS))

    def normal(shape):
        return {"weight": shape[1] ** -0.5 * random.normal(next(keys), shape)}

    def norm():
        return {"weight": np.ones(WIDTH)}

    def layer():
        matrices = {name: normal(shape) for name, shape in MATRICES.items()}
        return {**matrices, "attn_norm": norm(), "ffn_norm": norm()}

    return {
        "token_embd": normal((VOCABULARY, WIDTH)),
        "blk": {str(number): layer() for number in range(LAYERS)},
        "output_norm": norm(),
        "output": normal((VOCABULARY, WIDTH)),
    }


def network(weights, tokens):
    """Return the logits [batch, length, vocabulary] of each token's successor."""
    table = weights["token_embd"]["weight"]
    is_quantized = isinstance(table, nn.QuantizedWeights)
    x = nn.embedding(table.dequantize() if is_quantized else table, tokens)
    positions = np.arange(tokens.shape[1])[None]
    for number in range(LAYERS):
        x = layer(weights["blk"][str(number)], x, positions)
    x = nn.rms_norm(x, weights["output_norm"]["weight"])
    return linear(x, weights["output"])


def layer(p, x, positions):
    """Return the activations after one block: causal attention and a gated network."""
    h = nn.rms_norm(x, p["attn_norm"]["weight"])
    heads = (*x.shape[:2], HEADS, WIDTH // HEADS)
    q, k, v = (np.reshape(linear(h, p[f"attn_{name}"]), heads) for name in "qkv")
    q, k = (nn.rotary_embedding(y, positions) for y in (q, k))
    y = nn.attention(q, k, v, causal=True)
    x = x + linear(np.reshape(y, x.shape), p["attn_output"])
    h = nn.rms_norm(x, p["ffn_norm"]["weight"])
    h = nn.silu(linear(h, p["ffn_gate"])) * linear(h, p["ffn_up"])
    return x + linear(h, p["ffn_down"])


def linear(x, p):
    """Return `x @ p.T` for a weight [outputs, inputs], quantised or not."""
    weight = p["weight"]
    if isinstance(weight, nn.QuantizedWeights):
        return weight.linear(x)
    return x @ weight.T


def loss(params, tokens, targets):
    """Return the mean cross-entropy of the next characters, in nats per character."""
    return nn.cross_entropy(network(params, tokens), targets).mean()


optimizer = optim.adamw(1e-3)

if FILE.exists():
    weights = aotc.Weights.load(FILE)

    @aotc.entry(tokens=aotc.Spec(("batch", LENGTH), "i32"))
    def predict(weights, tokens):
        """The logits of each next character."""
        return network(weights, tokens)

else:
    start = init()
    state = aotc.State({"params": start, "moments": optimizer.init(start)})
    batch = aotc.Spec((BATCH, LENGTH), "i32")

    @aotc.entry(tokens=batch, targets=batch)
    def train_step(state, tokens, targets):
        """One step of AdamW; keeps the new parameters and returns the loss."""
        params = state["params"]
        value, grads = aotc.value_and_grad(loss)(params, tokens, targets)
        updates, moments = optimizer.update(grads, state["moments"], params)
        params = optim.apply_updates(params, updates)
        return {"params": params, "moments": moments}, value
