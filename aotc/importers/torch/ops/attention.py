"""ATen ops that are attention, and its softmax."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from aotc import nn
from aotc import numpy as np
from aotc.dialects.types import Size
from aotc.importers.torch.dropping import next_key
from aotc.tracing.array import Array
from aotc.tracing.conversion import as_float

Maybe = Array | None


# ---- softmax ------------------------------------------------------------------------


def _along(function: Callable[..., Array]) -> Callable[..., Array]:
    """Wrap a softmax function to take a dim and the dtype to compute in."""

    def call(x: Array, dim: int, dtype: str | None = None) -> Array:
        y = as_float(x if dtype is None else np.astype(x, dtype))
        return function(y, dim) if x.ndim else np.reshape(function(y[None], 0), ())

    return call


softmax, log_softmax = _along(nn.softmax), _along(nn.log_softmax)


def _native(function: Callable[..., Array]) -> Callable[[Array, int, bool], Array]:
    """Wrap a softmax function to take a flag to return f32 for half precision."""
    return lambda x, dim, widen: function(x, dim, "f32" if widen else None)


def safe_softmax(x: Array, dim: int, dtype: str | None = None) -> Array:
    """Return the softmax along a dim; zeros where all elements are -infinity."""
    hidden = np.all(np.isneginf(x), dim, keepdims=True)
    return np.where(hidden, 0.0, softmax(np.where(hidden, 0.0, x), dim, dtype))


# ---- attention ----------------------------------------------------------------------


def attention(
    q: Array,
    k: Array,
    v: Array,
    mask: Maybe = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Array:
    """Return scaled dot-product attention of (…, heads, length, depth).

    With `enable_gqa` each head of k and v serves several ones of q.
    """
    if dropout_p:
        return _dropping_attention(
            q, k, v, mask, dropout_p, is_causal, scale, enable_gqa
        )
    batch = np.broadcast_shapes(*(x.shape[:-3] for x in (q, k, v)))
    heads = [x.shape[-3:-2] for x in (q, k, v)]
    if not enable_gqa:
        heads = [np.broadcast_shapes(*heads)] * 3
    rows = [
        _length_first(x, batch, own) for x, own in zip((q, k, v), heads, strict=True)
    ]
    options: dict[str, Any] = {"causal": is_causal, "scale": scale}
    if mask is not None:
        what = "mask" if mask.dtype == "bool" else "bias"
        options[what] = _mask(mask, batch)
    y = np.swapaxes(nn.attention(rows[0], rows[1], rows[2], **options), 1, 2)
    return np.reshape(y, (*batch, *heads[0], q.shape[-2], v.shape[-1]))


def _dropping_attention(
    q: Array,
    k: Array,
    v: Array,
    mask: Maybe,
    rate: float,
    is_causal: bool,
    scale: float | None,
    enable_gqa: bool,
) -> Array:
    """Return attention with dropout on its weights, as in training."""
    if enable_gqa:
        count = q.shape[-3] // k.shape[-3]
        k, v = (np.repeat(x, count, -3) for x in (k, v))
    factor = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    scores = np.multiply(np.matmul(q, np.swapaxes(k, -1, -2)), factor)
    if is_causal:
        mask = np.tril(np.ones((q.shape[-2], k.shape[-2]), "bool"))
    if mask is not None and mask.dtype == "bool":
        scores = np.where(mask, scores, -math.inf)
    elif mask is not None:
        scores = np.add(scores, mask)
    weights = safe_softmax(scores, -1)
    return np.matmul(nn.dropout(next_key(), weights, rate), v)


def _length_first(x: Array, batch: Sequence[Size], heads: Sequence[Size]) -> Array:
    """Return (…, heads, length, depth) as (batch, length, heads, depth)."""
    whole = np.broadcast_to(x, (*batch, *heads, *x.shape[-2:]))
    rows = np.reshape(whole, (math.prod(batch), math.prod(heads), *x.shape[-2:]))
    return np.swapaxes(rows, 1, 2)


def _mask(mask: Array, batch: Sequence[Size]) -> Array:
    """Return a mask in a shape that broadcasts to (batch, heads, length, positions)."""
    if mask.ndim <= 4 and len(batch) <= 1:
        return mask
    sizes = (*(1,) * (3 - mask.ndim), *mask.shape)[-3:]
    of_heads = np.reshape(mask, (*mask.shape[:-3], *sizes))
    whole = np.broadcast_to(of_heads, (*batch, *sizes))
    return np.reshape(whole, (math.prod(batch), *sizes))


OPS: dict[str, Callable[..., Any]] = {
    "aten.scaled_dot_product_attention": attention,
    "aten.softmax.int": softmax,
    "aten._softmax": _native(softmax),
    "aten._safe_softmax": safe_softmax,
    "aten.log_softmax.int": log_softmax,
    "aten._log_softmax": _native(log_softmax),
}
