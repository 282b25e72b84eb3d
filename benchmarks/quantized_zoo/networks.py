"""Networks of five kinds, small but whole, with random weights of a fixed seed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
import torch.nn.functional as F
from models_zoo.attention import GlobalMean
from models_zoo.convolutional import BasicBlock, ConvNorm, InvertedResidual
from models_zoo.transformers import Block
from torch import Tensor, nn

WORDS, WIDTH, LENGTH = 96, 64, 16


@dataclass(frozen=True)
class Network:
    """A small network of the quantised zoo, and its input shape.

    Args:
        kind: classification, detection, encoder, decoder or speech.
        make: the module, with weights as PyTorch initialises them.
        shape: of its one input.
        is_words: whether that is numbers of words; else it is floats.
    """

    kind: str
    make: Callable[[], nn.Module]
    shape: tuple[int, ...]
    is_words: bool = False

    def module(self) -> nn.Module:
        """Return the network in eval mode, with batch statistics set."""
        torch.manual_seed(0)
        found = self.make()
        with torch.no_grad():
            for _ in range(3):
                found.train()(torch.tensor(self.input(0)))
        return found.eval()

    def input(self, seed: int) -> np.ndarray:
        """Return a random input."""
        rng = np.random.default_rng(seed)
        if self.is_words:
            return rng.integers(0, WORDS, self.shape)
        return rng.standard_normal(self.shape).astype("f4")


def residual() -> nn.Module:
    """Return a ResNet of two stages."""
    blocks = BasicBlock(16, 16, 1), BasicBlock(16, 32, 2)
    stem = ConvNorm(3, 16, 3, activation=nn.ReLU), nn.MaxPool2d(3, 2, 1)
    return nn.Sequential(*stem, *blocks, GlobalMean(), nn.Linear(32, 10))


def mobile(activation: type[nn.Module], *, excite: bool) -> nn.Module:
    """Return inverted residuals, as of MobileNetV2 or EfficientNet."""
    blocks = [
        InvertedResidual(16, 16, 4, 3, 1, activation, excite),
        InvertedResidual(16, 24, 4, 5, 2, activation, excite),
        InvertedResidual(24, 24, 4, 3, 1, activation, excite),
    ]
    stem = ConvNorm(3, 16, 3, 2, activation=activation)
    return nn.Sequential(stem, *blocks, GlobalMean(), nn.Linear(24, 10))


class Detector(nn.Module):
    """A detector of boxes at two scales."""

    def __init__(self, *, is_joined: bool) -> None:
        super().__init__()
        self.fine = nn.Sequential(
            ConvNorm(3, 16, 3, 2, activation=nn.ReLU), BasicBlock(16, 32, 2)
        )
        self.coarse = BasicBlock(32, 48, 2)
        self.joined = (
            ConvNorm(32 + 48, 32, 3, activation=nn.SiLU) if is_joined else None
        )
        self.heads = nn.ModuleList(nn.Conv2d(n, 3 * 9, 3, 1, 1) for n in (32, 48))

    def forward(self, x: Tensor) -> Tensor:
        fine = self.fine(x)
        coarse = self.coarse(fine)
        if self.joined is not None:
            wide = F.interpolate(coarse, scale_factor=2.0, mode="nearest")
            fine = self.joined(torch.cat([fine, wide], 1))
        found = [
            head(each).permute(0, 2, 3, 1).reshape(x.shape[0], -1, 9)
            for head, each in zip(self.heads, (fine, coarse), strict=True)
        ]
        every = torch.cat(found, 1)
        return torch.cat([torch.sigmoid(every[..., :4]), every[..., 4:]], -1)


class Transformer(nn.Module):
    """Transformer blocks over embedded words or vectors, with a head."""

    def __init__(self, *, is_words: bool, is_causal: bool) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH) if is_words else None
        self.positions = nn.Parameter(torch.randn(LENGTH, WIDTH) * 0.1)
        make = partial(Block, WIDTH, 4, 1e-5, causal=is_causal, packed=is_causal)
        self.blocks = nn.Sequential(make(), make())
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, WORDS)

    def forward(self, x: Tensor) -> Tensor:
        x = x if self.words is None else self.words(x)
        return self.head(self.norm(self.blocks(x + self.positions)))


class Listener(nn.Module):
    """A speech model: two convolutions, transformer blocks, and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.front = nn.Sequential(
            nn.Conv1d(40, WIDTH, 3, 1, 1), nn.GELU(),
            nn.Conv1d(WIDTH, WIDTH, 3, 2, 1), nn.GELU(),
        )  # fmt: skip
        self.blocks = nn.Sequential(Block(WIDTH, 4, 1e-5), Block(WIDTH, 4, 1e-5))
        self.head = nn.Linear(WIDTH, 29)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.blocks(self.front(x).transpose(1, 2)))


class Separable(nn.Module):
    """Layer: depthwise and pointwise convolution of a sequence, and a shortcut."""

    def __init__(self, channels: int, size: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv1d(channels, channels, size, 1, size // 2, groups=channels),
            nn.Conv1d(channels, channels, 1, bias=False),
            nn.BatchNorm1d(channels),
        )

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(x + self.body(x))


def separable() -> nn.Module:
    """Return a QuartzNet-like speech model of separable convolutions."""
    stem = nn.Conv1d(40, 48, 11, 2, 5), nn.BatchNorm1d(48), nn.ReLU()
    return nn.Sequential(
        *stem, Separable(48, 11), Separable(48, 17), nn.Conv1d(48, 29, 1)
    )


_IMAGE, _FRAMES, _ROWS = (1, 3, 32, 32), (1, 40, 32), (1, LENGTH, WIDTH)
NETWORKS = {
    "residual": Network("classification", residual, _IMAGE),
    "mobile": Network("classification", lambda: mobile(nn.ReLU6, excite=False), _IMAGE),
    "gated": Network("classification", lambda: mobile(nn.SiLU, excite=True), _IMAGE),
    "pyramid": Network("detection", lambda: Detector(is_joined=True), _IMAGE),
    "scales": Network("detection", lambda: Detector(is_joined=False), _IMAGE),
    "encoder": Network(
        "encoder", lambda: Transformer(is_words=False, is_causal=False), _ROWS
    ),
    "decoder": Network(
        "decoder",
        lambda: Transformer(is_words=True, is_causal=True),
        (1, LENGTH),
        is_words=True,
    ),
    "listener": Network("speech", Listener, _FRAMES),
    "separable": Network("speech", separable, _FRAMES),
}
