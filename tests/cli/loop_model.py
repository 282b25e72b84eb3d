"""Entries to loop over, whose results tell in which order the rows came."""

import aotc
import aotc.numpy as np

state = aotc.State({"w": np.zeros(2), "n": 0, "key": np.ones(2, "u32")})


def step(state, x, rate):
    """A sum that depends on the order of the batches."""
    w = state["w"] * 0.9 + rate * np.sum(np.sin(x), axis=0)
    new = {"w": w, "n": state["n"] + 1, "key": state["key"] * 3}
    return new, {"loss": np.sum(w), "count": new["n"], "each": w}


@aotc.entry(x=aotc.Spec((4, 2)), y=aotc.Spec((4,), "i32"))
def train(state, x, y):
    """Batches of four rows."""
    return step(state, x * y.astype("f32").reshape(4, 1), 1.0)


@aotc.entry(x=aotc.Spec(("batch", 2)), rate=aotc.Spec(()))
def train_any(state, x, rate):
    """Batches of any size."""
    return step(state, x, rate)


@aotc.entry(batch={"x": aotc.Spec((4, 2)), "other": aotc.Spec((2, 2))})
def measure(batch):
    """Changes nothing, and takes rows of two sizes."""
    return np.sum(batch["x"]) + np.sum(batch["other"])


@aotc.entry(x=aotc.Spec(("rows", 2)), rate=aotc.Spec(()))
def predict(x, rate):
    """Changes nothing: a result for each row, one for all, one by columns."""
    each = np.sum(x, axis=1) * rate
    return {"each": each, "sum": np.sum(each), "columns": np.sum(x, axis=0)}


@aotc.entry(x=aotc.Spec((4, 2)))
def predict_four(x):
    """Changes nothing, and takes four rows."""
    return np.sum(x, axis=1)


@aotc.entry(x=aotc.Spec(("rows", 2)))
def distances(x):
    """Changes nothing; the size of a row of the result depends on the batch."""
    return np.sum(x, axis=1).reshape(1, -1)


@aotc.entry(state=state.frozen, x=aotc.Spec(("rows", 2)))
def score(state, x):
    """Changes nothing: a mean of the batch and a value for each row, by the states."""
    each = np.cos(x @ state["w"].reshape(2, 1))[:, 0]
    return {"mean": np.mean(each), "each": each, "columns": np.sum(x, axis=0)}
