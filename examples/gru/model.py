"""A gated recurrent network that predicts the next value of a sequence.

    aotc build examples/gru/model.py

At every position it has seen the values up to there and says the one that follows, by
which it is trained. Batches have any size.

Cho et al., "Learning phrase representations using RNN encoder–decoder for statistical
machine translation", EMNLP 2014.
"""

import aotc
import aotc.numpy as np
from aotc import nn, optim, random

aotc.bundle(name="gru", version="1.0.0")

WIDTH = 48
LENGTH = 40


def network(params, values):
    """The next value at each position of the sequences [batch, length]."""
    xs = np.expand_dims(values.T, -1)
    hidden, _ = nn.gru(xs, **params["gru"])
    return nn.dense(hidden, **params["head"])[:, :, 0].T


def init(seed=0):
    """Fresh parameters: kernels by Glorot and Bengio, biases zero."""
    keys = random.split(random.key(seed), 3)
    glorot = nn.initializers.glorot_uniform()
    gru = {
        "kernel": glorot(keys[0], (1, 3 * WIDTH)),
        "recurrent": glorot(keys[1], (WIDTH, 3 * WIDTH)),
        "bias": np.zeros(3 * WIDTH),
        "recurrent_bias": np.zeros(3 * WIDTH),
    }
    head = {"kernel": glorot(keys[2], (WIDTH, 1)), "bias": np.zeros(1)}
    return {"gru": gru, "head": head}


def loss(params, values, targets):
    """Mean squared error."""
    return nn.mse_loss(network(params, values), targets).mean()


start = init()
optimizer = optim.chain(optim.clip_by_global_norm(1.0), optim.adam(5e-3))
state = aotc.State({"params": start, "moments": optimizer.init(start)})

sequences = aotc.Spec(("batch", LENGTH))


@aotc.entry(values=sequences, targets=sequences)
def train_step(state, values, targets):
    """One step of Adam; keeps the new parameters and returns the loss."""
    params = state["params"]
    value, grads = aotc.value_and_grad(loss)(params, values, targets)
    updates, moments = optimizer.update(grads, state["moments"], params)
    params = optim.apply_updates(params, updates)
    return {"params": params, "moments": moments}, value


@aotc.entry(state=state.frozen, values=sequences)
def predict(state, values):
    """The next value at each position, by the parameters in training."""
    return network(state["params"], values)
