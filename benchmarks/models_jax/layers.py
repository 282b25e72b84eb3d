"""Layers that several models are made of."""

import jax.numpy as jnp
from jax import lax, nn


def dense(x, kernel, bias):
    """`x @ kernel + bias`."""
    return x @ kernel + bias


def conv(x, kernel, stride=1):
    """Return a convolution with "SAME" padding."""
    dims = ("NHWC", "HWIO", "NHWC")
    return lax.conv_general_dilated(
        x, kernel, (stride, stride), "SAME", dimension_numbers=dims
    )


def layer_norm(x, scale=1.0, bias=0.0):
    """Return the layer norm over the last axis."""
    centered = x - x.mean(-1, keepdims=True)
    variance = jnp.square(centered).mean(-1, keepdims=True)
    return centered * lax.rsqrt(variance + 1e-5) * scale + bias


def attention(
    x, query, key, value, output, causal=False, seen=True, adapters=None, scale=1.0
):
    """Return multi-head attention; `seen` is a mask [batch, heads, length,
    positions].
    """
    adapters = adapters or {}
    q, k, v = (
        projected("btd,dhk->bthk", x, w, adapters.get(name), scale)
        for name, w in (("query", query), ("key", key), ("value", value))
    )
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) * q.shape[-1] ** -0.5
    if causal:
        seen = jnp.tril(jnp.ones(scores.shape[-2:], bool))
    scores = jnp.where(seen, scores, -jnp.inf)
    y = jnp.einsum("bhqk,bkhd->bqhd", nn.softmax(scores), v)
    return projected("bthk,hkd->btd", y, output, adapters.get("output"), scale)


def projected(equation, x, kernel, adapter, scale):
    """Return a projection of x, plus a low-rank adapter's if there is one."""
    y = jnp.einsum(equation, x, kernel)
    if adapter is None:
        return y
    down, up = adapter["down"], adapter["up"]
    return y + scale * jnp.tensordot(jnp.tensordot(x, down, down.ndim - 1), up, 1)


def feed_forward(p, x):
    """Return two dense layers around the exact GELU."""
    return dense(nn.gelu(dense(x, **p["up"]), approximate=False), **p["down"])


def cross_entropy(logits, labels):
    """Return the mean cross-entropy over all labels."""
    logs = nn.log_softmax(logits)
    return -jnp.take_along_axis(logs, labels[..., None], -1).mean()
