"""Entries with code for some sizes: inference, a training step, a loop."""

import numpy

import aotc
import aotc.numpy as np
from aotc import control, nn, optim

RNG = numpy.random.default_rng(11)
batch = aotc.Dim("batch", max=64, specialize=(1, 8))
length = aotc.Dim("length", min=1, max=32)

weights = aotc.Weights({"w": RNG.normal(size=(24, 40)).astype("f4")})
optimizer = optim.adam(1e-2)
first = {"w": RNG.normal(size=(24, 5)).astype("f4")}
state = aotc.State({"params": first, "moments": optimizer.init(first)})


@aotc.entry(x=aotc.Spec((batch, 24)))
def predict(weights, x):
    return nn.softmax(np.tanh(x @ weights["w"]) + np.mean(x))


@aotc.entry(x=aotc.Spec((batch, 24)), y=aotc.Spec((batch, 5)))
def train_step(state, x, y):
    loss = lambda p: np.mean((x @ p["w"] - y) ** 2)  # noqa: E731
    value, gradients = aotc.value_and_grad(loss)(state["params"])
    updates, moments = optimizer.update(gradients, state["moments"], state["params"])
    params = optim.apply_updates(state["params"], updates)
    return {"params": params, "moments": moments}, value


@aotc.entry(xs=aotc.Spec((length, batch, 24)))
def recur(weights, xs):
    step = lambda h, x: (np.tanh(h + x @ weights["w"]), None)  # noqa: E731
    start = np.zeros((xs.shape[1], 40))
    return control.scan(step, start, xs)[0]
