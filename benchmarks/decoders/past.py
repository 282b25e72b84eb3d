"""The state that a decoder keeps between its steps, and its first value.

`inputs.npz`, beside this file, holds the arguments of a step as PyTorch's network takes
them: the past of layer N are key_N and value_N, (batch, heads, past, depth).
"""

from pathlib import Path

import numpy

import aotc
import aotc.numpy as np

CAPACITY = 1024  # positions that there is room for

with numpy.load(Path(__file__).with_name("inputs.npz")) as file:
    _inputs = dict(file)
BATCH = len(_inputs["input_ids"])
token = aotc.Spec((BATCH, 1), "i64")


def cache() -> aotc.State:
    """Return keys and values of each layer, (batch, capacity, heads, depth), filled
    with the past.
    """
    layers = sum(name.startswith("key_") for name in _inputs)
    names = ("key", "value")
    return aotc.State(
        [
            {name: _filled(_inputs[f"{name}_{n}"]) for name in names}
            for n in range(layers)
        ]
    )


def _filled(past: numpy.ndarray) -> numpy.ndarray:
    """Copy past keys or values into an array with the cache's capacity."""
    size, heads, held, depth = past.shape
    whole = numpy.zeros((size, CAPACITY, heads, depth), "f4")
    whole[:, :held] = past.transpose(0, 2, 1, 3)
    return whole


def with_position(old, key, value, position):
    """Return a layer's keys and values with those of one more position written."""
    start = [0, position, 0, 0]
    return {
        "key": np.dynamic_update_slice(old["key"], key, start),
        "value": np.dynamic_update_slice(old["value"], value, start),
    }
