"""Mixtures of experts, by products with one-hot tensors as in GShard."""

import jax.numpy as jnp
from jax import lax, nn

from .layers import attention, cross_entropy, feed_forward, layer_norm

CHOSEN, SPARE, BALANCE = 2, 1.25, 0.01


def moe(params, tokens, targets):
    """Return the loss of examples/moe."""
    x, balance = params["tokens"][tokens] + params["positions"], 0.0
    for p in params["blocks"]:
        h = layer_norm(x, **p["norm1"])
        x = x + attention(h, **p["attention"], causal=True)
        h, term = mixture(p["mixture"], layer_norm(x, **p["norm2"]))
        x, balance = x + h, balance + term
    logits = layer_norm(x, **params["norm"]) @ params["tokens"].T
    return cross_entropy(logits, targets) + BALANCE * balance


def mixture(p, x):
    """Return the mixture of experts of x [batch, length, width], and the balance
    loss.
    """
    experts = p["router"].shape[1]
    probabilities = nn.softmax(x @ p["router"])
    weights, chosen = lax.top_k(probabilities, CHOSEN)
    weights = weights / weights.sum(-1, keepdims=True)
    marks = nn.one_hot(chosen, experts)
    balance = experts * (marks.mean((0, 1, 2)) * probabilities.mean((0, 1))).sum()
    combine = jnp.einsum("btk,btkec->btec", weights, places(marks))
    xs = jnp.einsum("btec,btd->ebcd", combine > 0, x)
    ys = feed_forward(p, xs.reshape(experts, -1, x.shape[-1])).reshape(xs.shape)
    return jnp.einsum("btec,ebcd->btd", combine, ys), balance


def places(marks):
    """Return 1 where a choice [batch, length, k, experts] takes a slot of its
    expert.
    """
    batch, length, k, experts = marks.shape
    capacity = int(SPARE * length * k / experts)
    turn = marks.reshape(batch, length * k, experts).cumsum(1) - 1
    turn = (turn.reshape(marks.shape) * marks).sum(-1).astype(int)
    return marks[..., None] * nn.one_hot(turn, capacity)[..., None, :]
