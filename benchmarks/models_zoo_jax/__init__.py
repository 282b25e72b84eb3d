"""The networks of `models_zoo` in JAX, as functions of the same weights.

A network is `function(weights, **inputs)`, inputs and results as those of the module in
PyTorch. Weights are a nested dict under the names of the module's state. As is usual in
JAX, features come last: in the weights of linear layers and convolutions, and in images
between the layers.
"""

from __future__ import annotations

from collections.abc import Mapping

import jax
import numpy as np

from . import convolutional, decoders, small, transformers

MODELS = {
    "resnet50": convolutional.resnet50,
    "mobilenet_v2": convolutional.mobilenet_v2,
    "bert": transformers.bert,
    "gpt2": transformers.gpt2,
    "vit": transformers.vit,
    "mlp": small.mlp,
    "efficientnet_b0": convolutional.efficientnet_b0,
    "unet": convolutional.unet,
    "llama": transformers.llama,
    "gpt2-decode": decoders.gpt2_step,
    "llama-decode": decoders.llama_step,
    "lstm": small.lstm,
    "moe": small.moe,
    "dit": transformers.dit_block,
}


EMBEDDINGS = ("words", "positions", "kinds")


def nested(arrays: Mapping[str, np.ndarray]) -> dict:
    """Return a module's arrays on the device as nested dicts: `a.b` as `["a"]["b"]`."""
    tree: dict = {}
    for name, array in arrays.items():
        *path, last = name.split(".")
        place = tree
        for part in path:
            place = place.setdefault(part, {})
        is_kernel = last.startswith("weight") and path[-1] not in EMBEDDINGS
        place[last] = jax.device_put(features_last(array) if is_kernel else array)
    return tree


def features_last(weight: np.ndarray) -> np.ndarray:
    """Transpose a weight to have its features last."""
    if weight.ndim < 2:
        return weight
    front = tuple(range(2, weight.ndim))
    return np.ascontiguousarray(weight.transpose(*front, 1, 0))
