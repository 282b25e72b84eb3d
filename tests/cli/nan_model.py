"""Entries whose results stop being finite, and some whose do not."""

import aotc
import aotc.numpy as np
from aotc import control

x = aotc.Spec((3,))
state = aotc.State({"w": np.ones(2)})  # a single one is not written over in place


@aotc.entry(x=x)
def root(x):
    """The gradient of a root, which is infinite at 0."""
    return aotc.grad(lambda x: np.sqrt(x).sum())(x)


@aotc.entry(x=x)
def chosen(x):
    """Finite forward; backward, 0 · inf for what is not chosen."""
    return aotc.value_and_grad(lambda x: np.where(x > 0, np.log(x), 0).sum())(x)


@aotc.entry(x=x)
def looped(x):
    """A fraction whose divisor becomes 0 in the second step."""

    def step(y, i):
        return (y - y) / (1.0 - i), None

    return control.scan(step, x, np.arange(3.0))[0].sum()


@aotc.entry(x=x)
def masked(x):
    """The infinities of a mask are there on purpose."""
    return np.exp(np.where(x > 0, x, -np.inf)).sum()


@aotc.entry(x=aotc.Spec((4, 2)))
def train(state, x):
    """Loses its parameters within a few steps."""
    value, slope = aotc.value_and_grad(lambda w: (np.exp(w) * x).sum())(state["w"])
    return {"w": state["w"] + slope}, {"loss": value}
