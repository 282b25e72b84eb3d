"""An LSTM that learns to add two numbers that are far apart in a sequence.

    aotc build examples/lstm/model.py

A sequence has two features: random numbers, and marks at two of them. The network has
to say the sum of the marked ones (the adding problem of Hochreiter and Schmidhuber,
"Long short-term memory", 1997). Batches have any size.
"""

import aotc
import aotc.numpy as np
from aotc import nn, optim, random

aotc.bundle(name="lstm", version="1.0.0")

LAYERS = 1
WIDTH = 64
LENGTH = 24


def network(params, sequences):
    """A number for each of the sequences [batch, length, 2]."""
    xs = np.swapaxes(sequences, 0, 1)
    for p in params["layers"]:
        xs, _ = nn.lstm(xs, **p)
    return nn.dense(xs[-1], **params["head"])[:, 0]


def init(seed=0):
    """Fresh parameters: kernels by Glorot and Bengio, gates that remember at first."""
    keys = iter(random.split(random.key(seed), 2 * LAYERS + 1))
    glorot = nn.initializers.glorot_uniform()

    def layer(features):
        bias = np.zeros((4, WIDTH)).at[1].set(1.0)
        return {
            "kernel": glorot(next(keys), (features, 4 * WIDTH)),
            "recurrent": glorot(next(keys), (WIDTH, 4 * WIDTH)),
            "bias": np.reshape(bias, -1),
        }

    layers = [layer(WIDTH if number else 2) for number in range(LAYERS)]
    head = {"kernel": glorot(next(keys), (WIDTH, 1)), "bias": np.zeros(1)}
    return {"layers": layers, "head": head}


def loss(params, sequences, sums):
    """Mean squared error."""
    return nn.mse_loss(network(params, sequences), sums).mean()


start = init()
optimizer = optim.chain(optim.clip_by_global_norm(1.0), optim.adam(5e-3))
state = aotc.State({"params": start, "moments": optimizer.init(start)})

any_sequences = aotc.Spec(("batch", LENGTH, 2))


@aotc.entry(sequences=any_sequences, sums=aotc.Spec(("batch",)))
def train_step(state, sequences, sums):
    """One step of Adam; keeps the new parameters and returns the loss."""
    params = state["params"]
    value, grads = aotc.value_and_grad(loss)(params, sequences, sums)
    updates, moments = optimizer.update(grads, state["moments"], params)
    params = optim.apply_updates(params, updates)
    return {"params": params, "moments": moments}, value


@aotc.entry(state=state.frozen, sequences=any_sequences)
def predict(state, sequences):
    """The sums, by the parameters in training."""
    return network(state["params"], sequences)
