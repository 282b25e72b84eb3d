"""The networks that aotc is timed on, one source for all systems.

Weights are random with a fixed seed: linear layers and embeddings of transformers with
deviation 0.02, as published, the rest as PyTorch initialises them. The statistics of
batch norms are those of one random batch, so that values keep their scale through deep
networks, as they do in trained ones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.export import Dim

from . import convolutional, decoders, small, transformers

Inputs = dict[str, Tensor]


@dataclass(frozen=True)
class Model:
    """A network of the zoo: its constructor and its inputs.

    Attributes:
        build: the module, with weights as PyTorch initialises them.
        inputs: of a batch, by the names of `forward`.
        parameters: how many the published network has.
        source: the file in `decoders` that aotc builds, because the network keeps its
            past; None to build what PyTorch exports.
        symbols: the symbolic sizes of its inputs: by input a name for each axis that
            has one.
    """

    build: Callable[[], nn.Module]
    inputs: Callable[[int], Inputs]
    parameters: int | None = None
    source: str | None = None
    symbols: dict[str, dict[int, Dim]] | None = None


def module(name: str) -> nn.Module:
    """Return a network of the zoo in eval mode, with fixed random weights.

    Raises:
        ValueError: it has not as many parameters as the published one.
    """
    torch.manual_seed(0)
    model = MODELS[name]
    network = model.build()
    if model.build in TRANSFORMERS:
        network.apply(_initialize)
    count = sum(p.numel() for p in network.parameters())
    if model.parameters not in (None, count):
        raise ValueError(f"{name} has {count} parameters, not {model.parameters}")
    _set_statistics(network, model)
    return network.eval()


def inputs(name: str, batch: int) -> Inputs:
    """Return the network's inputs for one batch, always the same."""
    torch.manual_seed(1)
    return MODELS[name].inputs(batch)


def _initialize(layer: nn.Module) -> None:
    """Initialize a layer's weights as transformers do."""
    if isinstance(layer, (nn.Linear, nn.Embedding)):
        nn.init.normal_(layer.weight, std=0.02)


def _set_statistics(network: nn.Module, model: Model) -> None:
    """Set each batch norm's mean and variance to those on random data."""
    norms = [m for m in network.modules() if isinstance(m, nn.BatchNorm2d)]
    if norms:
        for norm in norms:
            norm.momentum = None  # the average of all batches: this one
        with torch.no_grad():
            network.train()(**model.inputs(8))


def _image(size: int, name: str = "input") -> Callable[[int], Inputs]:
    """Return a function from batch size to a random image."""
    return lambda batch: {name: torch.randn(batch, 3, size, size)}


def _tokens(words: int, length: int) -> Callable[[int], Inputs]:
    """Return a function from batch size to random token ids."""
    return lambda batch: {"input_ids": torch.randint(words, (batch, length))}


def _bert(batch: int) -> Inputs:
    """Return BERT's inputs: token ids and a mask."""
    ids = _tokens(30522, 128)(batch)
    return {**ids, "attention_mask": torch.ones_like(ids["input_ids"])}


def _dit(batch: int) -> Inputs:
    """Return the inputs of a DiT block."""
    return {"x": torch.randn(batch, 256, 1152), "condition": torch.randn(batch, 1152)}


def _sequence(length: int, width: int) -> Callable[[int], Inputs]:
    """Return a function from batch size to random vectors."""
    return lambda batch: {"x": torch.randn(batch, length, width)}


_BATCH_AND_LENGTH = {0: Dim("batch"), 1: Dim("length", max=512)}

MODELS = {
    "resnet50": Model(convolutional.resnet50, _image(224), 25_557_032),
    "mobilenet_v2": Model(convolutional.mobilenet_v2, _image(224), 3_504_872),
    "bert": Model(transformers.Bert, _bert, 109_482_240),
    "bert-dynamic": Model(
        transformers.Bert,
        _bert,
        109_482_240,
        symbols={
            "input_ids": _BATCH_AND_LENGTH,
            "attention_mask": _BATCH_AND_LENGTH,
        },
    ),
    "gpt2": Model(transformers.Gpt2, _tokens(50257, 64), 124_439_808),
    "vit": Model(transformers.Vit, _image(224, "image"), 86_567_656),
    "mlp": Model(small.mlp, lambda batch: {"input": torch.randn(batch, 784)}),
    "efficientnet_b0": Model(convolutional.efficientnet_b0, _image(224), 5_288_548),
    "unet": Model(convolutional.UNet, _image(256, "x")),
    "llama": Model(transformers.Llama, _tokens(32000, 64)),
    "gpt2-decode": Model(
        decoders.Gpt2Step, decoders.inputs(50257, 12, 12), 124_439_808, "gpt2.py"
    ),
    "llama-decode": Model(
        decoders.LlamaStep, decoders.inputs(32000, 8, 4), source="llama.py"
    ),
    "lstm": Model(small.Lstm, _sequence(64, 128)),
    "moe": Model(small.Moe, _sequence(64, 512)),
    "dit": Model(transformers.DitBlock, _dit),
}
TRANSFORMERS = (
    transformers.Bert,
    transformers.Vit,
    transformers.Gpt2,
    transformers.Llama,
    decoders.Gpt2Step,
    decoders.LlamaStep,
)
