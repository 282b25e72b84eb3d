"""A small BERT that learns to fill in masked characters of a text.

    aotc build examples/bert/model.py

Characters are their ASCII codes; PAD fills up short pieces and is not attended to, and
MASK stands where a character is to be guessed. `predict` gives the logits of each one.

Devlin, Chang, Lee and Toutanova, "BERT: pre-training of deep bidirectional transformers
for language understanding", NAACL 2019; normalised before each layer, as GPT is.
"""

import aotc
import aotc.numpy as np
from aotc import nn, optim, random

aotc.bundle(name="bert", version="1.0.0")

VOCABULARY = 128
PAD, MASK, NOT_ASKED = 0, 1, -1
LAYERS = 2
WIDTH = 64
HEADS = 4
LENGTH = 32
BATCH = 32


def network(params, tokens):
    """Logits [batch, length, vocabulary] of the characters that tokens stand for."""
    x = nn.embedding(params["tokens"], tokens) + params["positions"]
    seen = (tokens != PAD)[:, None, None, :]
    for p in params["blocks"]:
        x = block(p, x, seen)
    x = nn.layer_norm(x, **params["norm"])
    return nn.dense(x, params["tokens"].T, params["bias"])


def block(p, x, seen):
    """Attention to what is seen, then a dense network, both as residuals."""
    h = nn.layer_norm(x, **p["norm1"])
    x = x + nn.multi_head_attention(h, **p["attention"], mask=seen)
    h = nn.layer_norm(x, **p["norm2"])
    return x + nn.dense(nn.gelu(nn.dense(h, **p["up"])), **p["down"])


def init(seed=0):
    """Fresh parameters: kernels are normal, biases zero."""
    keys = iter(random.split(random.key(seed), 2 + 6 * LAYERS))
    depth = WIDTH // HEADS

    def normal(*shape, deviation=0.08):
        return deviation * random.normal(next(keys), shape)

    def dense(inputs, outputs):
        return {"kernel": normal(inputs, outputs), "bias": np.zeros(outputs)}

    def norm():
        return {"scale": np.ones(WIDTH), "bias": np.zeros(WIDTH)}

    def attention():
        kernels = {name: normal(WIDTH, HEADS, depth) for name in ("query", "key")}
        value, output = normal(WIDTH, HEADS, depth), normal(HEADS, depth, WIDTH)
        return {**kernels, "value": value, "output": output}

    def one_block():
        return {
            "norm1": norm(), "attention": attention(), "norm2": norm(),
            "up": dense(WIDTH, 4 * WIDTH), "down": dense(4 * WIDTH, WIDTH),
        }  # fmt: skip

    return {
        "tokens": normal(VOCABULARY, WIDTH, deviation=0.2),
        "positions": normal(LENGTH, WIDTH, deviation=0.2),
        "blocks": [one_block() for _ in range(LAYERS)],
        "norm": norm(),
        "bias": np.zeros(VOCABULARY),
    }


def loss(params, tokens, targets):
    """Mean cross-entropy where a target is asked for, in nats per character."""
    logits = network(params, tokens)
    return nn.cross_entropy(logits, targets, ignore_index=NOT_ASKED, reduction="mean")


start = init()
optimizer = optim.adamw(5e-3)
state = aotc.State({"params": start, "moments": optimizer.init(start)})

text = aotc.Spec((BATCH, LENGTH), "i32")


@aotc.entry(tokens=text, targets=text)
def train_step(state, tokens, targets):
    """One step of AdamW; keeps the new parameters and returns the loss."""
    params = state["params"]
    value, grads = aotc.value_and_grad(loss)(params, tokens, targets)
    updates, moments = optimizer.update(grads, state["moments"], params)
    params = optim.apply_updates(params, updates)
    return {"params": params, "moments": moments}, value


@aotc.entry(state=state.frozen, tokens=aotc.Spec(("batch", LENGTH), "i32"))
def predict(state, tokens):
    """The logits of each character, by the parameters in training."""
    return network(state["params"], tokens)
