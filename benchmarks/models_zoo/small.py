"""An MLP, an LSTM and a mixture of experts."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def mlp() -> nn.Module:
    """Return a multi-layer perceptron: 784 → 3 × 1024 → 10."""
    widths = (784, 1024, 1024, 1024)
    layers: list[nn.Module] = []
    for before, after in zip(widths, widths[1:], strict=False):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(widths[-1], 10))


class Lstm(nn.Module):
    """Two LSTM layers of width 512 over (batch, length, 128), and a head on the last
    output.
    """

    def __init__(self, width: int = 512) -> None:
        super().__init__()
        self.lstm = nn.LSTM(128, width, 2, batch_first=True)
        self.head = nn.Linear(width, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.lstm(x)[0][:, -1])


class Moe(nn.Module):
    """8 experts of SwiGLU, of which each token takes the best 2 (Jiang et al. 2024).

    Every expert computes every token, and a token's other experts count zero: the form
    that has static shapes.
    """

    def __init__(self, width: int = 512, hidden: int = 1408, experts: int = 8) -> None:
        super().__init__()
        self.router = nn.Linear(width, experts, False)
        scale = width**-0.5
        self.gate = nn.Parameter(scale * torch.randn(experts, width, hidden))
        self.up = nn.Parameter(scale * torch.randn(experts, width, hidden))
        self.down = nn.Parameter(hidden**-0.5 * torch.randn(experts, hidden, width))

    def forward(self, x: Tensor) -> Tensor:
        tokens = x.flatten(0, 1)
        best, chosen = self.router(tokens).topk(2, -1)
        shares = F.one_hot(chosen, len(self.gate)).to(x.dtype)
        shares = (shares * best.softmax(-1)[..., None]).sum(1)  # (tokens, experts)
        hidden = F.silu(tokens @ self.gate) * (tokens @ self.up)
        outputs = hidden @ self.down  # (experts, tokens, width)
        return x + (outputs * shares.T[..., None]).sum(0).view(x.shape)
