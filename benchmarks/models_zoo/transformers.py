"""BERT-base, ViT-B/16, GPT-2, and stacks in the manner of LLaMA and DiT."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .attention import Attention


def mlp(width: int, hidden: int, approximate: str = "none") -> nn.Module:
    """Return a module: linear, GELU, linear."""
    return nn.Sequential(
        nn.Linear(width, hidden), nn.GELU(approximate), nn.Linear(hidden, width)
    )


class Block(nn.Module):
    """Transformer block; norms come before each part, or after in BERT."""

    def __init__(
        self,
        width: int,
        heads: int,
        eps: float,
        *,
        after: bool = False,
        packed: bool = False,
        causal: bool = False,
        approximate: str = "none",
    ) -> None:
        super().__init__()
        self.attention = Attention(width, heads, packed=packed, causal=causal)
        self.mlp = mlp(width, 4 * width, approximate)
        self.norms = nn.ModuleList(nn.LayerNorm(width, eps) for _ in range(2))
        self.after = after

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        first, second = self.norms
        if self.after:
            x = first(x + self.attention(x, mask))
            return second(x + self.mlp(x))
        x = x + self.attention(first(x), mask)
        return x + self.mlp(second(x))


class Bert(nn.Module):
    """BERT-base (Devlin et al. 2018) with its pooler.

    Token ids and mask, i64 of (batch, length) → (batch, length, 768) and (batch, 768).
    """

    def __init__(self, width: int = 768, layers: int = 12) -> None:
        super().__init__()
        self.words = nn.Embedding(30522, width)
        self.positions = nn.Embedding(512, width)
        self.kinds = nn.Embedding(2, width)
        self.norm = nn.LayerNorm(width, 1e-12)
        self.blocks = nn.ModuleList(
            Block(width, width // 64, 1e-12, after=True) for _ in range(layers)
        )
        self.pooler = nn.Linear(width, width)

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor
    ) -> tuple[Tensor, Tensor]:
        positions = torch.arange(input_ids.shape[1], device=input_ids.device)
        x = self.words(input_ids) + self.positions(positions)
        x = self.norm(x + self.kinds(torch.zeros_like(input_ids)))
        smallest = torch.finfo(x.dtype).min
        mask = (1.0 - attention_mask[:, None, None, :].to(x.dtype)) * smallest
        for block in self.blocks:
            x = block(x, mask)
        return x, torch.tanh(self.pooler(x[:, 0]))


class Vit(nn.Module):
    """ViT-B/16 (Dosovitskiy et al. 2020), 1,000 classes, images of 224×224."""

    def __init__(self, width: int = 768, layers: int = 12) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, 16, 16)
        self.token = nn.Parameter(torch.zeros(1, 1, width))
        self.positions = nn.Parameter(0.02 * torch.randn(1, 14 * 14 + 1, width))
        self.blocks = nn.Sequential(
            *(Block(width, 12, 1e-6, packed=True) for _ in range(layers))
        )
        self.norm = nn.LayerNorm(width, 1e-6)
        self.head = nn.Linear(width, 1000)

    def forward(self, image: Tensor) -> Tensor:
        x = self.patches(image).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(len(x), -1, -1), x], 1) + self.positions
        return self.head(self.norm(self.blocks(x))[:, 0])


class Gpt2(nn.Module):
    """GPT-2 small (Radford et al. 2019): the logits of all positions."""

    def __init__(self, width: int = 768, layers: int = 12) -> None:
        super().__init__()
        self.words = nn.Embedding(50257, width)
        self.positions = nn.Embedding(1024, width)
        self.blocks = nn.Sequential(
            *(
                Block(width, 12, 1e-5, packed=True, causal=True, approximate="tanh")
                for _ in range(layers)
            )
        )
        self.norm = nn.LayerNorm(width, 1e-5)

    def forward(self, input_ids: Tensor) -> Tensor:
        positions = torch.arange(input_ids.shape[1], device=input_ids.device)
        x = self.words(input_ids) + self.positions(positions)
        return F.linear(self.norm(self.blocks(x)), self.words.weight)


class LlamaBlock(nn.Module):
    """LLaMA block: RMS norms, rotary positions, grouped heads, SwiGLU (Touvron et al.
    2023).
    """

    def __init__(self, width: int, heads: int, groups: int, hidden: int) -> None:
        super().__init__()
        self.attention = Attention(width, heads, groups, bias=False, causal=True)
        self.norms = nn.ModuleList(nn.RMSNorm(width, 1e-5) for _ in range(2))
        self.gate = nn.Linear(width, hidden, False)
        self.up = nn.Linear(width, hidden, False)
        self.down = nn.Linear(hidden, width, False)

    def forward(
        self,
        x: Tensor,
        angles: tuple[Tensor, Tensor],
        past: tuple[Tensor, Tensor] | None = None,
    ) -> Tensor:
        first, second = self.norms
        x = x + self.attention(first(x), angles=angles, past=past)
        y = second(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Llama(nn.Module):
    """8 LLaMA-style blocks: the logits of the last position."""

    def __init__(self, width: int = 1024, layers: int = 8, length: int = 256) -> None:
        super().__init__()
        self.words = nn.Embedding(32000, width)
        self.blocks = nn.ModuleList(
            LlamaBlock(width, 16, 4, 2816) for _ in range(layers)
        )
        self.norm = nn.RMSNorm(width, 1e-5)
        self.head = nn.Linear(width, 32000, False)
        half = width // 16 // 2
        frequencies = 10000 ** (-torch.arange(half) / half)
        angles = torch.outer(torch.arange(length).float(), frequencies).repeat(1, 2)
        self.register_buffer("cosines", angles.cos())
        self.register_buffer("sines", angles.sin())

    def forward(self, input_ids: Tensor) -> Tensor:
        length = input_ids.shape[1]
        angles = self.cosines[:length], self.sines[:length]
        x = self.words(input_ids)
        for block in self.blocks:
            x = block(x, angles)
        return self.head(self.norm(x[:, -1]))


class DitBlock(nn.Module):
    """A block of DiT-XL/2 with adaptive norms (Peebles and Xie 2022)."""

    def __init__(self, width: int = 1152, heads: int = 16) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width, 1e-6, elementwise_affine=False)
        self.attention = Attention(width, heads, packed=True)
        self.mlp = mlp(width, 4 * width, "tanh")
        self.modulation = nn.Sequential(nn.SiLU(), nn.Linear(width, 6 * width))

    def forward(self, x: Tensor, condition: Tensor) -> Tensor:
        parts = self.modulation(condition)[:, None].chunk(6, -1)
        shift, scale, gate, shift2, scale2, gate2 = parts
        x = x + gate * self.attention(self.norm(x) * (1 + scale) + shift)
        return x + gate2 * self.mlp(self.norm(x) * (1 + scale2) + shift2)
