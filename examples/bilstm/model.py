"""A bidirectional LSTM that tags what depends on both sides of a position.

    aotc build examples/bilstm/model.py

A sequence has letters and blanks between them. The tag of a position compares the last
letter before it with the first one after it: smaller, equal or greater. One LSTM reads
forwards, one backwards, and both states at a position say its tag. Batches have any
size.

Graves and Schmidhuber, "Framewise phoneme classification with bidirectional LSTM and
other neural network architectures", Neural Networks 18 (2005).
"""

import aotc
import aotc.numpy as np
from aotc import nn, optim, random

aotc.bundle(name="bilstm", version="1.0.0")

LETTERS = 5
TAGS = 3
WIDTH = 32
LENGTH = 24


def network(params, letters):
    """Logits [batch, length, tags] of sequences [batch, length]; 0 is a blank."""
    xs = nn.embedding(params["letters"], letters.T)
    forwards, _ = nn.lstm(xs, **params["forwards"])
    backwards, _ = nn.lstm(xs, **params["backwards"], reverse=True)
    both = np.concatenate([forwards, backwards], axis=-1)
    return np.swapaxes(nn.dense(both, **params["head"]), 0, 1)


def init(seed=0):
    """Fresh parameters: kernels by Glorot and Bengio, biases zero."""
    keys = iter(random.split(random.key(seed), 6))
    glorot = nn.initializers.glorot_uniform()

    def lstm():
        return {
            "kernel": glorot(next(keys), (WIDTH, 4 * WIDTH)),
            "recurrent": glorot(next(keys), (WIDTH, 4 * WIDTH)),
            "bias": np.zeros(4 * WIDTH),
        }

    return {
        "letters": random.normal(next(keys), (1 + LETTERS, WIDTH)),
        "forwards": lstm(),
        "backwards": lstm(),
        "head": {
            "kernel": glorot(next(keys), (2 * WIDTH, TAGS)),
            "bias": np.zeros(TAGS),
        },
    }


def loss(params, letters, tags):
    """Mean cross-entropy."""
    return nn.cross_entropy(network(params, letters), tags).mean()


start = init()
optimizer = optim.chain(optim.clip_by_global_norm(1.0), optim.adam(5e-3))
state = aotc.State({"params": start, "moments": optimizer.init(start)})

sequences = aotc.Spec(("batch", LENGTH), "i32")


@aotc.entry(letters=sequences, tags=sequences)
def train_step(state, letters, tags):
    """One step of Adam; keeps the new parameters and returns the loss."""
    params = state["params"]
    value, grads = aotc.value_and_grad(loss)(params, letters, tags)
    updates, moments = optimizer.update(grads, state["moments"], params)
    params = optim.apply_updates(params, updates)
    return {"params": params, "moments": moments}, value


@aotc.entry(state=state.frozen, letters=sequences)
def predict(state, letters):
    """The logits of the tags, by the parameters in training."""
    return network(state["params"], letters)
