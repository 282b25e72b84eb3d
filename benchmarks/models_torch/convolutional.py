"""Models of images made of convolutions, whose kernels and images are channels-last."""

import torch
import torch.nn.functional as F

from .layers import cross_entropy, dense


def resnet(params, images, labels):
    """Return the training loss of examples/resnet."""
    x = F.relu(normed(params["stem"], images.permute(0, 3, 1, 2), 1))
    for p in params["blocks"]:
        stride, shortcut = 1, x
        if "shortcut" in p:
            stride = 2
            shortcut = normed(p["shortcut"], x, stride)
        h = F.relu(normed(p["first"], x, stride))
        x = F.relu(normed(p["second"], h, 1) + shortcut)
    return cross_entropy(dense(x.mean((2, 3)), **params["head"]), labels)


def normed(p, x, stride):
    """Return a convolution followed by batch norm with the batch's statistics."""
    size = p["kernel"].shape[-1]
    if stride == 2 and size == 3:
        x = F.pad(x, (0, 1, 0, 1))
    padding = size // 2 if stride == 1 else 0
    x = F.conv2d(x, p["kernel"], stride=stride, padding=padding)
    return F.batch_norm(x, None, None, p["scale"], p["bias"], True)


def unet(params, images, classes):
    """Return the loss of examples/unet."""
    x, seen = images.permute(0, 3, 1, 2), []
    for p in params["down"]:
        x = twice(p, x)
        seen.append(x)
        x = F.max_pool2d(x, 2)
    x = twice(params["bottom"], x)
    for p in params["up"]:
        doubled = F.conv_transpose2d(x, p["double"]["kernel"], p["double"]["bias"], 2)
        x = twice(p, torch.cat([seen.pop(), doubled], 1))
    head = params["head"]
    return F.cross_entropy(F.conv2d(x, head["kernel"], head["bias"]), classes)


def twice(p, x):
    """Return the result of two convolutions that keep the size."""
    for name in ("first", "second"):
        x = F.relu(F.conv2d(x, p[name]["kernel"], p[name]["bias"], padding="same"))
    return x
