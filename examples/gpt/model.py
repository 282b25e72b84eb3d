"""A small GPT that learns to continue a text, character by character.

    aotc build examples/gpt/model.py

Characters are their ASCII codes. `train_step` is forward, backward and AdamW in one
binary; `evaluate` gives the loss, and `predict` the logits of each next character.

Radford et al., "Language models are unsupervised multitask learners", 2019.
"""

import aotc
import aotc.numpy as np
from aotc import nn, optim, random

aotc.bundle(name="gpt", version="1.0.0")

VOCABULARY = 128
LAYERS = 2
WIDTH = 64
HEADS = 4
LENGTH = 64
BATCH = 16


def network(params, tokens):
    """Logits [batch, length, vocabulary] of the characters after tokens."""
    x = nn.embedding(params["tokens"], tokens) + params["positions"]
    for p in params["blocks"]:
        x = block(p, x)
    return nn.layer_norm(x, **params["norm"]) @ params["tokens"].T


def block(p, x):
    """Attention to what came before, then a dense network, both as residuals."""
    h = nn.layer_norm(x, **p["norm1"])
    x = x + nn.multi_head_attention(h, **p["attention"], causal=True)
    h = nn.layer_norm(x, **p["norm2"])
    return x + nn.dense(nn.gelu(nn.dense(h, **p["up"])), **p["down"])


def init(seed=0):
    """Fresh parameters: kernels are normal, biases zero."""
    keys = iter(random.split(random.key(seed), 2 + 6 * LAYERS))
    depth = WIDTH // HEADS

    def normal(*shape):
        return 0.08 * random.normal(next(keys), shape)

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
        "tokens": normal(VOCABULARY, WIDTH),
        "positions": normal(LENGTH, WIDTH),
        "blocks": [one_block() for _ in range(LAYERS)],
        "norm": norm(),
    }


def loss(params, tokens, targets):
    """Mean cross-entropy, in nats per character."""
    return nn.cross_entropy(network(params, tokens), targets).mean()


start = init()
optimizer = optim.adamw(2e-3)
state = aotc.State({"params": start, "moments": optimizer.init(start)})

text = aotc.Spec((BATCH, LENGTH), "i32")
any_text = aotc.Spec(("batch", LENGTH), "i32")


@aotc.entry(tokens=text, targets=text)
def train_step(state, tokens, targets):
    """One step of AdamW; keeps the new parameters and returns the loss."""
    params = state["params"]
    value, grads = aotc.value_and_grad(loss)(params, tokens, targets)
    updates, moments = optimizer.update(grads, state["moments"], params)
    params = optim.apply_updates(params, updates)
    return {"params": params, "moments": moments}, value


@aotc.entry(state=state.frozen, tokens=any_text, targets=any_text)
def evaluate(state, tokens, targets):
    """The loss of the parameters in training."""
    return loss(state["params"], tokens, targets)


@aotc.entry(state=state.frozen, tokens=any_text)
def predict(state, tokens):
    """The logits of each next character, by the parameters in training."""
    return network(state["params"], tokens)
