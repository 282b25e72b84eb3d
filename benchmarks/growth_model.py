"""A model of any size, for `growth.py`, which sets the variables that say how large.

    GROWTH_KIND=chain GROWTH_STEPS=100 aotc build benchmarks/growth_model.py -v

GROWTH_BATCH is a number, or a name for a batch of any size.
"""

import os

import numpy

import aotc
import aotc.numpy as np
from aotc import control, nn, optim

KIND = os.environ.get("GROWTH_KIND", "chain")
STEPS = int(os.environ.get("GROWTH_STEPS", "10"))
BATCH = os.environ.get("GROWTH_BATCH", "4")
WIDTH = 16
LENGTH = 5


def mixed(x, w):
    """Return one step: a product, a reduction and elementwise ops of different
    kinds.
    """
    x = np.tanh(x @ w)
    x = x - np.mean(x, axis=-1, keepdims=True)
    return np.sqrt(x * x + 0.5) / 2.0


def chain(x, w):
    """Apply steps that each read the one before."""
    for _ in range(STEPS):
        x = mixed(x, w)
    return x.sum()


def residual(x, w):
    """Apply steps that each add to the value before."""
    for _ in range(STEPS):
        x = x + nn.relu(x @ w) @ w
        x = x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + 1.0)
    return x.sum()


def branching(x, w):
    """Apply steps that read two common values, and sum all their results."""
    shared, total = np.tanh(x), x
    for number in range(STEPS):
        branch = np.sin(shared * (1.0 + number)) @ w
        total = total + np.where(shared > 0, branch, x)
    return total.sum()


def differentiated(x, w):
    """Return the value of a chain and its derivative."""
    value, gradient = aotc.value_and_grad(chain, argnums=1)(x, w)
    return value, gradient


def looping(x, w):
    """Apply steps that are loops, as in a deep recurrent network."""

    def step(h, x):
        h = np.tanh(h @ w + x)
        return h, h

    for _ in range(STEPS):
        xs = np.broadcast_to(x, (LENGTH, *x.shape))
        x, ys = control.scan(step, x, xs)
        x = x + ys.sum(axis=0)
    return x.sum()


def reducing(x, w):
    """Return the gradient of consecutive reductions of different kinds."""

    def loss(x, w):
        for _ in range(STEPS):
            x = nn.softmax(x @ w, axis=-1)
            x = x - np.max(x, axis=0, keepdims=True)
            x = nn.layer_norm(x, np.ones(WIDTH), np.zeros(WIDTH))
            x = x * np.prod(np.cos(x), axis=-1, keepdims=True)
        return np.mean(x)

    return aotc.value_and_grad(loss, argnums=1)(x, w)


def unrolled(x, w):
    """Return the gradient of one loop with a long body."""

    def loss(x, w):
        def step(h, x):
            for _ in range(STEPS):
                h = np.tanh(h @ w + x)
            return h, h.sum()

        xs = np.broadcast_to(x, (LENGTH, *x.shape))
        h, ys = control.scan(step, x, xs)
        return h.sum() + ys.sum()

    return aotc.value_and_grad(loss, argnums=1)(x, w)


def calling(x, w):
    """Return the gradient of many consecutive function calls."""

    def loss(x, w):
        for number in range(STEPS):

            @aotc.checkpoint
            def step(x, w, number=number):
                return np.tanh(x @ w) * (1.0 + number)

            x = step(x, w)
        return x.sum()

    return aotc.value_and_grad(loss, argnums=1)(x, w)


def nesting(x, w):
    """Call functions nested as deep as there are steps."""

    def nested(depth, x, w):
        x = np.tanh(x @ w)
        if depth == 0:
            return x
        inner = aotc.checkpoint(lambda x, w: nested(depth - 1, x, w))
        return inner(x, w) + x

    return nested(STEPS, x, w).sum()


