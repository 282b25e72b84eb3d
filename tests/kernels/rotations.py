"""Attention on rotated queries and keys, as exporters write it.

A model file, which the tests beside it build.
"""

import numpy as onp

import aotc
import aotc.numpy as np
from aotc import nn

_rng = onp.random.default_rng(0)
WIDTH, HEADS, SHARED, DEPTH, LENGTH = 48, 6, 2, 16, 20

ANGLES = onp.arange(64)[:, None] * _rng.uniform(0.01, 1.0, DEPTH // 2)
COSINES, SINES = (onp.tile(f(ANGLES), 2).astype("f") for f in (onp.cos, onp.sin))

w = aotc.Weights(
    {
        name: _rng.normal(size=(WIDTH, heads * DEPTH)).astype("f") / 8
        for name, heads in (("query", HEADS), ("key", SHARED), ("value", SHARED))
    }
)

_static = aotc.Spec((2, LENGTH, WIDTH), "f32")
_batch, _length = (aotc.Dim(name, min=0) for name in ("batch", "length"))
_any = aotc.Spec((_batch, _length, WIDTH), "f32")
_heads = aotc.Spec((_batch, 5, 3, 8), "f32")


def _turn(x, cosines, sines):
    first, second = np.split(x, 2, -1)
    return x * cosines + np.concatenate([-second, first], -1) * sines


def _heads_of(w, name, x):
    """Batch, heads, length, depth."""
    y = np.reshape(x @ w[name], (*x.shape[:2], -1, DEPTH))
    return np.swapaxes(y, 1, 2)


def _repeated(x):
    batch, heads, length, depth = x.shape
    shape = batch, heads, HEADS // SHARED, length, depth
    wide = np.broadcast_to(x[:, :, None], shape)
    return np.reshape(wide, (batch, HEADS, length, depth))


def _attend(w, x, cosines, sines):
    q, k, v = (_heads_of(w, name, x) for name in ("query", "key", "value"))
    q, k = _turn(q, cosines, sines), _turn(k, cosines, sines)
    parts = (np.swapaxes(y, 1, 2) for y in (q, _repeated(k), _repeated(v)))
    return nn.attention(*parts, causal=True)


@aotc.entry(x=_static)
def attend(w, x):
    return _attend(w, x, COSINES[:LENGTH], SINES[:LENGTH])


@aotc.entry(x=_static)
def slope(w, x):
    """The derivative reads the keys that are repeated."""

    def loss(x):
        return np.sum(np.square(_attend(w, x, COSINES[:LENGTH], SINES[:LENGTH])))

    return aotc.grad(loss)(x)


@aotc.entry(x=_any, positions=aotc.Spec((_length,), "i32"))
def attend_any(w, x, positions):
    return _attend(w, x, *(np.take(t, positions, 0) for t in (COSINES, SINES)))


@aotc.entry(x=_heads)
def two_readers(x):
    """Read what is rotated as it is, too, and its halves."""
    x = x * 2.0
    y = nn.rotary_embedding(x)
    return y, np.exp(x), np.exp(x[..., 4:]), x[..., ::2] + y[..., 1::2]


@aotc.entry(x=_heads)
def of_a_part(x):
    tables = COSINES[:5, None, :6], SINES[:5, None, :6]
    return np.concatenate([_turn(x[..., 1:7], *tables), x[..., 7:], x[..., :1]], -1)


@aotc.entry(x=aotc.Spec((3, 5, 2, 8), "f16"), y=aotc.Spec((3, 5, 2, 8), "f64"))
def of_other_floats(x, y):
    return nn.rotary_embedding(x), nn.rotary_embedding(y)


@aotc.entry(x=aotc.Spec((2, 5, 3, 8), "f32"))
def neighbours(x):
    return nn.rotary_embedding(x, interleaved=True)
