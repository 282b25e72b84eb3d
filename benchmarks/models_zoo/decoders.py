"""One step of a decoder: the scores after one token, from keys and values of the past.

The past of layer N are the arguments key_N and value_N, (batch, heads, past, depth).
Their usual exports also give back the past with the new position appended. These do
not, so that no system is timed at handing over its cache.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from .transformers import Gpt2, Llama

PAST = 255  # positions before the token: a step attends to 256


class Gpt2Step(Gpt2):
    """One decoding step of GPT-2 with a key-value cache."""

    def forward(
        self, input_ids: Tensor, position_ids: Tensor, **past: Tensor
    ) -> Tensor:
        x = self.words(input_ids) + self.positions(position_ids)
        for number, block in enumerate(self.blocks):
            first, second = block.norms
            x = x + block.attention(first(x), past=_of_layer(past, number))
            x = x + block.mlp(second(x))
        return F.linear(self.norm(x), self.words.weight)


class LlamaStep(Llama):
    """One decoding step of the LLaMA-style stack; all sequences are at one position."""

    def __init__(self) -> None:
        super().__init__(length=1024)

    def forward(
        self, input_ids: Tensor, position_ids: Tensor, **past: Tensor
    ) -> Tensor:
        angles = self.cosines[position_ids[0]], self.sines[position_ids[0]]
        x = self.words(input_ids)
        for number, block in enumerate(self.blocks):
            x = block(x, angles, _of_layer(past, number))
        return self.head(self.norm(x))


def inputs(
    words: int, layers: int, heads: int, depth: int = 64, past: int = PAST
) -> Callable[[int], dict[str, Tensor]]:
    """Return a function from batch size to a step's arguments: token, position and
    past.

    Args:
        words: of the vocabulary.
        layers: that have a past.
        heads: of keys and values.
        depth: of each.
        past: positions before the token.
    """

    def of_batch(batch: int) -> dict[str, Tensor]:
        shape = batch, heads, past, depth
        found = {
            "input_ids": torch.randint(words, (batch, 1)),
            "position_ids": torch.full((batch, 1), past),
        }
        for number in range(layers):
            for name in ("key", "value"):
                found[f"{name}_{number}"] = torch.randn(shape)
        return found

    return of_batch


def _of_layer(past: dict[str, Tensor], number: int) -> tuple[Tensor, Tensor]:
    """Return a layer's past keys and values."""
    return past[f"key_{number}"], past[f"value_{number}"]
