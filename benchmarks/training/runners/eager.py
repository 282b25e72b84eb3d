"""PyTorch, op by op."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import models_torch
import numpy as np
import torch

from ..trees import read_tree

Load = Callable[[Path, "dict[str, np.ndarray]", int], Callable[[], "list[np.ndarray]"]]


def loader(
    compiled: bool = False,
    dtype: torch.dtype = torch.float32,
    autocast: torch.dtype | None = None,
) -> Load:
    """Return a `load` function for eager, compiled or mixed-precision steps.

    Args:
        compiled: by torch.compile.
        dtype: of parameters and of the floats of a batch.
        autocast: the dtype of mixed precision.
    """

    def load(
        artifact: Path, inputs: dict[str, np.ndarray], threads: int
    ) -> Callable[[], list[np.ndarray]]:
        """A step on tensors that are made before."""
        torch.set_num_threads(threads)
        name = json.loads(artifact.with_name("model.json").read_text())["name"]
        loss = models_torch.LOSSES[name]
        if compiled:
            loss = models_torch.compiled_loss(name)
        weights = artifact.with_name("weights.npz")
        if weights.exists():
            frozen = models_torch.leaves(read_tree(weights), dtype, learned=False)
            loss = partial(loss, weights=frozen)
        params = models_torch.leaves(read_tree(artifact), dtype)
        batch = {key: tensor(each, dtype) for key, each in inputs.items()}
        step = models_torch.stepper(loss, params, autocast)
        return lambda: [np.asarray(step(**batch))]

    return load


def tensor(array: np.ndarray, dtype: torch.dtype) -> torch.Tensor:
    """Return an array as a tensor; floats in `dtype`, integers in i64."""
    found = torch.from_numpy(array)
    return found.to(dtype) if found.is_floating_point() else found.long()


load = loader()
