"""A diffusion transformer that makes digits out of noise.

    aotc build examples/dit/model.py

Peebles and Xie, "Scalable diffusion models with transformers", ICCV 2023: time and
class shift and scale what a block normalises and gate what it adds, by numbers that are
zero at first (adaLN-Zero). The network learns to find the noise in an image: Ho, Jain
and Abbeel, "Denoising diffusion probabilistic models", NeurIPS 2020.
"""

import aotc
import aotc.numpy as np
from aotc import nn, optim, random

aotc.bundle(name="dit", version="1.0.0")

SIZE = 8
PATCH = 2
LAYERS = 2
WIDTH = 64
HEADS = 4
CLASSES = 10
BATCH = 64
RATES = (1.0, 4.0, 16.0, 64.0)


def network(params, images, times, labels):
    """The noise in images of these times and classes."""
    x = nn.space_to_depth(images, PATCH)
    grid = x.shape
    x = np.reshape(x, (grid[0], -1, grid[-1]))
    x = nn.dense(x, **params["embed"]) + params["positions"]
    c = condition(params, times, labels)
    for p in params["blocks"]:
        x = block(p, x, c)
    shift, scale = modulation(params["modulation"], c, 2)
    x = nn.dense(nn.layer_norm(x) * (1 + scale) + shift, **params["head"])
    return nn.depth_to_space(np.reshape(x, grid), PATCH)


def block(p, x, c):
    """Attention, then a dense network, both as residuals that c modulates."""
    shift1, scale1, gate1, shift2, scale2, gate2 = modulation(p["modulation"], c, 6)
    h = nn.layer_norm(x) * (1 + scale1) + shift1
    x = x + gate1 * nn.multi_head_attention(h, **p["attention"])
    h = nn.layer_norm(x) * (1 + scale2) + shift2
    return x + gate2 * nn.dense(nn.gelu(nn.dense(h, **p["up"])), **p["down"])


def modulation(p, c, count):
    """Return as many numbers for each feature, the same for all patches of an image."""
    return np.split(nn.dense(nn.silu(c), **p)[:, None], count, axis=-1)


def condition(params, times, labels):
    """The time, as waves of several rates, and the class: [batch, width]."""
    angles = times[:, None] * np.array(RATES)
    waves = np.concatenate([np.sin(angles), np.cos(angles)], axis=-1)
    h = nn.dense(nn.silu(nn.dense(waves, **params["time1"])), **params["time2"])
    return h + nn.embedding(params["classes"], labels)


def init(seed=0):
    """Fresh parameters: kernels are normal, what modulates and biases zero."""
    keys = iter(random.split(random.key(seed), 7 + 7 * LAYERS))
    depth, pixels = WIDTH // HEADS, PATCH**2

    def normal(*shape, scale=0.1):
        return scale * random.normal(next(keys), shape)

    def dense(inputs, outputs, scale=0.1):
        kernel = normal(inputs, outputs, scale=scale)
        return {"kernel": kernel, "bias": np.zeros(outputs)}

    def one_block():
        kernels = {name: normal(WIDTH, HEADS, depth) for name in ("query", "key")}
        value, output = normal(WIDTH, HEADS, depth), normal(HEADS, depth, WIDTH)
        return {
            "attention": {**kernels, "value": value, "output": output},
            "up": dense(WIDTH, 4 * WIDTH), "down": dense(4 * WIDTH, WIDTH),
            "modulation": dense(WIDTH, 6 * WIDTH, scale=0.0),
        }  # fmt: skip

    return {
        "embed": dense(pixels, WIDTH), "positions": normal((SIZE // PATCH) ** 2, WIDTH),
        "time1": dense(2 * len(RATES), WIDTH), "time2": dense(WIDTH, WIDTH),
        "classes": normal(CLASSES, WIDTH),
        "blocks": [one_block() for _ in range(LAYERS)],
        "modulation": dense(WIDTH, 2 * WIDTH, scale=0.0),
        "head": dense(WIDTH, pixels, scale=0.0),
    }  # fmt: skip


def loss(params, key, images, labels):
    """Mean squared error of the noise that is found, at random times from 0 to 1."""
    first, second = random.split(key)
    times = random.uniform(first, labels.shape)
    noise = random.normal(second, images.shape)
    angles = np.reshape(times, (-1, 1, 1, 1)) * (np.pi / 2)
    noisy = np.cos(angles) * images + np.sin(angles) * noise
    return nn.mse_loss(network(params, noisy, times, labels), noise).mean()


start = init()
optimizer = optim.adam(optim.warmup_cosine_decay_schedule(0.0, 5e-3, 100, 800))
state = aotc.State(
    {"params": start, "moments": optimizer.init(start), "key": random.key(1)}
)

image = (SIZE, SIZE, 1)
times, labels = aotc.Spec(("batch",)), aotc.Spec(("batch",), "i32")
some = {"images": aotc.Spec(("batch", *image)), "times": times, "labels": labels}


@aotc.entry(images=aotc.Spec((BATCH, *image)), labels=aotc.Spec((BATCH,), "i32"))
def train_step(state, images, labels):
    """One step of Adam; keeps parameters and a new key, returns the loss."""
    params, (key, draw) = state["params"], random.split(state["key"])
    value, grads = aotc.value_and_grad(loss)(params, draw, images, labels)
    updates, moments = optimizer.update(grads, state["moments"], params)
    params = optim.apply_updates(params, updates)
    return {"params": params, "moments": moments, "key": key}, value


@aotc.entry(state=state.frozen, **some)
def predict(state, images, times, labels):
    """The noise in images, by the parameters in training."""
    return network(state["params"], images, times, labels)
