"""The losses of the example models in JAX, on the same parameters."""

import jax
import jax.numpy as jnp
from jax import lax, nn


def dense(x, kernel, bias):
    """`x @ kernel + bias`."""
    return x @ kernel + bias


def cross_entropy(logits, labels):
    """Mean over all labels."""
    logs = nn.log_softmax(logits)
    return -jnp.take_along_axis(logs, labels[..., None], -1).mean()


def mlp(params, x, labels):
    """examples/mlp."""
    for p in params[:-1]:
        x = nn.relu(dense(x, **p))
    return cross_entropy(dense(x, **params[-1]), labels)


def lstm(params, sequences, sums):
    """examples/lstm."""
    xs = sequences.swapaxes(0, 1)
    for p in params["layers"]:
        xs = lstm_layer(p, xs)
    return jnp.square(dense(xs[-1], **params["head"])[:, 0] - sums).mean()


def lstm_layer(p, xs):
    """Gates in the order input, forget, cell, output."""
    zeros = jnp.zeros((xs.shape[1], p["recurrent"].shape[0]))

    def step(carried, x):
        hidden, cell = carried
        gates = x @ p["kernel"] + p["bias"] + hidden @ p["recurrent"]
        i, f, g, o = jnp.split(gates, 4, -1)
        cell = nn.sigmoid(f) * cell + nn.sigmoid(i) * jnp.tanh(g)
        hidden = nn.sigmoid(o) * jnp.tanh(cell)
        return (hidden, cell), hidden

    return lax.scan(step, (zeros, zeros), xs)[1]


def resnet(params, images, labels):
    """examples/resnet in training."""
    x = nn.relu(convolve(params["stem"], images, 1))
    for p in params["blocks"]:
        stride, shortcut = 1, x
        if "shortcut" in p:
            stride = 2
            shortcut = convolve(p["shortcut"], x, stride)
        h = nn.relu(convolve(p["first"], x, stride))
        x = nn.relu(convolve(p["second"], h, 1) + shortcut)
    return cross_entropy(dense(x.mean((1, 2)), **params["head"]), labels)


def convolve(p, x, stride):
    """A convolution, and batch norm by the batch."""
    dims = ("NHWC", "HWIO", "NHWC")
    x = lax.conv_general_dilated(
        x, p["kernel"], (stride, stride), "SAME", dimension_numbers=dims
    )
    centered = x - x.mean((0, 1, 2))
    variance = jnp.square(centered).mean((0, 1, 2))
    return centered * lax.rsqrt(variance + 1e-5) * p["scale"] + p["bias"]


def layer_norm(x, scale, bias):
    """Over the last axis."""
    centered = x - x.mean(-1, keepdims=True)
    variance = jnp.square(centered).mean(-1, keepdims=True)
    return centered * lax.rsqrt(variance + 1e-5) * scale + bias


def gpt(params, tokens, targets):
    """examples/gpt."""
    x = params["tokens"][tokens] + params["positions"]
    for p in params["blocks"]:
        h = layer_norm(x, **p["norm1"])
        x = x + attention(h, **p["attention"])
        h = layer_norm(x, **p["norm2"])
        x = x + dense(nn.gelu(dense(h, **p["up"]), approximate=False), **p["down"])
    return cross_entropy(layer_norm(x, **params["norm"]) @ params["tokens"].T, targets)


def attention(x, query, key, value, output):
    """Causal, of many heads."""
    q, k, v = (jnp.einsum("btd,dhk->bthk", x, w) for w in (query, key, value))
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) * q.shape[-1] ** -0.5
    seen = jnp.tril(jnp.ones(scores.shape[-2:], bool))
    weights = nn.softmax(jnp.where(seen, scores, -jnp.inf))
    y = jnp.einsum("bhqk,bkhd->bqhd", weights, v)
    return jnp.einsum("bthk,hkd->btd", y, output)


LOSSES = {"mlp": mlp, "lstm": lstm, "resnet": resnet, "gpt": gpt}


def stepper(loss, optimizer, params):
    """`step(**batch)`: a jitted step with donated state; returns the loss."""
    import optax

    params = jax.tree.map(lambda x: jnp.array(x, copy=True), params)
    state = [params, optimizer.init(params)]

    def update(params, moments, batch):
        value, grads = jax.value_and_grad(loss)(params, **batch)
        updates, moments = optimizer.update(grads, moments, params)
        return optax.apply_updates(params, updates), moments, value

    compiled = jax.jit(update, donate_argnums=(0, 1))

    def step(**batch):
        *state[:], value = compiled(*state, batch)
        return float(value)

    return step
