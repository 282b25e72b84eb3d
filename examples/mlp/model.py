"""Logistic regression and a dense network, side by side on handwritten digits.

    aotc build examples/mlp/model.py

Logistic regression is the network without hidden layers. Each model has its own state,
a training step (`train_logistic`, `train_mlp`) and an entry that predicts.
"""

import aotc
import aotc.numpy as np
from aotc import nn, optim, random

aotc.bundle(name="mlp", version="1.0.0")

INPUTS = 64
HIDDEN = (128, 128)
CLASSES = 10
BATCH = 64


def network(params, x):
    """Logits [batch, classes] of x [batch, inputs]."""
    for p in params[:-1]:
        x = nn.relu(nn.dense(x, **p))
    return nn.dense(x, **params[-1])


def init(sizes, seed=0):
    """Fresh parameters of the layers between sizes: He et al. (2015), biases zero."""
    pairs = list(zip(sizes[:-1], sizes[1:], strict=True))
    he, keys = nn.initializers.he_normal(), random.split(random.key(seed), len(pairs))
    return [
        {"kernel": he(key, pair), "bias": np.zeros(pair[1])}
        for key, pair in zip(keys, pairs, strict=True)
    ]


def loss(params, x, labels):
    """Mean cross-entropy."""
    return nn.cross_entropy(network(params, x), labels).mean()


def step(state, x, labels):
    """One step of Adam: the new state and the loss."""
    params = state["params"]
    value, grads = aotc.value_and_grad(loss)(params, x, labels)
    updates, moments = optimizer.update(grads, state["moments"], params)
    params = optim.apply_updates(params, updates)
    return {"params": params, "moments": moments}, value


def fresh(params):
    """The state that training starts from."""
    return aotc.State({"params": params, "moments": optimizer.init(params)})


optimizer = optim.adam(5e-3)
logistic = fresh(init((INPUTS, CLASSES)))
mlp = fresh(init((INPUTS, *HIDDEN, CLASSES)))

x = aotc.Spec((BATCH, INPUTS))
labels = aotc.Spec((BATCH,), "i32")
any_x = aotc.Spec(("batch", INPUTS))


@aotc.entry(state=logistic, x=x, labels=labels)
def train_logistic(state, x, labels):
    """One step for logistic regression; returns the loss."""
    return step(state, x, labels)


@aotc.entry(state=mlp, x=x, labels=labels)
def train_mlp(state, x, labels):
    """One step for the dense network; returns the loss."""
    return step(state, x, labels)


@aotc.entry(state=logistic.frozen, x=any_x)
def predict_logistic(state, x):
    """The probability of each class, by logistic regression."""
    return nn.softmax(network(state["params"], x))


@aotc.entry(state=mlp.frozen, x=any_x)
def predict_mlp(state, x):
    """The probability of each class, by the dense network."""
    return nn.softmax(network(state["params"], x))
