"""jax.jit of a network of `models_zoo_jax`, whose weights are arguments.

Calls are dispatched by the thread that waits for them, which wakes no other.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import jax
import models_zoo_jax
import numpy as np


def load(
    artifact: Path, inputs: dict[str, np.ndarray], threads: int
) -> Callable[[], list[np.ndarray]]:
    """Return a function that calls the jitted network on inputs on the device."""
    if threads == 1:
        flags = os.environ.get("XLA_FLAGS", "")
        os.environ["XLA_FLAGS"] = f"{flags} --xla_cpu_multi_thread_eigen=false"
    jax.config.update("jax_cpu_enable_async_dispatch", False)
    name = json.loads(artifact.with_name("model.json").read_text())
    network = jax.jit(models_zoo_jax.MODELS[name])
    with np.load(artifact) as arrays:
        weights = models_zoo_jax.nested(arrays)
    arguments = {name: jax.device_put(each) for name, each in inputs.items()}

    def call() -> list[np.ndarray]:
        return [
            np.asarray(each) for each in jax.tree.leaves(network(weights, **arguments))
        ]

    return call
