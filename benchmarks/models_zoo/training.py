"""Training steps of the large networks, as the text of model files.

The loss is the cross-entropy of scores, by which a network learns from the first step
on: ResNet-50 and ViT-B classify images, BERT-base texts, GPT-2 and the LLaMA-style
stack say the next token at each position. ResNet-50 learns by gradient descent with
momentum, the others by AdamW.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from . import convolutional, transformers
from . import inputs as inputs_of
from .repeated import repeat_weights

FOLDER = Path(__file__).parents[1]


class BertClassifier(transformers.Bert):
    """BERT-base with a classifier of two classes on its pooler."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(768, 2)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        return self.head(super().forward(input_ids, attention_mask)[1])


class LlamaScores(transformers.Llama):
    """The LLaMA-style stack with the logits of all positions."""

    def forward(self, input_ids: Tensor) -> Tensor:
        length = input_ids.shape[1]
        angles = self.cosines[:length], self.sines[:length]
        x = self.words(input_ids)
        for block in self.blocks:
            x = block(x, angles)
        return self.head(self.norm(x))


@dataclass(frozen=True)
class Training:
    """The recipe of training a network: loss, optimizer, and inputs.

    Attributes:
        build: the network, which returns scores.
        labels: the shape of the labels of a batch of one, whose first size is 1.
        optimizer: a call of `aotc.optim`.
        peer: the same optimizer of PyTorch, with its options.
        has_state: whether the network has statistics that a step updates.
    """

    build: Callable[[], nn.Module]
    labels: tuple[int, ...] = (1,)
    optimizer: str = "adamw(1e-4)"
    peer: tuple[str, dict[str, float]] = ("AdamW", {"lr": 1e-4, "weight_decay": 1e-4})
    has_state: bool = False


TRAININGS = {
    "resnet50": Training(
        convolutional.resnet50,
        optimizer="sgd(0.1, momentum=0.9)",
        peer=("SGD", {"lr": 0.1, "momentum": 0.9}),
        has_state=True,
    ),
    "bert": Training(BertClassifier),
    "vit": Training(transformers.Vit),
    "gpt2": Training(transformers.Gpt2, (1, 64)),
    "llama": Training(LlamaScores, (1, 64)),
}

_SOURCE = """
import sys

import aotc
from aotc import nn, optim

sys.path.insert(0, {folder!r})
from models_zoo import training

aotc.bundle(name="{name}", version="1.0.0")
_network = training.imported({name!r}, {batch}, is_repeated={is_repeated})
start, buffers = _network.params, aotc.Weights(_network.buffers)
optimizer = optim.{optimizer}
state = aotc.State({{"params": start, "moments": optimizer.init(start)}})
{statistics}

@aotc.entry({specs}, labels=aotc.Spec({labels}, "i64"))
def train_step(state, buffers, {states}{inputs}, labels):
    def loss(params):
        {found} = _network({{**params, **buffers}}, {states}{inputs})
        return nn.cross_entropy(scores, labels).mean(), {new}

    params = state["params"]
    (value, new), grads = aotc.value_and_grad(loss, has_aux=True)(params)
    updates, moments = optimizer.update(grads, state["moments"], params)
    params = optim.apply_updates(params, updates)
    return {{"params": params, "moments": moments}}, {result}value
"""


def module(name: str, *, is_repeated: bool = False) -> nn.Module:
    """Return a network as it begins to train, with weights as PyTorch initialises them.

    Args:
        name: one of `TRAININGS`.
        is_repeated: whether large weights repeat a square of their numbers.
    """
    torch.manual_seed(0)
    network = TRAININGS[name].build()
    if is_repeated:
        repeat_weights(network)
    return network.train()


def labels(name: str, batch: int) -> Tensor:
    """Return the classes of a batch, zeros and ones in turn; i64."""
    shape = (batch, *TRAININGS[name].labels[1:])
    return (torch.arange(math.prod(shape)) % 2).reshape(shape)


def torch_step(name: str, network: nn.Module, **options: bool) -> Callable[..., Tensor]:
    """Return a function that makes a step in PyTorch and returns the loss before it.

    It takes the inputs of the network by name, and its labels.

    Args:
        name: one of `TRAININGS`.
        network: that learns.
        options: of the optimizer, beside those of the network.
    """
    kind, own = TRAININGS[name].peer
    optimizer = getattr(torch.optim, kind)(network.parameters(), **own, **options)

    def step(labels: Tensor, **inputs: Tensor) -> Tensor:
        optimizer.zero_grad()
        scores = network(**inputs)
        loss = F.cross_entropy(scores.flatten(0, -2), labels.flatten())
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def imported(name: str, batch: int, *, is_repeated: bool = False) -> Any:
    """Return a network of aotc as it begins to train; see `module`."""
    import aotc

    network = module(name, is_repeated=is_repeated)
    return aotc.from_torch(network, kwargs=inputs_of(name, batch), train=True)


def source(name: str, batch: int, *, is_repeated: bool = False) -> str:
    """Return the text of a model file whose entry `train_step` trains a network."""
    training, inputs = TRAININGS[name], inputs_of(name, batch)
    specs = ", ".join(
        f'{key}=aotc.Spec({tuple(x.shape)}, "{_DTYPES[x.dtype]}")'
        for key, x in inputs.items()
    )
    has_state = training.has_state
    return _SOURCE.format(
        folder=str(FOLDER),
        name=name,
        batch=batch,
        is_repeated=is_repeated,
        optimizer=training.optimizer,
        statistics="statistics = _network.state\n" if has_state else "",
        specs=specs,
        labels=(batch, *training.labels[1:]),
        states="statistics, " if has_state else "",
        inputs=", ".join(inputs),
        found="new, scores" if has_state else "scores",
        new="new" if has_state else "()",
        result="new, " if has_state else "",
    )


_DTYPES = {torch.float32: "f32", torch.int64: "i64"}
