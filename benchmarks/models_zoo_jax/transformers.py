"""BERT-base, ViT-B/16, GPT-2, and stacks in the manner of LLaMA and DiT."""

from __future__ import annotations

import jax.numpy as jnp
from jax import nn

from .layers import attention, blocks_of, conv_patches, layer_norm, linear, rms_norm


def mlp(p, x, approximate=False):
    """Return linear, GELU, linear of x."""
    return linear(p["2"], nn.gelu(linear(p["0"], x), approximate=approximate))


def bert(weights, input_ids, attention_mask):
    """Return BERT-base's pooled output."""
    length = input_ids.shape[1]
    x = weights["words"]["weight"][input_ids] + weights["positions"]["weight"][:length]
    x = layer_norm(weights["norm"], x + weights["kinds"]["weight"][0], 1e-12)
    mask = 1.0 - attention_mask[:, None, None].astype(x.dtype)
    bias = mask * jnp.finfo(x.dtype).min
    for p in blocks_of(weights["blocks"]):
        y = x + attention(p["attention"], x, 12, bias=bias)
        x = layer_norm(p["norms"]["0"], y, 1e-12)
        x = layer_norm(p["norms"]["1"], x + mlp(p["mlp"], x), 1e-12)
    return x, jnp.tanh(linear(weights["pooler"], x[:, 0]))


def vit(weights, image):
    """Return ViT-B/16's logits."""
    x = conv_patches(weights["patches"], image.transpose(0, 2, 3, 1))
    token = jnp.broadcast_to(weights["token"], (len(x), 1, x.shape[-1]))
    x = jnp.concatenate([token, x], 1) + weights["positions"]
    for p in blocks_of(weights["blocks"]):
        x = x + attention(p["attention"], layer_norm(p["norms"]["0"], x, 1e-6), 12)
        x = x + mlp(p["mlp"], layer_norm(p["norms"]["1"], x, 1e-6))
    return linear(weights["head"], layer_norm(weights["norm"], x[:, 0], 1e-6))


def gpt2(weights, input_ids):
    """Return GPT-2's logits of all positions."""
    words, positions = weights["words"]["weight"], weights["positions"]["weight"]
    x = words[input_ids] + positions[: input_ids.shape[1]]
    for p in blocks_of(weights["blocks"]):
        x = gpt2_block(p, x, causal=True)
    return layer_norm(weights["norm"], x, 1e-5) @ words.T


def gpt2_block(p, x, **options):
    """Return the result of a GPT-2 block; options are those of its attention."""
    y = layer_norm(p["norms"]["0"], x, 1e-5)
    x = x + attention(p["attention"], y, 12, **options)
    return x + mlp(p["mlp"], layer_norm(p["norms"]["1"], x, 1e-5), approximate=True)


def llama(weights, input_ids):
    """Return the LLaMA-style stack's logits of the last position."""
    length = input_ids.shape[1]
    angles = weights["cosines"][:length], weights["sines"][:length]
    x = weights["words"]["weight"][input_ids]
    for p in blocks_of(weights["blocks"]):
        x = llama_block(p, x, angles=angles, causal=True)
    return linear(weights["head"], rms_norm(weights["norm"], x[:, -1]))


def llama_block(p, x, **options):
    """Return the result of a LLaMA-style block; options are those of its attention."""
    x = x + attention(p["attention"], rms_norm(p["norms"]["0"], x), 16, **options)
    y = rms_norm(p["norms"]["1"], x)
    return x + linear(p["down"], nn.silu(linear(p["gate"], y)) * linear(p["up"], y))


def dit_block(weights, x, condition):
    """Return the result of a DiT-XL/2 block."""
    parts = linear(weights["modulation"]["1"], nn.silu(condition))[:, None]
    shift, scale, gate, shift2, scale2, gate2 = jnp.split(parts, 6, -1)
    y = layer_norm({}, x, 1e-6) * (1 + scale) + shift
    x = x + gate * attention(weights["attention"], y, 16)
    y = layer_norm({}, x, 1e-6) * (1 + scale2) + shift2
    return x + gate2 * mlp(weights["mlp"], y, approximate=True)
