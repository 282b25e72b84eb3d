"""Models of images made of convolutions."""

import jax.numpy as jnp
from jax import lax, nn

from .layers import conv, cross_entropy, dense


def cnn(params, images, labels, keep):
    """Return the loss of examples/cnn; `keep` is its drawn dropout mask."""
    x = nn.relu(biased(params["conv1"], images))
    x = pooled(nearby_normed(x, 5), 3, "SAME")
    x = pooled(nn.relu(biased(params["conv2"], x)), 3, "SAME")
    x = nn.relu(dense(x.reshape(len(x), -1), **params["hidden"]))
    x = jnp.where(keep, x / 0.5, 0.0)
    return cross_entropy(dense(x, **params["head"]), labels)


def unet(params, images, classes):
    """Return the loss of examples/unet."""
    x, seen = images, []
    for p in params["down"]:
        x = twice(p, x)
        seen.append(x)
        x = pooled(x, 2)
    x = twice(params["bottom"], x)
    for p in params["up"]:
        x = twice(p, jnp.concatenate([seen.pop(), doubled(p["double"], x)], -1))
    return cross_entropy(biased(params["head"], x), classes)


def twice(p, x):
    """Return the result of two convolutions."""
    return nn.relu(biased(p["second"], nn.relu(biased(p["first"], x))))


def biased(p, x):
    """Return a convolution plus its bias."""
    return conv(x, p["kernel"]) + p["bias"]


def doubled(p, x):
    """Return a transposed convolution of stride 2, whose windows do not overlap."""
    kernel = jnp.flip(p["kernel"], (0, 1))  # JAX correlates
    return lax.conv_transpose(x, kernel, (2, 2), "SAME") + p["bias"]


def pooled(x, window, padding="VALID"):
    """Return the max pooling with stride 2."""
    whole, steps = (1, window, window, 1), (1, 2, 2, 1)
    return lax.reduce_window(x, -jnp.inf, lax.max, whole, steps, padding)


def nearby_normed(x, size, alpha=1e-4, beta=0.75):
    """Return the local response norm over neighbouring channels."""
    window = (1,) * (x.ndim - 1) + (size,)
    squares = lax.reduce_window(x**2, 0.0, lax.add, window, (1,) * x.ndim, "SAME")
    return x / (1 + alpha / size * squares) ** beta


def resnet(params, images, labels):
    """Return the training loss of examples/resnet."""
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
    """Return a convolution followed by batch norm with the batch's statistics."""
    x = conv(x, p["kernel"], stride)
    centered = x - x.mean((0, 1, 2))
    variance = jnp.square(centered).mean((0, 1, 2))
    return centered * lax.rsqrt(variance + 1e-5) * p["scale"] + p["bias"]
