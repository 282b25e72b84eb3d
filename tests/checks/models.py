"""Models that are checked."""

import pytest

from aotc.errors import CompileError
from tests.checks.building import build

MODEL = """
import aotc
import aotc.numpy as np
import numpy

state = aotc.State({"w": numpy.float32([1, 2, 3]), "n": numpy.int32(0)})


@aotc.entry(x=aotc.Spec(("n", 3), "f32"))
def predict(x):
    return {"y": np.tanh(x).sum(0), "best": np.argmax(x, 1)}


@aotc.entry(x=aotc.Spec((3,), "f32"))
def train_step(state, x):
    loss, g = aotc.value_and_grad(lambda w: (np.sin(w) * x).sum())(state["w"])
    return {"w": state["w"] - 0.1 * g, "n": state["n"] + 1}, loss
"""


def refused_build(model):
    """The error of a build whose code is wrong; nothing is left of it."""
    with pytest.raises(CompileError) as caught:
        build(model)
    assert not list(model.parent.glob("*.aotc"))
    return caught.value


SENSITIVE = """
import aotc
import aotc.numpy as np


@aotc.entry(x=aotc.Spec((64, 64), "f32"))
def chaotic(x):
    for _ in range(12):
        x = np.sin(5.0 * (x @ x))
    return x
"""
