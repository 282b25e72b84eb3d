"""Handwritten digits: a small convolutional network that trains and predicts.

    aotc build examples/digits/model.py

makes one bundle with three entries: `train_step` (forward, backward and Adam in one
binary), `evaluate` by the parameters in training, `predict` by the finished weights.
"""

import numpy

import aotc
import aotc.numpy as np
from aotc import nn, optim

aotc.bundle(name="digits", version="1.0.0")

BATCH = 64


def network(params, images):
    """Logits [batch, 10] of images [batch, 8, 8, 1] with pixels from 0 to 16."""
    x = images / 16
    x = nn.relu(nn.conv2d(x, **params["conv1"], padding="SAME"))
    x = nn.relu(nn.conv2d(x, **params["conv2"], padding="SAME"))
    x = nn.max_pool(x, 2)
    x = np.reshape(x, (x.shape[0], -1))
    x = nn.relu(nn.dense(x, **params["dense1"]))
    return nn.dense(x, **params["dense2"])


def init(seed=0):
    """Fresh parameters: kernels by He et al. (2015), biases zero."""
    rng = numpy.random.default_rng(seed)

    def layer(*shape):
        fan_in = numpy.prod(shape[:-1])
        kernel = rng.normal(0, numpy.sqrt(2 / fan_in), shape)
        return {
            "kernel": kernel.astype("float32"),
            "bias": numpy.zeros(shape[-1], "float32"),
        }

    return {
        "conv1": layer(3, 3, 1, 16),
        "conv2": layer(3, 3, 16, 32),
        "dense1": layer(4 * 4 * 32, 64),
        "dense2": layer(64, 10),
    }


def loss(params, images, labels):
    """Mean cross-entropy."""
    return nn.cross_entropy(network(params, images), labels).mean()


optimizer = optim.adam(1e-3)
weights = aotc.Weights.load("digits.safetensors")
state = aotc.State({"params": init(), "moments": optimizer.init(init())})

batch = aotc.Dim("batch", min=1, max=4096)
image = aotc.Spec((batch, 8, 8, 1), "f32")


@aotc.entry(
    images=aotc.Spec((BATCH, 8, 8, 1), "f32"), labels=aotc.Spec((BATCH,), "i32")
)
def train_step(state, images, labels):
    """One step of Adam; keeps the new parameters and returns the loss."""
    value, grads = aotc.value_and_grad(loss)(state["params"], images, labels)
    params = state["params"]
    updates, moments = optimizer.update(grads, state["moments"], params)
    params = optim.apply_updates(params, updates)
    return {"params": params, "moments": moments}, value


@aotc.entry(state=state.frozen, images=image)
def evaluate(state, images):
    """The digit that the parameters in training see."""
    return np.argmax(network(state["params"], images), axis=-1)


@aotc.entry(x=image)
def predict(weights, x):
    """The probability of each digit, by the weights in the bundle."""
    return nn.softmax(network(weights, x))
