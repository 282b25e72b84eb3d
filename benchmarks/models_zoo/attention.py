"""Layers that several models share."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class GlobalMean(nn.Module):
    """Layer: means over all positions, (n, c, h, w) → (n, c)."""

    def forward(self, x: Tensor) -> Tensor:
        return x.mean((2, 3))


class Attention(nn.Module):
    """Layer: multi-head attention over (batch, length, width), with grouped heads.

    Args:
        width: of input and output.
        heads: of the queries.
        groups: heads of keys and values, by default as many (Ainslie et al. 2023).
        bias: of the four projections.
        packed: one projection for queries, keys and values.
        causal: no position sees a later one.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        groups: int | None = None,
        bias: bool = True,
        packed: bool = False,
        causal: bool = False,
    ) -> None:
        super().__init__()
        self.size, self.causal = width // heads, causal
        groups = groups or heads
        self.widths = [width, groups * self.size, groups * self.size]
        outs = [sum(self.widths)] if packed else self.widths
        self.inputs = nn.ModuleList(nn.Linear(width, out, bias) for out in outs)
        self.output = nn.Linear(width, width, bias)
        self.repeats = heads // groups

    def forward(
        self,
        x: Tensor,
        mask: Tensor | None = None,
        angles: tuple[Tensor, Tensor] | None = None,
        past: tuple[Tensor, Tensor] | None = None,
    ) -> Tensor:
        projected = [layer(x) for layer in self.inputs]
        if len(projected) == 1:
            projected = list(projected[0].split(self.widths, -1))
        q, k, v = (
            y.view(*x.shape[:2], -1, self.size).transpose(1, 2) for y in projected
        )
        if angles is not None:
            q, k = rotate(q, *angles), rotate(k, *angles)
        causal = self.causal and past is None
        if past is not None:  # all positions before x
            k, v = (torch.cat(pair, 2) for pair in zip(past, (k, v), strict=True))
        if self.repeats > 1:
            k, v = (y.repeat_interleave(self.repeats, 1) for y in (k, v))
        y = F.scaled_dot_product_attention(q, k, v, mask, is_causal=causal)
        return self.output(y.transpose(1, 2).reshape(x.shape))


def rotate(x: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
    """Return x with rotary position embedding (Su et al. 2021), halves paired."""
    first, second = x.chunk(2, -1)
    return x * cosines + torch.cat([-second, first], -1) * sines
