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
    """Return the last state and all states of a simple recurrent network."""

    def step(h, x):
        h = np.tanh(h @ weights["kernel"] + x)
        return h, h

    return control.scan(step, np.zeros(xs.shape[1:], "f32"), xs)


@aotc.entry(xs=sequence)
def running(xs):
    """Return cumulative sums along the steps, and along each step's elements."""
    return np.cumsum(xs, 0), np.cumsum(xs, 2)


@aotc.entry(xs=sequence)
def halved(xs):
    """Halve until the largest is below one; return the number of steps and the rest."""

    def is_large(carried):
        return np.max(np.abs(carried[1]), initial=0.0) >= 1.0

    def halve(carried):
        return carried[0] + 1, carried[1] / 2

    return control.while_loop(is_large, halve, (np.asarray(0, "i32"), xs))
