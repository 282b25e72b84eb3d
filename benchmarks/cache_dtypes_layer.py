"""Attention of one query by caches that hold keys and values in several dtypes.

A model file, which `benchmarks/cache_dtypes.py` builds. An entry of a name has that
dtype in its cache, and f32 for queries; `half_…` has queries of its cache's dtype.
"""

import numpy

import aotc
import aotc.numpy as np
from aotc import nn
from aotc.core.dtypes import to_numpy

CAPACITY, HEADS, DEPTH = 8192, 16, 64
_rng = numpy.random.default_rng(0)
_both = _rng.standard_normal((2, 1, CAPACITY, HEADS, DEPTH), "f4")
_rows = dict(zip("kv", _both, strict=True))


def _cache(dtype):
    """Return keys and values as a state in a dtype; in i8 with a scale for each row."""
    if dtype != "i8":
        return aotc.State({n: x.astype(to_numpy(dtype)) for n, x in _rows.items()})
    scales = {n: abs(x).max(-1, keepdims=True) / 127 for n, x in _rows.items()}
    held = {n: numpy.rint(x / scales[n]).astype("i1") for n, x in _rows.items()}
    return aotc.State({**held, **{f"{n}_scale": x for n, x in scales.items()}})


def _attend(cache, q, position):
    """Return the attention of a query to the cached keys and values up to a
    position.
    """
    k, v = (cache[name] for name in "kv")
    if k.dtype == "i8":
        k, v = (
            nn.dequantize(cache[n], cache[f"{n}_scale"], axis=-1, block=DEPTH)
            for n in "kv"
        )
    k, v = (np.astype(x, q.dtype) for x in (k, v))
    return nn.attention(q, k, v, mask=np.arange(CAPACITY) <= position)


def _entry(name, cache, query):
    """Define a global entry that attends to a cache in one dtype."""

    def step(cache, q, position):
        return _attend(cache, q, position)

    step.__name__ = name
    q = aotc.Spec((1, 1, HEADS, DEPTH), query)
    made = aotc.entry(cache=cache.frozen, q=q, position=aotc.Spec((), "i32"))
    globals()[name] = made(step)


for _dtype in ("f32", "bf16", "f16", "i8"):
    globals()[f"cache_{_dtype}"] = _own = _cache(_dtype)
    _entry(_dtype, _own, "f32")
    if _dtype in ("bf16", "f16"):
        _entry(f"half_{_dtype}", _own, _dtype)
