"""A step of low-rank adapters, for a decoder whose weights are a GGUF file.

`model.gguf`, beside this file, is written by `benchmarks/lora_step.py`. Adapters are
those of queries and values, as Hu et al. have them (ICLR 2022); the optimizer is Adam.
"""

import aotc
import aotc.numpy as np
from aotc import nn, optim

TOKENS = 256

weights = aotc.Weights.load("model.gguf")
_known = weights.metadata
_depth = int(_known["llama.rope.dimension_count"])
_layers = int(_known["llama.block_count"])


def network(weights, tokens):
    """Return the logits of the token after each."""
    x = nn.embedding(weights["token_embd"]["weight"].dequantize(), tokens)
    positions = np.arange(tokens.shape[1])
    for number in range(_layers):
        p = {k: w["weight"] for k, w in weights["blk"][str(number)].items()}
        h = nn.rms_norm(x, p["attn_norm"])
        heads = (*tokens.shape, -1, _depth)
        q, k, v = (np.reshape(p[f"attn_{name}"].linear(h), heads) for name in "qkv")
        q, k = (nn.rotary_embedding(y, positions[None]) for y in (q, k))
        y = nn.attention(q, k, v, causal=True)
        x = x + p["attn_output"].linear(np.reshape(y, x.shape))
        h = nn.rms_norm(x, p["ffn_norm"])
        gated = nn.silu(p["ffn_gate"].linear(h)) * p["ffn_up"].linear(h)
        x = x + p["ffn_down"].linear(gated)
    x = nn.rms_norm(x, weights["output_norm"]["weight"])
    return weights["output"]["weight"].linear(x)


tokens = aotc.Spec((1, TOKENS), "i32")
tuned = nn.lora(network, rank=8, alpha=16, layers=["*attn_q*", "*attn_v*"])
start = tuned.init(weights.tree, tokens)
optimizer = optim.adam(1e-3)
state = aotc.State({"adapters": start, "moments": optimizer.init(start)})


@aotc.entry(tokens=tokens, targets=tokens)
def train_step(state, weights, tokens, targets):
    """Return the state with adapters updated by one step, and the loss."""

    def loss(adapters):
        return nn.cross_entropy(tuned(adapters, weights, tokens), targets).mean()

    value, grads = aotc.value_and_grad(loss)(state["adapters"])
    updates, moments = optimizer.update(grads, state["moments"], state["adapters"])
    adapters = optim.apply_updates(state["adapters"], updates)
    return {"adapters": adapters, "moments": moments}, value
