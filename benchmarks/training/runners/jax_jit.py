"""jax.jit of a step of `models_jax` with Optax, whose state is donated.

Calls are dispatched by the thread that waits for them, which wakes no other.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import jax
import models_jax
import numpy as np
import optax

from ..trees import read_tree

RATE = 1e-3


def load(
    artifact: Path, inputs: dict[str, np.ndarray], threads: int
) -> Callable[[], list[np.ndarray]]:
    """Return a function that runs a jitted training step on a batch on the device."""
    if threads == 1:
        flags = os.environ.get("XLA_FLAGS", "")
        os.environ["XLA_FLAGS"] = f"{flags} --xla_cpu_multi_thread_eigen=false"
    jax.config.update("jax_cpu_enable_async_dispatch", False)
    name = json.loads(artifact.with_name("model.json").read_text())["name"]
    weights = artifact.with_name("weights.npz")
    batch = {**inputs, "weights": read_tree(weights)} if weights.exists() else inputs
    batch = jax.device_put(batch)
    step = models_jax.stepper(
        models_jax.LOSSES[name], optax.adam(RATE), read_tree(artifact)
    )
    return lambda: [np.asarray(step(**batch))]
