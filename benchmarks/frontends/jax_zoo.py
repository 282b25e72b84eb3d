"""Models in plain JAX: networks and training steps, with sizes that vary.

Each model is a function of stored arrays and inputs: `function(stored, **inputs)`. A
training step returns the new value of what is stored, then its results.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import aotc

BATCH = aotc.Dim("batch", min=2, max=64)
LENGTH = aotc.Dim("length", min=2, max=32)
WIDTH, HEADS, WORDS = 32, 4, 50
_RANDOM = np.random.RandomState(0)


@dataclass(frozen=True)
class Model:
    """A JAX model: a function, its stored arrays, and specs of its inputs.

    Args:
        function: of the stored arrays and the inputs by their names.
        stored: a pytree of arrays.
        inputs: Specs by name.
        trains: whether the first result is the new value of what is stored.
    """

    function: Callable[..., Any]
    stored: Any
    inputs: dict[str, aotc.Spec]
    trains: bool = False

    def drawn(self, batch: int, length: int) -> dict[str, Any]:
        """Draw random inputs of one call."""
        sizes = {"batch": batch, "length": length}
        return {name: _drawn(spec, sizes) for name, spec in self.inputs.items()}


def _drawn(spec: aotc.Spec, sizes: dict[str, int]) -> Any:
    """Draw a random array for a spec."""
    shape = [n if isinstance(n, int) else n.value(sizes) for n in spec.shape]
    if spec.dtype == "i32":
        return _RANDOM.randint(0, 10, shape).astype(np.int32)
    if spec.dtype == "u32":
        return _RANDOM.randint(0, 2**31, shape).astype(np.uint32)
    return _RANDOM.randn(*shape).astype(np.float32)


def _matrix(*shape: int) -> Any:
    """Return a random matrix, scaled by its inputs."""
    return (_RANDOM.randn(*shape) / np.sqrt(np.prod(shape[:-1]))).astype(np.float32)


def _zeros(*shape: int) -> Any:
    """Return zeros in f32."""
    return np.zeros(shape, np.float32)


# ---- training -----------------------------------------------------------------------


def cross_entropy(scores: Any, labels: Any) -> Any:
    """Return the mean cross-entropy over all but the last axis."""
    chosen = jnp.take_along_axis(jax.nn.log_softmax(scores), labels[..., None], -1)
    return -chosen.mean()


def adam(network: Model, loss: Callable[..., Any], **labels: aotc.Spec) -> Model:
    """Return a training step of a network: Adam on gradients clipped by norm."""

    def step(stored: Any, **inputs: Any) -> Any:
        params, first, second, count = stored
        value, slope = jax.value_and_grad(loss)(params, **inputs)
        norm = jnp.sqrt(sum(jnp.vdot(g, g) for g in jax.tree.leaves(slope)))
        slope = jax.tree.map(lambda g: g / jnp.maximum(norm, 1.0), slope)
        count = count + 1
        first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, slope)
        second = jax.tree.map(lambda v, g: 0.99 * v + 0.01 * g * g, second, slope)
        rate = 1e-3 * jnp.sqrt(1 - 0.99**count) / (1 - 0.9**count)
        params = jax.tree.map(
            lambda p, m, v: p - rate * m / (jnp.sqrt(v) + 1e-8), params, first, second
        )
        return (params, first, second, count), value, norm

    zeros = jax.tree.map(np.zeros_like, network.stored)
    stored = (network.stored, zeros, zeros, np.float32(0))
    return Model(step, stored, network.inputs | labels, trains=True)


# ---- networks -----------------------------------------------------------------------


def _mlp(params: Any, x: Any) -> Any:
    """Multi-layer perceptron."""
    for layer in params[:-1]:
        x = jax.nn.relu(x @ layer["w"] + layer["b"])
    return x @ params[-1]["w"] + params[-1]["b"]


MLP = Model(
    _mlp,
    [{"w": _matrix(i, o), "b": _zeros(o)} for i, o in ((12, 32), (32, 32), (32, 10))],
    {"x": aotc.Spec((BATCH, 12))},
)


def _normed(x: Any, scale: Any) -> Any:
    """Layer norm without a bias."""
    centred = x - x.mean(-1, keepdims=True)
    return scale * centred * lax.rsqrt((centred**2).mean(-1, keepdims=True) + 1e-5)


def _attention(layer: Any, x: Any) -> Any:
    """Causal self-attention."""
    parts = jnp.split(x @ layer["in"], 3, -1)
    q, k, v = (p.reshape(*p.shape[:2], HEADS, -1) for p in parts)
    y = jax.nn.dot_product_attention(q, k, v, is_causal=True)
    return y.reshape(x.shape) @ layer["out"]


def _rotated(x: Any) -> Any:
    """Return an embedding plus sines and cosines of its positions."""
    place = jnp.arange(x.shape[1])[:, None] / 100 ** (jnp.arange(0, WIDTH, 2) / WIDTH)
    return x + jnp.concatenate([jnp.sin(place), jnp.cos(place)], -1)


def _transformer(params: Any, tokens: Any) -> Any:
    """Causal transformer: logits of all positions."""
    x = _rotated(params["words"][tokens])
    for layer in params["layers"]:
        x = x + _attention(layer, _normed(x, layer["scale"]))
        x = x + jax.nn.gelu(_normed(x, layer["scale"]) @ layer["up"]) @ layer["down"]
    return x @ params["words"].T


def _layer() -> Any:
    """Return random parameters of a transformer layer."""
    return {
        "in": _matrix(WIDTH, 3 * WIDTH),
        "out": _matrix(WIDTH, WIDTH),
        "up": _matrix(WIDTH, 4 * WIDTH),
        "down": _matrix(4 * WIDTH, WIDTH),
        "scale": np.ones(WIDTH, np.float32),
    }


TOKENS = aotc.Spec((BATCH, LENGTH), "i32")
TRANSFORMER = Model(
    _transformer,
    {"words": _matrix(WORDS, WIDTH), "layers": [_layer(), _layer()]},
    {"tokens": TOKENS},
)


def _conv(x: Any, kernel: Any, stride: int = 1) -> Any:
    """Convolution with "SAME" padding, channels last."""
    numbers = ("NHWC", "HWIO", "NHWC")
    return lax.conv_general_dilated(
        x, kernel, (stride, stride), "SAME", dimension_numbers=numbers
    )


def _batch_norm(x: Any) -> Any:
    """Normalise by the statistics of the batch."""
    mean, variance = x.mean((0, 1, 2)), x.var((0, 1, 2))
    return (x - mean) * lax.rsqrt(variance + 1e-5)


def _cnn(params: Any, image: Any) -> Any:
    """Residual convolutional network."""
    x = jax.nn.relu(_batch_norm(_conv(image, params["stem"], 2)))
    x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")
    for kernel in params["blocks"]:
        x = x + jax.nn.silu(_batch_norm(_conv(x, kernel)))
    return x.mean((1, 2)) @ params["head"]


CNN = Model(
    _cnn,
    {
        "stem": _matrix(3, 3, 3, 16),
        "blocks": [_matrix(3, 3, 16, 16), _matrix(3, 3, 16, 16)],
        "head": _matrix(16, 10),
    },
    {"image": aotc.Spec((BATCH, 16, 16, 3))},
)


def _unet(params: Any, image: Any) -> Any:
    """Small U-Net with a resize and a transposed convolution."""
    high = jax.nn.relu(_conv(image, params["in"]))
    low = jax.nn.relu(_conv(high, params["down"], 2))
    shape = (image.shape[0], 16, 16, 16)
    wide = jax.image.resize(low, shape, "bilinear")
    turned = lax.conv_transpose(low, params["up"], (2, 2), "SAME")
    return _conv(jnp.concatenate([high, wide, turned], -1), params["out"])


UNET = Model(
    _unet,
    {
        "in": _matrix(3, 3, 3, 8),
        "down": _matrix(3, 3, 8, 16),
        "up": _matrix(2, 2, 16, 16),
        "out": _matrix(3, 3, 40, 3),
    },
    {"image": aotc.Spec((BATCH, 16, 16, 3))},
)


def _lstm(params: Any, x: Any) -> Any:
    """LSTM by a scan."""

    def step(carried: Any, now: Any) -> Any:
        h, c = carried
        gates = now @ params["x"] + h @ params["h"] + params["b"]
        i, f, g, o = jnp.split(gates, 4, -1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    zeros = jnp.zeros((x.shape[0], WIDTH))
    _, hidden = lax.scan(step, (zeros, zeros), jnp.swapaxes(x, 0, 1))
    return hidden[-1] @ params["head"]


LSTM = Model(
    _lstm,
    {
        "x": _matrix(6, 4 * WIDTH),
        "h": _matrix(WIDTH, 4 * WIDTH),
        "b": _zeros(4 * WIDTH),
        "head": _matrix(WIDTH, 10),
    },
    {"x": aotc.Spec((BATCH, 9, 6))},
)


def _experts(params: Any, x: Any) -> Any:
    """Mixture of experts: the two best of four, weighted."""
    weight, chosen = lax.top_k(jax.nn.softmax(x @ params["gate"]), 2)
    hidden = jax.nn.relu(jnp.einsum("bi,eio->beo", x, params["up"]))
    every = jnp.einsum("beo,eod->bed", hidden, params["down"])
    picked = jnp.take_along_axis(every, chosen[..., None], 1)
    return (picked * weight[..., None]).sum(1)


EXPERTS = Model(
    _experts,
    {"gate": _matrix(12, 4), "up": _matrix(4, 12, 16), "down": _matrix(4, 16, 10)},
    {"x": aotc.Spec((BATCH, 12))},
)


def _vae_loss(params: Any, x: Any, key: Any) -> Any:
    """Loss of a variational autoencoder."""
    mean, spread = jnp.split(jax.nn.tanh(x @ params["in"]) @ params["code"], 2, -1)
    noise = jax.random.normal(jax.random.wrap_key_data(key), mean.shape)
    decoded = jax.nn.tanh((mean + jnp.exp(spread) * noise) @ params["out"])
    divergence = 0.5 * (mean**2 + jnp.exp(2 * spread) - 1) - spread
    return ((decoded - x) ** 2).mean() + divergence.mean()


VAE = Model(
    _vae_loss,
    {"in": _matrix(12, 32), "code": _matrix(32, 8), "out": _matrix(4, 12)},
    {"x": aotc.Spec((BATCH, 12)), "key": aotc.Spec((2,), "u32")},
)


def _decoder(stored: Any, token: Any) -> Any:
    """One decoding step: attention to cached keys and values."""
    params, keys, values, count = stored
    x = params["words"][token]
    q, k, v = jnp.split(x @ params["in"], 3, -1)
    keys = lax.dynamic_update_slice(keys, k[:, None], (0, count, 0))
    values = lax.dynamic_update_slice(values, v[:, None], (0, count, 0))
    scores = jnp.einsum("bd,bld->bl", q, keys) / np.sqrt(WIDTH)
    scores = jnp.where(jnp.arange(keys.shape[1]) <= count, scores, -jnp.inf)
    x = x + jnp.einsum("bl,bld->bd", jax.nn.softmax(scores), values)
    return (params, keys, values, count + 1), jnp.argmax(x @ params["words"].T, -1)


DECODER = Model(
    _decoder,
    (
        {"words": _matrix(WORDS, WIDTH), "in": _matrix(WIDTH, 3 * WIDTH)},
        _zeros(2, 16, WIDTH),
        _zeros(2, 16, WIDTH),
        np.int32(0),
    ),
    {"token": aotc.Spec((2,), "i32")},
    trains=True,
)


def _pendulum(params: Any, x: Any) -> Any:
    """Neural differential equation by the Runge-Kutta method."""

    def slope(y: Any) -> Any:
        return jnp.tanh(y @ params["in"]) @ params["out"]

    def step(_: Any, y: Any) -> Any:
        one = slope(y)
        two = slope(y + 0.05 * one)
        three = slope(y + 0.05 * two)
        four = slope(y + 0.1 * three)
        return y + 0.1 / 6 * (one + 2 * two + 2 * three + four)

    return lax.fori_loop(0, 20, step, x)


ODE = Model(
    _pendulum,
    {"in": _matrix(4, 32), "out": _matrix(32, 4)},
    {"x": aotc.Spec((BATCH, 4))},
)

LABELS = aotc.Spec((BATCH,), "i32")


def _classified(network: Model) -> Callable[..., Any]:
    """Return a classifier's loss as a function of parameters, labels and inputs."""

    def loss(params: Any, labels: Any, **inputs: Any) -> Any:
        return cross_entropy(network.function(params, **inputs), labels)

    return loss


def _predicted(params: Any, tokens: Any) -> Any:
    """Loss of the next token."""
    return cross_entropy(_transformer(params, tokens)[:, :-1], tokens[:, 1:])


def _followed(params: Any, x: Any) -> Any:
    """Mean square of the differential equation's result."""
    return (_pendulum(params, x) ** 2).mean()


MODELS = {
    "mlp": MLP,
    "mlp training": adam(MLP, _classified(MLP), labels=LABELS),
    "transformer": TRANSFORMER,
    "transformer training": adam(TRANSFORMER, _predicted),
    "decoder with a cache": DECODER,
    "cnn": CNN,
    "cnn training": adam(CNN, _classified(CNN), labels=LABELS),
    "u-net": UNET,
    "lstm by scan": LSTM,
    "lstm training": adam(LSTM, _classified(LSTM), labels=LABELS),
    "mixture of experts": EXPERTS,
    "experts training": adam(EXPERTS, _classified(EXPERTS), labels=LABELS),
    "vae training": adam(VAE, _vae_loss),
    "neural ode": ODE,
    "neural ode training": adam(ODE, _followed),
}
