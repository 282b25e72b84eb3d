"""Models of sequences, step by step."""

import jax.numpy as jnp
from jax import lax, nn

from .layers import cross_entropy, dense


def lstm(params, sequences, sums):
    """Return the loss of examples/lstm."""
    xs = sequences.swapaxes(0, 1)
    for p in params["layers"]:
        xs = lstm_layer(p, xs)
    return jnp.square(dense(xs[-1], **params["head"])[:, 0] - sums).mean()


def bilstm(params, letters, tags):
    """Return the loss of examples/bilstm."""
    xs = params["letters"][letters.T]
    forwards = lstm_layer(params["forwards"], xs)
    backwards = lstm_layer(params["backwards"], xs, reverse=True)
    both = jnp.concatenate([forwards, backwards], -1)
    return cross_entropy(dense(both, **params["head"]), tags.T)


def gru(params, values, targets):
    """Return the loss of examples/gru."""
    hidden = gru_layer(params["gru"], values.T[..., None])
    return jnp.square(dense(hidden, **params["head"])[..., 0] - targets.T).mean()


def lstm_layer(p, xs, reverse=False):
    """Return an LSTM's hidden states; gates in the order input, forget, cell,
    output.
    """
    zeros = jnp.zeros((xs.shape[1], p["recurrent"].shape[0]))

    def step(carried, x):
        hidden, cell = carried
        gates = x @ p["kernel"] + p["bias"] + hidden @ p["recurrent"]
        i, f, g, o = jnp.split(gates, 4, -1)
        cell = nn.sigmoid(f) * cell + nn.sigmoid(i) * jnp.tanh(g)
        hidden = nn.sigmoid(o) * jnp.tanh(cell)
        return (hidden, cell), hidden

    return lax.scan(step, (zeros, zeros), xs, reverse=reverse)[1]


def gru_layer(p, xs):
    """Return a GRU's hidden states; gates in the order reset, update, new."""
    zeros = jnp.zeros((xs.shape[1], p["recurrent"].shape[0]))

    def step(hidden, x):
        xr, xz, xn = jnp.split(x @ p["kernel"] + p["bias"], 3, -1)
        gates = hidden @ p["recurrent"] + p["recurrent_bias"]
        hr, hz, hn = jnp.split(gates, 3, -1)
        new = jnp.tanh(xn + nn.sigmoid(xr + hr) * hn)
        update = nn.sigmoid(xz + hz)
        hidden = update * hidden + (1 - update) * new
        return hidden, hidden

    return lax.scan(step, zeros, xs)[1]
