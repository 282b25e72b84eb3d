"""A residual network for images whose batch-norm statistics are part of the state.

    aotc build examples/resnet/model.py

He, Zhang, Ren and Sun, "Deep residual learning", CVPR 2016. With BLOCKS = 3 it is their
network of 20 layers. `train_step` normalises by the statistics of the batch and keeps
running ones, by which `predict` normalises.
"""

import aotc
import aotc.numpy as np
from aotc import nn, optim, random

aotc.bundle(name="resnet", version="1.0.0")

SIZE = 8
CHANNELS = 1
STAGES = (16, 32, 64)
BLOCKS = 1
CLASSES = 10
BATCH = 32


def network(params, statistics, images, training):
    """Logits [batch, classes] of images, and the new statistics."""
    x, stem = convolve(params["stem"], statistics["stem"], images, 1, training)
    x, blocks = nn.relu(x), []
    for p, s in zip(params["blocks"], statistics["blocks"], strict=True):
        x, new = block(p, s, x, training)
        blocks.append(new)
    logits = nn.dense(np.mean(x, axis=(1, 2)), **params["head"])
    return logits, {"stem": stem, "blocks": blocks}


def block(params, statistics, x, training):
    """Two convolutions beside a shortcut; one with a kernel halves the image."""
    new, shortcut, stride = {}, x, 1
    if "shortcut" in params:
        stride = 2
        shortcut, new["shortcut"] = convolve(
            params["shortcut"], statistics["shortcut"], x, stride, training
        )
    p, s = params["first"], statistics["first"]
    h, new["first"] = convolve(p, s, x, stride, training)
    p, s = params["second"], statistics["second"]
    h, new["second"] = convolve(p, s, nn.relu(h), 1, training)
    return nn.relu(h + shortcut), new


def convolve(p, statistics, x, stride, training):
    """A convolution and batch norm, and the new statistics."""
    x = nn.conv2d(x, p["kernel"], strides=stride, padding="SAME")
    affine = {"scale": p["scale"], "bias": p["bias"]}
    if not training:
        return nn.batch_norm(x, **statistics, **affine), statistics
    x, mean, variance = nn.batch_norm_training(x, **statistics, **affine)
    return x, {"mean": mean, "variance": variance}


def init(seed=0):
    """Fresh parameters and statistics: kernels by He et al. (2015)."""
    keys = iter(random.split(random.key(seed), 3 * len(STAGES) * BLOCKS + 2))
    he = nn.initializers.he_normal()

    def convolution(size, inputs, outputs):
        kernel = he(next(keys), (size, size, inputs, outputs))
        return {"kernel": kernel, "scale": np.ones(outputs), "bias": np.zeros(outputs)}

    params = {"stem": convolution(3, CHANNELS, STAGES[0]), "blocks": []}
    before = STAGES[0]
    for width in (width for width in STAGES for _ in range(BLOCKS)):
        new = {"first": convolution(3, before, width)}
        new["second"] = convolution(3, width, width)
        if width != before:
            new["shortcut"] = convolution(1, before, width)
        params["blocks"].append(new)
        before = width
    head = {"kernel": he(next(keys), (before, CLASSES)), "bias": np.zeros(CLASSES)}
    return {**params, "head": head}, statistics_of(params)


def statistics_of(params):
    """Statistics of nothing yet, for each convolution."""
    if isinstance(params, list):
        return [statistics_of(p) for p in params]
    if "kernel" in params:
        return {"mean": params["bias"], "variance": params["scale"]}
    return {name: statistics_of(p) for name, p in params.items()}


def loss(params, statistics, images, labels):
    """Mean cross-entropy, and the new statistics."""
    logits, statistics = network(params, statistics, images, training=True)
    return nn.cross_entropy(logits, labels).mean(), statistics


start, statistics = init()
optimizer = optim.sgd(0.05, momentum=0.9, nesterov=True)
moments = optimizer.init(start)
state = aotc.State({"params": start, "statistics": statistics, "moments": moments})

image = (SIZE, SIZE, CHANNELS)


@aotc.entry(images=aotc.Spec((BATCH, *image)), labels=aotc.Spec((BATCH,), "i32"))
def train_step(state, images, labels):
    """One step of momentum; keeps parameters and statistics, returns the loss."""
    params = state["params"]
    (value, statistics), grads = aotc.value_and_grad(loss, has_aux=True)(
        params, state["statistics"], images, labels
    )
    updates, moments = optimizer.update(grads, state["moments"], params)
    params = optim.apply_updates(params, updates)
    return {"params": params, "statistics": statistics, "moments": moments}, value


@aotc.entry(state=state.frozen, images=aotc.Spec(("batch", *image)))
def predict(state, images):
    """The probability of each class, by the running statistics."""
    logits, _ = network(state["params"], state["statistics"], images, training=False)
    return nn.softmax(logits)
