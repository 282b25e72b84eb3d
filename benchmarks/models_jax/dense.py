"""Models without structure in their inputs."""

import jax.numpy as jnp
from jax import nn

from .layers import cross_entropy, dense


def linear(params, x, y):
    """Return the loss of examples/linear."""
    return jnp.square(x @ params["kernel"] + params["bias"] - y).mean()


def mlp(params, x, labels):
    """Return the loss of examples/mlp."""
    for p in params[:-1]:
        x = nn.relu(dense(x, **p))
    return cross_entropy(dense(x, **params[-1]), labels)
