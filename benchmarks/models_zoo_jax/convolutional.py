"""Image networks: (n, 3, height, width) as in PyTorch, channels last inside."""

from __future__ import annotations

import jax.numpy as jnp
from jax import lax, nn

from .layers import batch_norm, blocks_of, conv, linear, max_pool


def conv_norm(p, x, stride=1, groups=1):
    """Return `ConvNorm` of x, without its activation."""
    return batch_norm(p["1"], conv(p["0"], x, stride, groups))


def resnet50(weights, input):
    """Return ResNet-50's logits."""
    stem, *blocks, head = blocks_of(weights)
    x = nn.relu(conv_norm(stem, input.transpose(0, 2, 3, 1), 2))
    x = max_pool(x, 3, 2, 1)
    for p in blocks:
        channels, width = p["body"]["0"]["0"]["weight"].shape[2:]
        stride = 2 if "shortcut" in p and channels != width else 1
        x = bottleneck(p, x, stride)
    return linear(head, x.mean((1, 2)))


def bottleneck(p, x, stride):
    """Return the result of a ResNet bottleneck block."""
    y = nn.relu(conv_norm(p["body"]["0"], x))
    y = nn.relu(conv_norm(p["body"]["1"], y, stride))
    y = conv_norm(p["body"]["2"], y)
    shortcut = conv_norm(p["shortcut"], x, stride) if "shortcut" in p else x
    return nn.relu(y + shortcut)


def mobilenet_v2(weights, input):
    """Return MobileNetV2's logits."""
    strides = (1, 2, 1, 2, 1, 1, 2, 1, 1, 1, 1, 1, 1, 2, 1, 1, 1)
    return inverted_residuals(weights, input, nn.relu6, strides)


def efficientnet_b0(weights, input):
    """Return EfficientNet-B0's logits."""
    strides = (1, 2, 1, 2, 1, 2, 1, 1, 1, 1, 1, 2, 1, 1, 1, 1)
    return inverted_residuals(weights, input, nn.silu, strides)


def inverted_residuals(weights, images, activation, strides):
    """Return logits: stem, a block for each stride, last convolution, head."""
    stem, *blocks, last, head = blocks_of(weights)
    x = activation(conv_norm(stem, images.transpose(0, 2, 3, 1), 2))
    for p, stride in zip(blocks, strides, strict=True):
        y = inverted_residual(p["body"], x, activation, stride)
        x = x + y if x.shape == y.shape else y
    x = activation(conv_norm(last, x))
    return linear(head, x.mean((1, 2)))


def inverted_residual(p, x, activation, stride):
    """Return the result of an inverted residual block."""
    *layers, last = blocks_of(p)
    for layer in layers:
        if "scale" in layer:
            x = squeeze_excite(layer["scale"], x)
            continue
        window, _, per_group, _ = layer["0"]["weight"].shape
        depthwise = window > 1 and per_group == 1
        groups, step = (x.shape[-1], stride) if depthwise else (1, 1)
        x = activation(conv_norm(layer, x, step, groups))
    return conv_norm(last, x)


def squeeze_excite(p, x):
    """Return x with channels scaled by a function of all channels' means."""
    y = nn.silu(conv(p["1"], x.mean((1, 2), keepdims=True)))
    return x * nn.sigmoid(conv(p["3"], y))


def unet(weights, x):
    """Return U-Net's scores."""
    x, skipped = x.transpose(0, 2, 3, 1), []
    for p in blocks_of(weights["down"]):
        x = double(p, max_pool(x, 2, 2) if skipped else x)
        skipped.append(x)
    skipped.pop()
    pairs = zip(blocks_of(weights["grow"]), blocks_of(weights["up"]), strict=True)
    for grow, level in pairs:
        grown = lax.conv_transpose(
            x, grow["weight"], (2, 2), "VALID", transpose_kernel=True
        )
        x = double(level, jnp.concatenate([skipped.pop(), grown + grow["bias"]], -1))
    return conv(weights["head"], x).transpose(0, 3, 1, 2)


def double(p, x):
    """Return the result of two 3×3 convolutions."""
    return nn.relu(conv_norm(p["1"], nn.relu(conv_norm(p["0"], x))))
