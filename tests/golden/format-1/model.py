"""The source of the golden bundle: weights, a state, symbolic and static sizes."""

import numpy

import aotc

weights = aotc.Weights({"w": numpy.arange(12, dtype="float32").reshape(4, 3)})
state = aotc.State({"total": numpy.zeros(3, "float32"), "count": numpy.int32(0)})
batch = aotc.Dim("batch", min=1, max=64)


@aotc.entry(x=aotc.Spec((batch, 4), "f32"))
def predict(weights, x):
    """One product; its rows are as many as are given."""
    return x @ weights["w"]


@aotc.entry(x=aotc.Spec((3,), "f32"))
def train_step(state, x):
    """Adds x up, and counts."""
    total = state["total"] + x
    return {"total": total, "count": state["count"] + 1}, total
