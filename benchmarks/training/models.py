"""The models whose steps are measured: sources, sizes and a batch of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .sources import DIT, SCAN_ODE, lora_source, resized_example, with_settled

Batch = dict[str, np.ndarray]


@dataclass(frozen=True)
class Model:
    """A training step to measure: source, batch and state.

    Attributes:
        title: its sizes, for tables.
        source: the text of its model file, with an entry `settled`.
        batch: random inputs of a step.
        entry: the step.
        state: that it changes; its `params` are what is learned.
        weights: whether there are frozen weights beside.
    """

    title: str
    source: Callable[[], str]
    batch: Callable[[np.random.Generator], Batch]
    entry: str = "train_step"
    state: str = "state"
    weights: bool = False

    @property
    def batch_size(self) -> int:
        """The first size of the first input."""
        first, *_ = self.batch(np.random.default_rng(0)).values()
        return len(first)


def example(
    title: str,
    name: str,
    constants: dict[str, object],
    batch: Callable[[np.random.Generator], Batch],
    *,
    entry: str = "train_step",
    state: str = "state",
    more: str = "",
) -> Model:
    """Return a model of examples/ with other constants and additional source."""

    def source() -> str:
        return resized_example(name, constants, state) + more

    return Model(title, source, batch, entry, state)


def classes(rng: np.random.Generator, count: int, *shape: int) -> np.ndarray:
    """Return random class labels."""
    return rng.integers(0, count, shape, "i4")


def normal(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Return random f32 numbers."""
    return rng.standard_normal(shape, "f4")


def text(rng: np.random.Generator) -> Batch:
    """Return random tokens, and the tokens that follow each."""
    tokens = classes(rng, 128, 8, 129)
    return {"tokens": tokens[:, :-1].copy(), "targets": tokens[:, 1:].copy()}


def masked_text(rng: np.random.Generator) -> Batch:
    """Return tokens of several texts, 15 % of them masked."""
    pieces = rng.integers(2, 128, (8, 128), "i4")
    there = np.arange(128) < rng.integers(64, 129, (8, 1))
    asked = there & (rng.random(pieces.shape) < 0.15)
    tokens = np.where(asked, 1, np.where(there, pieces, 0)).astype("i4")
    return {"tokens": tokens, "targets": np.where(asked, pieces, -1).astype("i4")}


TRANSFORMER = {"LAYERS": 4, "WIDTH": 256, "HEADS": 8, "LENGTH": 128, "BATCH": 8}

MODELS = {
    "mlp": example(
        "784-512-512-10, batch 128",
        "mlp",
        {"INPUTS": 784, "HIDDEN": (512, 512), "BATCH": 128},
        lambda rng: {
            "x": rng.random((128, 784), "f4"),
            "labels": classes(rng, 10, 128),
        },
        entry="train_mlp",
        state="mlp",
    ),
    "lstm": example(
        "2 layers of 128, length 64, batch 32",
        "lstm",
        {"LAYERS": 2, "WIDTH": 128, "LENGTH": 64},
        lambda rng: {
            "sequences": rng.random((32, 64, 2), "f4"),
            "sums": normal(rng, 32),
        },
    ),
    "gru": example(
        "width 128, length 64, batch 32",
        "gru",
        {"WIDTH": 128, "LENGTH": 64},
        lambda rng: {"values": normal(rng, 32, 64), "targets": normal(rng, 32, 64)},
    ),
    "gpt": example("4 layers of 256, 8 × 128 tokens", "gpt", TRANSFORMER, text),
    "bert": example(
        "4 layers of 256, 8 × 128 tokens, some masked", "bert", TRANSFORMER, masked_text
    ),
    "resnet": example(
        "ResNet-20, 32×32, batch 32",
        "resnet",
        {"SIZE": 32, "CHANNELS": 3, "BLOCKS": 3, "BATCH": 32},
        lambda rng: {
            "images": rng.random((32, 32, 32, 3), "f4"),
            "labels": classes(rng, 10, 32),
        },
    ),
    "vit": example(
        "4 layers of 192, 32×32 in patches of 4, batch 16",
        "vit",
        {"SIZE": 32, "PATCH": 4, "LAYERS": 4, "WIDTH": 192, "HEADS": 6, "BATCH": 16},
        lambda rng: {
            "images": rng.random((16, 32, 32, 1), "f4"),
            "labels": classes(rng, 10, 16),
        },
    ),
    "unet": example(
        "3 levels from 16 channels, 64×64, batch 4",
        "unet",
        {"SIZE": 64, "WIDTHS": (16, 32, 64), "BATCH": 4},
        lambda rng: {
            "images": rng.random((4, 64, 64, 1), "f4"),
            "classes": classes(rng, 3, 4, 64, 64),
        },
    ),
    "moe": example(
        "2 layers of 128, 8 experts, best 2, 8 × 128 tokens",
        "moe",
        {"WIDTH": 128, "EXPERTS": 8, "LENGTH": 128, "BATCH": 8},
        text,
    ),
    "dit": example(
        "4 layers of 192, 16×16 in patches of 2, batch 8",
        "dit",
        {"SIZE": 16, "LAYERS": 4, "WIDTH": 192, "HEADS": 6, "BATCH": 8},
        lambda rng: {
            "images": normal(rng, 8, 16, 16, 1),
            "labels": classes(rng, 10, 8),
            "times": rng.random(8, "f4"),
            "noise": normal(rng, 8, 16, 16, 1),
        },
        entry="train_given",
        more=DIT,
    ),
    "scan_ode": Model(
        "network of width 64, 100 Runge–Kutta steps, batch 64",
        lambda: with_settled(SCAN_ODE, "state"),
        lambda rng: {"starts": normal(rng, 64, 1), "observed": normal(rng, 100, 64, 1)},
    ),
    "lora": Model(
        "rank 8 at attention of gpt, whose weights are f32 and frozen",
        lambda: lora_source(TRANSFORMER),
        text,
        weights=True,
    ),
}
