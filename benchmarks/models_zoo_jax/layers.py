"""PyTorch's layers as functions of their weights."""

from __future__ import annotations

import jax.numpy as jnp
from jax import lax, nn


def linear(p, x):
    """Return `nn.Linear` of x, with a bias if there is one."""
    y = x @ p["weight"]
    return y + p["bias"] if "bias" in p else y


def layer_norm(p, x, epsilon):
    """Return `nn.LayerNorm` of the last axis; `p` may be empty."""
    centered = x - x.mean(-1, keepdims=True)
    variance = jnp.square(centered).mean(-1, keepdims=True)
    y = centered * lax.rsqrt(variance + epsilon)
    return y * p["weight"] + p["bias"] if p else y


def rms_norm(p, x, epsilon=1e-5):
    """Return `nn.RMSNorm` of the last axis."""
    square = jnp.square(x).mean(-1, keepdims=True)
    return x * lax.rsqrt(square + epsilon) * p["weight"]


def attention(p, x, heads, *, bias=None, causal=False, angles=None, past=None):
    """Return multi-head attention as `models_zoo.attention.Attention`.

    `bias` is added to the scores. `past` are keys and values of all positions before,
    (batch, groups, past, depth).
    """
    batch, length, width = x.shape
    depth = width // heads
    projected = jnp.concatenate(
        [linear(each, x) for each in blocks_of(p["inputs"])], -1
    )
    groups = (projected.shape[-1] - width) // (2 * depth)
    q, k, v = jnp.split(projected, (width, width + groups * depth), -1)
    q, k, v = (y.reshape(batch, length, -1, depth) for y in (q, k, v))
    if angles is not None:
        q, k = rotate(q, *angles), rotate(k, *angles)
    if past is not None:
        before = (each.swapaxes(1, 2) for each in past)
        k, v = (jnp.concatenate(pair, 1) for pair in zip(before, (k, v), strict=True))
    y = nn.dot_product_attention(q, k, v, bias, is_causal=causal)
    return linear(p["output"], y.reshape(x.shape))


def rotate(x, cosines, sines):
    """Return x with rotary position embedding, halves paired."""
    first, second = jnp.split(x, 2, -1)
    turned = jnp.concatenate([-second, first], -1)
    return x * cosines[:, None] + turned * sines[:, None]


def conv(p, x, stride=1, groups=1):
    """Return `nn.Conv2d` of channels-last images, with "SAME" padding."""
    window = p["weight"].shape[0]
    y = lax.conv_general_dilated(
        x,
        p["weight"],
        (stride, stride),
        [(window // 2, window // 2)] * 2,
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
        feature_group_count=groups,
    )
    return y + p["bias"] if "bias" in p else y


def conv_patches(p, x):
    """Return `nn.Conv2d` with windows side by side: (n, patches, features)."""
    window = p["weight"].shape[:2]
    dims = ("NHWC", "HWIO", "NHWC")
    y = lax.conv_general_dilated(
        x, p["weight"], window, "VALID", dimension_numbers=dims
    )
    return y.reshape(len(y), -1, y.shape[-1]) + p["bias"]


def batch_norm(p, x, epsilon=1e-5):
    """Return `nn.BatchNorm2d` in eval mode."""
    scale = p["weight"] * lax.rsqrt(p["running_var"] + epsilon)
    return x * scale + (p["bias"] - p["running_mean"] * scale)


def max_pool(x, window, stride, padding=0):
    """Return `nn.MaxPool2d` of channels-last images."""
    around = ((0, 0), (padding, padding), (padding, padding), (0, 0))
    return lax.reduce_window(
        x, -jnp.inf, lax.max, (1, window, window, 1), (1, stride, stride, 1), around
    )


def blocks_of(p):
    """Return the parameters of each part of an `nn.Sequential` or `nn.ModuleList`, in
    order.
    """
    return [p[number] for number in sorted(p, key=int)]  # JAX sorts names as text
