"""A model, and the files of its builds."""

MODEL = """
import numpy
import aotc
import aotc.numpy as np
from collections import namedtuple

Pair = namedtuple("Pair", "left right")
aotc.bundle(version="2.5")
table = aotc.Weights({"b": numpy.ones((3, 2), "u1"), "a": numpy.full((4,), 2.0, "f4")})
state = aotc.State({"w": numpy.ones((4, 3), "f4"), "n": numpy.zeros((), "i8"),
                    "none": numpy.zeros((0, 2), "f2"), "flag": numpy.array(True)})
n = aotc.Dim("n", min=2, max=64, multiple_of=2, optimum=8)


@aotc.entry(x=aotc.Spec((n, 4)), y=aotc.Spec(("m", 3)))
def predict(table, y, x):
    a = np.tanh(x * table["a"])
    return Pair({"z": a, "a": [x, (y,)]}, None)


@aotc.entry(x=aotc.Spec((n, 4)))
def step(state, table, x):
    def loss(w):
        return np.square(np.sin(x * table["a"]) @ w - 1).mean()

    value, slope = aotc.value_and_grad(loss)(state["w"])
    new = {**state, "w": state["w"] - 0.1 * slope, "n": state["n"] + 1}
    return new, value
"""
