"""Models of images made of convolutions."""

import jax.numpy as jnp
from jax import lax, nn

from .layers import conv, cross_entropy, dense


def resnet(params, images, labels):
    """examples/resnet in training."""
    x = nn.relu(normed(params["stem"], images, 1))
    for p in params["blocks"]:
        stride, shortcut = 1, x
        if "shortcut" in p:
            stride = 2
            shortcut = normed(p["shortcut"], x, stride)
        h = nn.relu(normed(p["first"], x, stride))
        x = nn.relu(normed(p["second"], h, 1) + shortcut)
    return cross_entropy(dense(x.mean((1, 2)), **params["head"]), labels)


def normed(p, x, stride):
    """A convolution, and batch norm by the batch."""
    x = conv(x, p["kernel"], stride)
    centered = x - x.mean((0, 1, 2))
    variance = jnp.square(centered).mean((0, 1, 2))
    return centered * lax.rsqrt(variance + 1e-5) * p["scale"] + p["bias"]
