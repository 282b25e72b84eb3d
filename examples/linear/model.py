"""Linear regression by gradient descent.

    aotc build examples/linear/model.py

The simplest model that trains: where its loss is least is known in closed form, by the
method of least squares, and gradient descent has to arrive there.
"""

import aotc
import aotc.numpy as np
from aotc import nn, optim

aotc.bundle(name="linear", version="1.0.0")

FEATURES = 8
ROWS = 256


def network(params, x):
    """A number for each row of x [batch, features]."""
    return x @ params["kernel"] + params["bias"]


def loss(params, x, y):
    """Mean squared error."""
    return nn.mse_loss(network(params, x), y).mean()


start = {"kernel": np.zeros(FEATURES), "bias": np.zeros(())}
optimizer = optim.sgd(0.1)
state = aotc.State({"params": start, "moments": optimizer.init(start)})


@aotc.entry(x=aotc.Spec((ROWS, FEATURES)), y=aotc.Spec((ROWS,)))
def train_step(state, x, y):
    """One step of gradient descent; keeps the new parameters, returns the loss."""
    params = state["params"]
    value, grads = aotc.value_and_grad(loss)(params, x, y)
    updates, moments = optimizer.update(grads, state["moments"], params)
    params = optim.apply_updates(params, updates)
    return {"params": params, "moments": moments}, value


@aotc.entry(state=state.frozen, x=aotc.Spec(("batch", FEATURES)))
def predict(state, x):
    """The numbers that belong to the rows of x, by the parameters in training."""
    return network(state["params"], x)
