"""Layers that several models are made of."""

import torch.nn.functional as F
from torch import addmm


def dense(x, kernel, bias):
    """`x @ kernel + bias`."""
    return addmm(bias, x.reshape(-1, x.shape[-1]), kernel).view(*x.shape[:-1], -1)


def cross_entropy(logits, labels):
    """Return the mean cross-entropy over all labels."""
    return F.cross_entropy(logits.reshape(-1, logits.shape[-1]), labels.reshape(-1))


def layer_norm(x, scale=None, bias=None):
    """Return the layer norm over the last axis."""
    return F.layer_norm(x, x.shape[-1:], scale, bias, 1e-5)


def projected(x, kernel, adapter=None, scale=1.0):
    """Return x times a kernel with two result axes, plus an adapter's product."""
    y = x @ kernel.reshape(x.shape[-1], -1)
    if adapter is not None:
        down, up = adapter["down"], adapter["up"]
        rank = down.shape[-1]
        y = y + (x @ down.reshape(-1, rank)) @ up.reshape(rank, -1) * scale
    return y


def attention(
    x, query, key, value, output, causal=False, seen=None, adapters=None, scale=1.0
):
    """Return multi-head attention; `seen` is a mask [batch, heads, length,
    positions].
    """
    batch, length, width = x.shape
    adapters = adapters or {}
    q, k, v = (
        projected(x, w, adapters.get(name), scale)
        .view(batch, length, *w.shape[1:])
        .transpose(1, 2)
        for name, w in (("query", query), ("key", key), ("value", value))
    )
    y = F.scaled_dot_product_attention(q, k, v, seen, is_causal=causal)
    y = y.transpose(1, 2).reshape(x.shape)
    return projected(y, output.reshape(width, width), adapters.get("output"), scale)


def feed_forward(p, x):
    """Return two dense layers around the exact GELU."""
    return dense(F.gelu(dense(x, **p["up"])), **p["down"])
