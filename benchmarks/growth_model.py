"""A model of any size, for `growth.py`, which sets the variables that say how large.

    GROWTH_KIND=chain GROWTH_STEPS=100 aotc build benchmarks/growth_model.py -v

GROWTH_BATCH is a number, or a name for a batch of any size.
"""

import os

import aotc
import aotc.numpy as np
from aotc import control, nn, optim

KIND = os.environ.get("GROWTH_KIND", "chain")
STEPS = int(os.environ.get("GROWTH_STEPS", "10"))
BATCH = os.environ.get("GROWTH_BATCH", "4")
WIDTH = 16
LENGTH = 5


def mixed(x, w):
    """A product, a reduction and elementwise ops of different kinds."""
    x = np.tanh(x @ w)
    x = x - np.mean(x, axis=-1, keepdims=True)
    return np.sqrt(x * x + 0.5) / 2.0


def chain(x, w):
    """Each step reads the one before."""
    for _ in range(STEPS):
        x = mixed(x, w)
    return x.sum()


def residual(x, w):
    """Each step adds to what the one before left."""
    for _ in range(STEPS):
        x = x + nn.relu(x @ w) @ w
        x = x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + 1.0)
    return x.sum()


def branching(x, w):
    """Two values that every step reads, and a sum of what all of them give."""
    shared, total = np.tanh(x), x
    for number in range(STEPS):
        branch = np.sin(shared * (1.0 + number)) @ w
        total = total + np.where(shared > 0, branch, x)
    return total.sum()


def differentiated(x, w):
    """The value of a chain and its derivative."""
    value, gradient = aotc.value_and_grad(chain, argnums=1)(x, w)
    return value, gradient


def looping(x, w):
    """Each step is a loop, as in a deep recurrent network."""

    def step(h, x):
        h = np.tanh(h @ w + x)
        return h, h

    for _ in range(STEPS):
        xs = np.broadcast_to(x, (LENGTH, *x.shape))
        x, ys = control.scan(step, x, xs)
        x = x + ys.sum(axis=0)
    return x.sum()


ENTRIES = {each.__name__: each for each in (chain, residual, branching, looping)}
ENTRIES["differentiated"] = differentiated

x = aotc.Spec((int(BATCH) if BATCH.isdigit() else BATCH, WIDTH))
w = aotc.Spec((WIDTH, WIDTH))
optimizer = optim.adam(1e-3)


def training():
    """A step of an optimizer, for a chain with its own weights at each step."""
    rows = [np.full((WIDTH, WIDTH), 0.1) for _ in range(STEPS)]
    start = aotc.State({"params": rows, "moments": optimizer.init(rows)})

    def loss(params, x):
        for w in params:
            x = np.tanh(x @ w)
        return x.sum()

    @aotc.entry(state=start, x=x)
    def grow(state, x):
        value, grads = aotc.value_and_grad(loss)(state["params"], x)
        updates, moments = optimizer.update(grads, state["moments"], state["params"])
        params = optim.apply_updates(state["params"], updates)
        return {"params": params, "moments": moments}, value

    return grow


grow = training() if KIND == "training" else aotc.entry(x=x, w=w)(ENTRIES[KIND])
