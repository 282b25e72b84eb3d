"""A convolutional network with dropout, whose random key is part of the state.

    aotc build examples/cnn/model.py

The layers of Krizhevsky, Sutskever and Hinton, "ImageNet classification with deep
convolutional neural networks", NIPS 2012, fewer and smaller: convolutions, responses
normalised over nearby channels, max-pooling by windows that overlap, dropout between
dense layers. `train_step` draws new numbers in every call; `predict` drops nothing.
"""

import aotc
import aotc.numpy as np
from aotc import nn, optim, random

aotc.bundle(name="cnn", version="1.0.0")

SIZE = 8
CHANNELS = (32, 64)
HIDDEN = 128
CLASSES = 10
DROPOUT = 0.5
BATCH = 64


def network(params, images, key=None):
    """Logits [batch, classes] of images; with a key, of those in training."""
    x = nn.relu(nn.conv2d(images, **params["conv1"], padding="SAME"))
    x = nn.local_response_norm(x, size=5)
    x = nn.max_pool(x, 3, strides=2, padding="SAME")
    x = nn.relu(nn.conv2d(x, **params["conv2"], padding="SAME"))
    x = nn.max_pool(x, 3, strides=2, padding="SAME")
    x = np.reshape(x, (x.shape[0], -1))
    x = nn.relu(nn.dense(x, **params["hidden"]))
    if key is not None:
        x = nn.dropout(key, x, DROPOUT)
    return nn.dense(x, **params["head"])


def init(seed=0):
    """Fresh parameters: kernels by He et al. (2015), biases zero."""
    keys, he = iter(random.split(random.key(seed), 4)), nn.initializers.he_normal()

    def layer(*shape):
        return {"kernel": he(next(keys), shape), "bias": np.zeros(shape[-1])}

    first, second = CHANNELS
    return {
        "conv1": layer(3, 3, 1, first),
        "conv2": layer(3, 3, first, second),
        "hidden": layer((SIZE // 4) ** 2 * second, HIDDEN),
        "head": layer(HIDDEN, CLASSES),
    }


def loss(params, key, images, labels):
    """Mean cross-entropy."""
    return nn.cross_entropy(network(params, images, key), labels).mean()


start = init()
optimizer = optim.sgd(0.05, momentum=0.9)
state = aotc.State(
    {"params": start, "moments": optimizer.init(start), "key": random.key(1)}
)

image = (SIZE, SIZE, 1)


@aotc.entry(images=aotc.Spec((BATCH, *image)), labels=aotc.Spec((BATCH,), "i32"))
def train_step(state, images, labels):
    """One step of momentum; keeps parameters and a new key, returns the loss."""
    params, (key, draw) = state["params"], random.split(state["key"])
    value, grads = aotc.value_and_grad(loss)(params, draw, images, labels)
    updates, moments = optimizer.update(grads, state["moments"], params)
    params = optim.apply_updates(params, updates)
    return {"params": params, "moments": moments, "key": key}, value


@aotc.entry(state=state.frozen, images=aotc.Spec(("batch", *image)))
def predict(state, images):
    """The probability of each class, by the parameters in training."""
    return nn.softmax(network(state["params"], images))
