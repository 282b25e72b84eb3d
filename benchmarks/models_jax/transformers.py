"""Models made of attention."""

import jax.numpy as jnp
from jax import nn

from .layers import attention, cross_entropy, dense, feed_forward, layer_norm

LORA_SCALE = 2.0


def gpt(params, tokens, targets):
    """Return the loss of examples/gpt."""
    x = params["tokens"][tokens] + params["positions"]
    for p in params["blocks"]:
        x = block(p, x, causal=True)
    return cross_entropy(layer_norm(x, **params["norm"]) @ params["tokens"].T, targets)


def lora(params, tokens, targets, weights):
    """Return the loss of examples/gpt with low-rank adapters, which are the
    parameters.
    """
    x = weights["tokens"][tokens] + weights["positions"]
    for p, learned in zip(weights["blocks"], params["blocks"], strict=True):
        x = block(p, x, causal=True, adapters=learned["attention"], scale=LORA_SCALE)
    logits = layer_norm(x, **weights["norm"]) @ weights["tokens"].T
    return cross_entropy(logits, targets)


def bert(params, tokens, targets):
    """Return the loss of examples/bert."""
    x = params["tokens"][tokens] + params["positions"]
    seen = (tokens != 0)[:, None, None, :]
    for p in params["blocks"]:
        x = block(p, x, seen=seen)
    x = layer_norm(x, **params["norm"])
    logs = nn.log_softmax(dense(x, params["tokens"].T, params["bias"]))
    asked = targets >= 0
    logs = jnp.take_along_axis(logs, jnp.where(asked, targets, 0)[..., None], -1)
    return -(logs[..., 0] * asked).sum() / asked.sum()


def vit(params, images, labels):
    """Return the loss of examples/vit."""
    x = dense(patches(images, params["embed"]["kernel"]), **params["embed"])
    token = jnp.broadcast_to(params["token"], (len(x), 1, x.shape[-1]))
    x = jnp.concatenate([token, x], 1) + params["positions"]
    for p in params["blocks"]:
        x = block(p, x)
    x = layer_norm(x[:, 0], **params["norm"])
    return cross_entropy(dense(x, **params["head"]), labels)


def dit(params, images, labels, times, noise):
    """Return the loss of examples/dit, given its drawn times and noise."""
    kernel = params["embed"]["kernel"]
    angles = times[:, None, None, None] * (jnp.pi / 2)
    x = patches(jnp.cos(angles) * images + jnp.sin(angles) * noise, kernel)
    x = dense(x, **params["embed"]) + params["positions"]
    angles = times[:, None] * 4.0 ** jnp.arange(4)
    waves = jnp.concatenate([jnp.sin(angles), jnp.cos(angles)], -1)
    c = dense(nn.silu(dense(waves, **params["time1"])), **params["time2"])
    c = nn.silu(c + params["classes"][labels])[:, None]
    for p in params["blocks"]:
        x = modulated_block(p, x, jnp.split(dense(c, **p["modulation"]), 6, -1))
    shift, scale = jnp.split(dense(c, **params["modulation"]), 2, -1)
    x = dense(layer_norm(x) * (1 + scale) + shift, **params["head"])
    return jnp.square(x - patches(noise, kernel)).mean()


def modulated_block(p, x, c):
    """Return the result of a DiT block, modulated by a condition c."""
    h = layer_norm(x) * (1 + c[1]) + c[0]
    x = x + c[2] * attention(h, **p["attention"])
    return x + c[5] * feed_forward(p, layer_norm(x) * (1 + c[4]) + c[3])


def patches(images, kernel):
    """Return an image's patches [batch, patches, pixels]."""
    batch, height, width, channels = images.shape
    size = round((kernel.shape[0] / channels) ** 0.5)
    x = images.reshape(batch, height // size, size, width // size, size, channels)
    return x.swapaxes(2, 3).reshape(batch, -1, size * size * channels)


def block(p, x, **masks):
    """Return the result of a pre-norm transformer block."""
    x = x + attention(layer_norm(x, **p["norm1"]), **p["attention"], **masks)
    return x + feed_forward(p, layer_norm(x, **p["norm2"]))
