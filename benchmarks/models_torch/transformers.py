"""Models made of attention."""

import torch
import torch.nn.functional as F

from .layers import attention, cross_entropy, dense, feed_forward, layer_norm

NOT_ASKED = -1
LORA_SCALE = 2.0


def gpt(params, tokens, targets):
    """Return the loss of examples/gpt."""
    x = F.embedding(tokens, params["tokens"]) + params["positions"]
    for p in params["blocks"]:
        x = block(p, x, causal=True)
    return cross_entropy(layer_norm(x, **params["norm"]) @ params["tokens"].T, targets)


def lora(params, tokens, targets, weights):
    """Return the loss of examples/gpt with low-rank adapters, which are the
    parameters.
    """
    x = F.embedding(tokens, weights["tokens"]) + weights["positions"]
    for p, learned in zip(weights["blocks"], params["blocks"], strict=True):
        tuned = {"adapters": learned["attention"], "scale": LORA_SCALE}
        x = block(p, x, causal=True, **tuned)
    logits = layer_norm(x, **weights["norm"]) @ weights["tokens"].T
    return cross_entropy(logits, targets)


def bert(params, tokens, targets):
    """Return the loss of examples/bert."""
    x = F.embedding(tokens, params["tokens"]) + params["positions"]
    seen = (tokens != 0)[:, None, None, :]
    for p in params["blocks"]:
        x = block(p, x, seen=seen)
    x = layer_norm(x, **params["norm"])
    logits = dense(x, params["tokens"].T, params["bias"])
    return F.cross_entropy(
        logits.view(-1, logits.shape[-1]), targets.view(-1), ignore_index=NOT_ASKED
    )


def vit(params, images, labels):
    """Return the loss of examples/vit."""
    x = dense(patches(images, params["embed"]["kernel"]), **params["embed"])
    token = params["token"].expand(len(x), 1, -1)
    x = torch.cat([token, x], 1) + params["positions"]
    for p in params["blocks"]:
        x = block(p, x)
    x = layer_norm(x[:, 0], **params["norm"])
    return cross_entropy(dense(x, **params["head"]), labels)


def dit(params, images, labels, times, noise):
    """Return the loss of examples/dit, given its drawn times and noise."""
    kernel = params["embed"]["kernel"]
    angles = times[:, None, None, None] * (torch.pi / 2)
    x = patches(torch.cos(angles) * images + torch.sin(angles) * noise, kernel)
    x = dense(x, **params["embed"]) + params["positions"]
    angles = times[:, None] * torch.tensor([1.0, 4.0, 16.0, 64.0]).to(times.dtype)
    waves = torch.cat([torch.sin(angles), torch.cos(angles)], -1)
    c = dense(F.silu(dense(waves, **params["time1"])), **params["time2"])
    c = F.silu(c + F.embedding(labels, params["classes"]))[:, None]
    for p in params["blocks"]:
        x = modulated_block(p, x, dense(c, **p["modulation"]).chunk(6, -1))
    shift, scale = dense(c, **params["modulation"]).chunk(2, -1)
    x = dense(layer_norm(x) * (1 + scale) + shift, **params["head"])
    return F.mse_loss(x, patches(noise, kernel))


def modulated_block(p, x, c):
    """Return the result of a DiT block, modulated by a condition c."""
    h = layer_norm(x) * (1 + c[1]) + c[0]
    x = x + c[2] * attention(h, **p["attention"])
    return x + c[5] * feed_forward(p, layer_norm(x) * (1 + c[4]) + c[3])


def patches(images, kernel):
    """Return an image's patches [batch, patches, pixels]."""
    batch, height, width, channels = images.shape
    size = round((kernel.shape[0] / channels) ** 0.5)
    x = images.view(batch, height // size, size, width // size, size, channels)
    return x.transpose(2, 3).reshape(batch, -1, size * size * channels)


def block(p, x, **masks):
    """Return the result of a pre-norm transformer block."""
    x = x + attention(layer_norm(x, **p["norm1"]), **p["attention"], **masks)
    return x + feed_forward(p, layer_norm(x, **p["norm2"]))
