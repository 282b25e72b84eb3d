"""Loops and running sums."""

import aotc
import aotc.numpy as np
from aotc import control, random

aotc.bundle(name="scan", version="1.0.0")

UNITS = 64

weights = aotc.Weights({"kernel": 0.1 * random.normal(random.key(0), (UNITS, UNITS))})
sequence = aotc.Spec(("steps", "batch", UNITS), "f32")


@aotc.entry(xs=sequence)
def recur(weights, xs):
    """Return a simple recurrent network: the last state, and all of them."""

    def step(h, x):
        h = np.tanh(h @ weights["kernel"] + x)
        return h, h

    return control.scan(step, np.zeros(xs.shape[1:], "f32"), xs)


@aotc.entry(xs=sequence)
def running(xs):
    """Running sums along the steps, and of the elements of each."""
    return np.cumsum(xs, 0), np.cumsum(xs, 2)


@aotc.entry(xs=sequence)
def halved(xs):
    """Halve until the largest is below one: how often, and what is left."""

    def is_large(carried):
        return np.max(np.abs(carried[1]), initial=0.0) >= 1.0

    def halve(carried):
        return carried[0] + 1, carried[1] / 2

    return control.while_loop(is_large, halve, (np.asarray(0, "i32"), xs))
