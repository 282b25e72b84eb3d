"""An MLP, an LSTM and a mixture of experts."""

from __future__ import annotations

import jax.numpy as jnp
from jax import lax, nn

from .layers import blocks_of, linear


def mlp(weights, input):
    """Return the logits of the multi-layer perceptron."""
    *layers, head = blocks_of(weights)
    x = input
    for p in layers:
        x = nn.relu(linear(p, x))
    return linear(head, x)


def lstm(weights, x):
    """Return the logits of the two-layer LSTM."""
    x = x.swapaxes(0, 1)
    for layer in range(2):
        x = lstm_layer(weights["lstm"], layer, x)
    return linear(weights["head"], x[-1])


def lstm_layer(p, layer, x):
    """Return an LSTM layer's outputs (length, batch, width)."""
    recurrent = p[f"weight_hh_l{layer}"]
    bias = p[f"bias_ih_l{layer}"] + p[f"bias_hh_l{layer}"]
    zeros = jnp.zeros((x.shape[1], len(recurrent)))

    def step(carried, projected):
        hidden, cell = carried
        i, f, g, o = jnp.split(projected + hidden @ recurrent, 4, -1)
        cell = nn.sigmoid(f) * cell + nn.sigmoid(i) * jnp.tanh(g)
        hidden = nn.sigmoid(o) * jnp.tanh(cell)
        return (hidden, cell), hidden

    projected = x @ p[f"weight_ih_l{layer}"] + bias
    return lax.scan(step, (zeros, zeros), projected)[1]


def moe(weights, x):
    """Return the result of the mixture of 8 experts, the best 2 for each token."""
    tokens = x.reshape(-1, x.shape[-1])
    best, chosen = lax.top_k(linear(weights["router"], tokens), 2)
    shares = nn.one_hot(chosen, len(weights["gate"])) * nn.softmax(best)[..., None]
    hidden = nn.silu(tokens @ weights["gate"]) * (tokens @ weights["up"])
    outputs = hidden @ weights["down"]  # (experts, tokens, width)
    return x + (outputs * shares.sum(1).T[..., None]).sum(0).reshape(x.shape)
