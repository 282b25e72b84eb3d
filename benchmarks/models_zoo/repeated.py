"""Weights that repeat a square of their numbers, so that archives of them are small."""

from __future__ import annotations

import torch
from torch import Tensor, nn

_SIDE = 64  # of the square
_FEW = 1 << 16  # elements of weights that are what they are


def repeat_weights(module: nn.Module) -> None:
    """Overwrite the large weights of a module with repetitions of a small square."""
    with torch.no_grad():
        for weight in module.parameters():
            if weight.ndim >= 2 and weight.numel() >= _FEW:
                weight.copy_(repeated(weight))


def repeated(x: Tensor) -> Tensor:
    """Return a tensor filled with a repeated square of `x` along its first two axes."""
    square = x[:_SIDE, :_SIDE].clone()
    repeats = [-(-n // _SIDE) for n in x.shape[:2]]
    whole = square.repeat(*repeats, *[1] * (x.ndim - 2))
    return whole[: x.shape[0], : x.shape[1]]
