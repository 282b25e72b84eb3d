"""Models of sequences, step by step."""

import jax.numpy as jnp
from jax import lax, nn

from .layers import dense


def lstm(params, sequences, sums):
    """examples/lstm."""
    xs = sequences.swapaxes(0, 1)
    for p in params["layers"]:
        xs = lstm_layer(p, xs)
    return jnp.square(dense(xs[-1], **params["head"])[:, 0] - sums).mean()


def lstm_layer(p, xs):
    """Gates in the order input, forget, cell, output."""
    zeros = jnp.zeros((xs.shape[1], p["recurrent"].shape[0]))

    def step(carried, x):
        hidden, cell = carried
        gates = x @ p["kernel"] + p["bias"] + hidden @ p["recurrent"]
        i, f, g, o = jnp.split(gates, 4, -1)
        cell = nn.sigmoid(f) * cell + nn.sigmoid(i) * jnp.tanh(g)
        hidden = nn.sigmoid(o) * jnp.tanh(cell)
        return (hidden, cell), hidden

    return lax.scan(step, (zeros, zeros), xs)[1]
