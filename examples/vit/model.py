"""A Vision Transformer: an image is a sequence of patches.

    aotc build examples/vit/model.py

Dosovitskiy et al., "An image is worth 16x16 words", ICLR 2021. A token of its own,
which attends to all patches and they to it, says the class.
"""

import aotc
import aotc.numpy as np
from aotc import nn, optim, random

aotc.bundle(name="vit", version="1.0.0")

SIZE = 8
PATCH = 2
LAYERS = 2
WIDTH = 64
HEADS = 4
CLASSES = 10
BATCH = 32


def network(params, images):
    """Logits [batch, classes] of images."""
    x = nn.dense(patches(images), **params["embed"])
    token = np.broadcast_to(params["token"], (x.shape[0], 1, WIDTH))
    x = np.concatenate([token, x], axis=1) + params["positions"]
    for p in params["blocks"]:
        x = block(p, x)
    return nn.dense(nn.layer_norm(x[:, 0], **params["norm"]), **params["head"])


def patches(images):
    """The pixels of each patch, [batch, patches, pixels]."""
    x = nn.space_to_depth(images, PATCH)
    return np.reshape(x, (x.shape[0], -1, x.shape[-1]))


def block(p, x):
    """Attention to all tokens, then a dense network, both as residuals."""
    x = x + nn.multi_head_attention(nn.layer_norm(x, **p["norm1"]), **p["attention"])
    h = nn.dense(nn.layer_norm(x, **p["norm2"]), **p["up"])
    return x + nn.dense(nn.gelu(h), **p["down"])


def init(seed=0):
    """Fresh parameters: kernels by Glorot and Bengio, biases zero."""
    keys = iter(random.split(random.key(seed), 4 + 6 * LAYERS))
    glorot, small = nn.initializers.glorot_uniform(), nn.initializers.normal(0.02)
    depth, tokens = WIDTH // HEADS, (SIZE // PATCH) ** 2 + 1

    def dense(inputs, outputs):
        kernel = glorot(next(keys), (inputs, outputs))
        return {"kernel": kernel, "bias": np.zeros(outputs)}

    def norm():
        return {"scale": np.ones(WIDTH), "bias": np.zeros(WIDTH)}

    def projection(*shape):
        return np.reshape(glorot(next(keys), (WIDTH, WIDTH)), shape)

    def attention():
        names = ("query", "key", "value")
        kernels = {name: projection(WIDTH, HEADS, depth) for name in names}
        return {**kernels, "output": projection(HEADS, depth, WIDTH)}

    def one_block():
        return {
            "norm1": norm(), "attention": attention(), "norm2": norm(),
            "up": dense(WIDTH, 4 * WIDTH), "down": dense(4 * WIDTH, WIDTH),
        }  # fmt: skip

    return {
        "embed": dense(PATCH**2, WIDTH),
        "token": small(next(keys), (WIDTH,)),
        "positions": small(next(keys), (tokens, WIDTH)),
        "blocks": [one_block() for _ in range(LAYERS)],
        "norm": norm(),
        "head": dense(WIDTH, CLASSES),
    }


def loss(params, images, labels):
    """Mean cross-entropy."""
    return nn.cross_entropy(network(params, images), labels).mean()


start = init()
optimizer = optim.adamw(2e-3)
state = aotc.State({"params": start, "moments": optimizer.init(start)})

image = (SIZE, SIZE, 1)


@aotc.entry(images=aotc.Spec((BATCH, *image)), labels=aotc.Spec((BATCH,), "i32"))
def train_step(state, images, labels):
    """One step of AdamW; keeps the new parameters and returns the loss."""
    params = state["params"]
    value, grads = aotc.value_and_grad(loss)(params, images, labels)
    updates, moments = optimizer.update(grads, state["moments"], params)
    params = optim.apply_updates(params, updates)
    return {"params": params, "moments": moments}, value


@aotc.entry(state=state.frozen, images=aotc.Spec(("batch", *image)))
def predict(state, images):
    """The probability of each class, by the parameters in training."""
    return nn.softmax(network(state["params"], images))
