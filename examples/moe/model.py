"""A transformer with experts that learns to continue a text, character by character.

    aotc build examples/moe/model.py

A GPT (examples/gpt) whose dense networks are mixtures: a router sends each character to
two of the experts of its layer, which have room for CAPACITY characters of a piece of
text; those that come too late are left to the residual. A second term of the loss
spreads the characters over the experts.

Shazeer et al., ICLR 2017; Lepikhin et al., "GShard", ICLR 2021; Fedus, Zoph and
Shazeer, "Switch transformers", JMLR 23 (2022).
"""

import aotc
import aotc.numpy as np
from aotc import nn, optim, random

aotc.bundle(name="moe", version="1.0.0")

VOCABULARY = 128
LAYERS = 2
WIDTH = 64
HEADS = 4
EXPERTS = 4
CHOSEN = 2
LENGTH = 64
CAPACITY = LENGTH * CHOSEN * 5 // (EXPERTS * 4)  # a quarter more than on average
BALANCE = 0.01
BATCH = 16


def network(params, tokens):
    """Logits [batch, length, vocabulary] of the characters after tokens; routings."""
    x = nn.embedding(params["tokens"], tokens) + params["positions"]
    routings = []
    for p in params["blocks"]:
        h = nn.layer_norm(x, **p["norm1"])
        x = x + nn.multi_head_attention(h, **p["attention"], causal=True)
        h, routing = mixture(p["mixture"], nn.layer_norm(x, **p["norm2"]))
        x = x + h
        routings.append(routing)
    return nn.layer_norm(x, **params["norm"]) @ params["tokens"].T, routings


def mixture(p, x):
    """The chosen experts of each character: dense networks with one hidden layer."""

    def experts(xs):
        return nn.dense(nn.gelu(nn.dense(xs, **p["up"])), **p["down"])

    logits = x @ p["router"]
    return nn.mixture_of_experts(experts, x, logits, k=CHOSEN, capacity=CAPACITY)


def init(seed=0):
    """Fresh parameters: kernels are normal, biases zero."""
    keys = iter(random.split(random.key(seed), 2 + 7 * LAYERS))
    depth = WIDTH // HEADS

    def normal(*shape):
        return 0.08 * random.normal(next(keys), shape)

    def dense(inputs, outputs):
        bias = np.zeros((EXPERTS, 1, outputs))
        return {"kernel": normal(EXPERTS, inputs, outputs), "bias": bias}

    def norm():
        return {"scale": np.ones(WIDTH), "bias": np.zeros(WIDTH)}

    def attention():
        kernels = {name: normal(WIDTH, HEADS, depth) for name in ("query", "key")}
        value, output = normal(WIDTH, HEADS, depth), normal(HEADS, depth, WIDTH)
        return {**kernels, "value": value, "output": output}

    def one_block():
        experts = {"up": dense(WIDTH, 2 * WIDTH), "down": dense(2 * WIDTH, WIDTH)}
        return {
            "norm1": norm(), "attention": attention(), "norm2": norm(),
            "mixture": {"router": normal(WIDTH, EXPERTS), **experts},
        }  # fmt: skip

    return {
        "tokens": normal(VOCABULARY, WIDTH),
        "positions": normal(LENGTH, WIDTH),
        "blocks": [one_block() for _ in range(LAYERS)],
        "norm": norm(),
    }


def loss(params, tokens, targets):
    """Mean cross-entropy in nats per character, and the experts out of balance."""
    logits, routings = network(params, tokens)
    balance = sum(routing.balance for routing in routings)
    return nn.cross_entropy(logits, targets).mean() + BALANCE * balance


start = init()
optimizer = optim.adamw(2e-3)
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


@aotc.entry(state=state.frozen, tokens=text, targets=text)
def evaluate(state, tokens, targets):
    """The cross-entropy, and of each layer what share of the choices goes where."""
    logits, routings = network(state["params"], tokens)
    return {
        "loss": nn.cross_entropy(logits, targets).mean(),
        "fractions": np.stack([routing.fractions for routing in routings]),
        "dropped": np.stack([routing.dropped for routing in routings]),
    }