def enclosing(x, w):
    """Apply conditionals nested as deep as there are steps."""

    def nested(depth, x, w):
        if depth == 0:
            return np.tanh(x @ w)
        inner = lambda x, w: nested(depth - 1, x, w) + x  # noqa: E731
        return control.cond(x.sum() > 0, inner, lambda x, w: np.sin(x), x, w)

    return nested(STEPS, x, w).sum()


def deciding(x, w):
    """Apply steps that are conditionals."""
    for _ in range(STEPS):
        x = control.cond(
            x.sum() > 0,
            lambda x, w: np.tanh(x @ w),
            lambda x, w: np.sin(x @ w) - 1.0,
            x,
            w,
        )
    return x.sum()


ENTRIES = {
    each.__name__: each
    for each in (
        chain,
        residual,
        branching,
        looping,
        differentiated,
        reducing,
        unrolled,
        calling,
        nesting,
        enclosing,
        deciding,
    )
}

x = aotc.Spec((int(BATCH) if BATCH.isdigit() else BATCH, WIDTH))
w = aotc.Spec((WIDTH, WIDTH))
optimizer = optim.adam(1e-3)


def array(*shape):
    """Return an array of distinct, small numbers."""
    return (numpy.arange(numpy.prod(shape)) % 7 / 7 - 0.4).astype("f4").reshape(shape)


def training():
    """Define an entry: an optimizer step of a chain with a weight per step."""
    rows = [np.full((WIDTH, WIDTH), 0.1) for _ in range(STEPS)]
    start = aotc.State({"params": rows, "moments": optimizer.init(rows)})

    def loss(params, x):
        for w in params:
            x = np.tanh(x @ w)
        return x.sum()

    @aotc.entry(state=start, x=x)
    def grow(state, x):
        value, grads = aotc.value_and_grad(loss)(state["params"], x)
        updates, moments = optimizer.update(grads, state["moments"], state["params"])
        params = optim.apply_updates(state["params"], updates)
        return {"params": params, "moments": moments}, value

    return grow


def decoding():
    """Define an entry: decoder blocks with weights of their own."""

    def block():
        names = ("query", "key", "value", "out", "up", "down")
        kernels = {name: array(WIDTH, WIDTH) for name in names}
        return kernels | {"scale": array(WIDTH), "bias": array(WIDTH)}

    weights = aotc.Weights([block() for _ in range(STEPS)])

    @aotc.entry(weights=weights, x=x)
    def grow(weights, x):
        for own in weights:
            h = nn.layer_norm(x, own["scale"], own["bias"])
            q, k, v = (h @ own[name] for name in ("query", "key", "value"))
            scores = nn.softmax(q @ k.T / 4.0, axis=-1)
            x = x + scores @ v @ own["out"]
            x = x + nn.gelu(x @ own["up"]) @ own["down"]
        return x

    return grow


def convolving():
    """Define an entry: convolutions with norms, with weights of their own."""

    def layer():
        kernel = {"kernel": array(3, 3, 8, 8)}
        return kernel | {"scale": array(8), "bias": array(8)}

    weights = aotc.Weights([layer() for _ in range(STEPS)])
    images = aotc.Spec((*x.shape[:1], 8, 8, 8))

    @aotc.entry(weights=weights, x=images)
    def grow(weights, x):
        for own in weights:
            y = nn.conv2d(x, own["kernel"], padding="SAME")
            x = nn.relu(y * own["scale"] + own["bias"]) + x
            x = np.transpose(np.transpose(x, (0, 3, 1, 2)) * 0.5, (0, 2, 3, 1))
        return x.sum()

    return grow


def sharing():
    """Define an entry: many products of one operand by different weights."""
    weights = aotc.Weights([array(WIDTH, WIDTH) + n for n in range(STEPS)])

    @aotc.entry(weights=weights, x=x)
    def grow(weights, x):
        return sum(nn.relu(x @ each) for each in weights)

    return grow


MODELS = {each.__name__: each for each in (training, decoding, convolving, sharing)}
grow = MODELS[KIND]() if KIND in MODELS else aotc.entry(x=x, w=w)(ENTRIES[KIND])
