"""Arrays that kernels hold narrower in memory than in registers, beside products.

A model file, which the tests beside it build. Vectors are f32, whatever memory holds:
bf16, f16, or bytes with a scale for each row.
"""

from types import FunctionType

import aotc
import aotc.numpy as np
from aotc import nn

HALVES = ("bf16", "f16")
CAPACITY = 75
_ANY = aotc.Dim("n", min=0, max=99)


def _entry(name, function, **specs):
    """Declare an entry that does what a function does."""
    own = FunctionType(function.__code__, globals(), name)
    globals()[name] = aotc.entry(**specs)(own)


def _rows(x):
    """Write entries of any number of rows, also such that are computed."""
    y = x * np.asarray(0.5, x.dtype)
    return nn.softmax(x), nn.rms_norm(y), np.max(x, -1), np.mean(x, -1)


def _read_twice(x, y):
    """A sum that a norm reads, and what follows it, in f32 and narrow."""
    z = x + y
    return nn.layer_norm(z) + z, np.astype(nn.softmax(np.astype(x, "f32")), x.dtype)


def _long_rows(x):
    """Rows that are too long to be kept on the stack, as they are and computed."""
    return nn.softmax(x), nn.log_softmax(x + x)


def _columns(x):
    return np.mean(x, 1), np.min(x, 1)


def _windows(x, kernel):
    pooled = nn.max_pool(x, (3, 3), strides=(2, 2), padding=((1, 1), (1, 1)))
    mixed = nn.conv2d(x, kernel, padding="SAME", groups=x.shape[-1])
    return pooled, nn.avg_pool(x, (3, 3), strides=(1, 1)), nn.relu(mixed)


def _moved(x, y):
    runs = x.reshape(150, 5, 4, 20).transpose(0, 2, 1, 3)
    return np.concatenate([x, nn.relu(y)], -1), x.transpose(0, 2, 1), runs


def _attended(q, k, v):
    return nn.attention(q, k, v, causal=True)


def _stepped(q, k, v, position):
    return nn.attention(q, k, v, mask=np.arange(CAPACITY) <= position)


def _loss(x):
    return np.sum(np.astype(nn.softmax(nn.layer_norm(x)) * x, "f32"))


def _gradient(x):
    return aotc.grad(_loss)(x)


_POSITION = aotc.Spec((), "i32")
for _dtype in HALVES:

    def _spec(*shape, dtype=_dtype):
        return aotc.Spec(shape, dtype)

    _entry(f"rows_{_dtype}", _rows, x=_spec(_ANY, 72))
    _entry(f"columns_{_dtype}", _columns, x=_spec(3, 41, 17))
    _entry(
        f"windows_{_dtype}", _windows, x=_spec(1, 9, 11, 40), kernel=_spec(3, 3, 1, 40)
    )
    _entry(f"moved_{_dtype}", _moved, x=_spec(150, 20, 20), y=_spec(150, 20, 33))
    _entry(f"attended_{_dtype}", _attended, **{x: _spec(1, 150, 2, 24) for x in "qkv"})
    _cache = _spec(2, CAPACITY, 2, 24)
    _entry(
        f"stepped_{_dtype}",
        _stepped,
        **{"q": _spec(2, 1, 4, 24), "k": _cache, "v": _cache, "position": _POSITION},
    )

_entry("read_twice", _read_twice, **dict.fromkeys("xy", aotc.Spec((7, 601), "bf16")))
_entry("long_rows", _long_rows, x=aotc.Spec((2, 4103), "f16"))
_entry("gradient", _gradient, x=aotc.Spec((9, 100), "bf16"))


# ---- caches that hold less than what attention takes --------------------------------

_FLOATS, _KEYS = aotc.Spec((2, 1, 4, 24), "f32"), (2, CAPACITY, 2, 24)
_BYTES, _SCALE = aotc.Spec(_KEYS, "i8"), aotc.Spec((*_KEYS[:3], 1), "f32")


@aotc.entry(q=_FLOATS, k=_BYTES, v=_BYTES, ks=_SCALE, vs=_SCALE, position=_POSITION)
def cache_of_bytes(q, k, v, ks, vs, position):
    """A scale for each row, and the query's heads share those of keys."""
    k, v = nn.dequantize(k, ks, axis=-1, block=24), np.astype(v, "f32") * vs
    return _stepped(q, k, v, position)


@aotc.entry(
    q=aotc.Spec((2, 1, 2, 24), "bf16"),
    k=aotc.Spec((2, 2, CAPACITY, 24), "u8"),
    v=aotc.Spec((2, 2, CAPACITY, 24), "f32"),
    ks=aotc.Spec((2, 2, CAPACITY, 1), "f32"),
    position=_POSITION,
)
def cache_by_heads(q, k, v, ks, position):
    """Bytes with a zero point, and floats that are rounded, both by heads."""
    k = np.astype((np.astype(k, "f32") - 128.0) * ks, "bf16").transpose(0, 2, 1, 3)
    v = np.astype(v, "bf16").transpose(0, 2, 1, 3)
    return _stepped(q, k, v, position)


@aotc.entry(q=_FLOATS, k=aotc.Spec(_KEYS, "bf16"), position=_POSITION)
def cache_of_halves(q, k, position):
    """Keys that are the values, too, in half the bytes of the query."""
    k = np.astype(k, "f32")
    return _stepped(q, k, k, position)


@aotc.entry(x=aotc.Spec((1, 9, 11, 40), "u8"), kernel=aotc.Spec((3, 3, 1, 40), "f32"))
def windows_of_bytes(x, kernel):
    """An image with a zero point; what is around it is 0, not a byte."""
    x = (np.astype(x, "f32") - 7.0) * 0.25
    mixed = nn.conv2d(x, kernel, padding="SAME", groups=40)
    return mixed, nn.max_pool(x, (3, 3), strides=(2, 2), padding=((1, 1), (1, 1)))
