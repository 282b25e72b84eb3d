"""PyTorch, op by op."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import nn


def load(
    artifact: Path, inputs: dict[str, np.ndarray], threads: int
) -> Callable[[], list[np.ndarray]]:
    """Return a function that calls the module."""
    return call_of(read(artifact, threads), inputs)


def read(artifact: Path, threads: int) -> nn.Module:
    """Load the saved module."""
    torch.set_num_threads(threads)
    return torch.load(artifact, weights_only=False)


def call_of(
    module: Callable[..., object], inputs: dict[str, np.ndarray]
) -> Callable[[], list[np.ndarray]]:
    """Return a function that calls the module on tensors sharing the inputs' memory."""
    tensors = {name: torch.from_numpy(each) for name, each in inputs.items()}

    def call() -> list[np.ndarray]:
        with torch.inference_mode():
            results = module(**tensors)
        if not isinstance(results, (list, tuple)):
            results = [results]
        return [each.numpy() for each in results]

    return call
