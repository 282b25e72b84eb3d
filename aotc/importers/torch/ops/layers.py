"""ATen ops that are layers of networks: normalization, softmax, attention."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from aotc import nn, random
from aotc import numpy as np
from aotc.dialects.types import Size
from aotc.importers.common.channels import apply_channels_last
from aotc.importers.torch.dropping import next_key
from aotc.tracing.array import Array
from aotc.tracing.conversion import as_float

Maybe = Array | None


# ---- normalization ------------------------------------------------------------------


def layer_norm(
    x: Array,
    shape: Sequence[Size],
    weight: Maybe = None,
    bias: Maybe = None,
    eps: float = 1e-5,
    cudnn_enable: bool = True,
) -> Array:
    """Normalised over the last axes."""
    return nn.layer_norm(x, weight, bias, eps, axes=_last_axes(shape))


def _last_axes(shape: Sequence[Size]) -> tuple[int, ...]:
    return tuple(range(-len(shape), 0))


def native_layer_norm(
    x: Array, shape: Sequence[Size], weight: Maybe, bias: Maybe, eps: float
) -> list[Array]:
    """Normalised over the last axes; the mean and 1 / the deviation as well."""
    axes = _last_axes(shape)
    y = nn.layer_norm(x, weight, bias, eps, axes=axes)
    return [y, *_statistics(x, axes, eps)]


def _statistics(x: Array, axes: tuple[int, ...], eps: float) -> list[Array]:
    variance = np.var(x, axes, keepdims=True)
    return [np.mean(x, axes, keepdims=True), np.rsqrt(np.add(variance, eps))]


def rms_norm(
    x: Array, shape: Sequence[Size], weight: Maybe = None, eps: float | None = None
) -> Array:
    """Divided by the root of the mean square over the last axes."""
    least = float(np.finfo(x.dtype).eps) if eps is None else eps
    return nn.rms_norm(x, weight, least, axes=_last_axes(shape))


def group_norm(
    x: Array,
    groups: int,
    weight: Maybe = None,
    bias: Maybe = None,
    eps: float = 1e-5,
    cudnn_enabled: bool = True,
) -> Array:
    """Normalised over groups of channels and the spatial axes."""
    return apply_channels_last(nn.group_norm, x, groups, weight, bias, eps)


def native_group_norm(
    x: Array,
    weight: Maybe,
    bias: Maybe,
    n: Size,
    channels: Size,
    positions: Size,
    groups: int,
    eps: float,
) -> list[Array]:
    """The same; the mean and 1 / the deviation of each group as well."""
    rows = np.reshape(x, (n, groups, channels * positions // groups))
    mean, scale = (np.squeeze(part, 2) for part in _statistics(rows, (2,), eps))
    return [group_norm(x, groups, weight, bias, eps), mean, scale]


def batch_norm(
    x: Array,
    weight: Maybe,
    bias: Maybe,
    mean: Array,
    variance: Array,
    momentum: float,
    eps: float,
) -> list[Any]:
    """Normalised by known statistics of each channel; there are none of this batch."""
    y = apply_channels_last(nn.batch_norm, x, mean, variance, weight, bias, epsilon=eps)
    return [y, np.zeros((0,), x.dtype), np.zeros((0,), x.dtype)]


def batch_norm_training(
    x: Array,
    weight: Maybe,
    bias: Maybe,
    mean: Array,
    variance: Array,
    training: bool,
    momentum: float,
    eps: float,
) -> list[Any]:
    """Normalised by the statistics of this batch; the running ones come last."""
    if not training:
        return [
            *batch_norm(x, weight, bias, mean, variance, momentum, eps),
            mean,
            variance,
        ]
    y, own_mean, scale = _by_own_statistics(x, weight, bias, eps)
    own_variance = np.var(x, _all_but_channels(x), ddof=1)
    running = [
        np.add(np.multiply(old, 1 - momentum), np.multiply(new, momentum))
        for old, new in ((mean, own_mean), (variance, own_variance))
    ]
    return [y, own_mean, scale, *running]


def batch_norm_own(
    x: Array, weight: Maybe, bias: Maybe, training: bool, momentum: float, eps: float
) -> list[Array]:
    """Normalised by the statistics of this batch, where none are kept."""
    return _by_own_statistics(x, weight, bias, eps)


def _all_but_channels(x: Array) -> tuple[int, ...]:
    return (0, *range(2, x.ndim))


def _by_own_statistics(x: Array, weight: Maybe, bias: Maybe, eps: float) -> list[Array]:
    """The result, the mean and 1 / the deviation of each channel."""
    axes = _all_but_channels(x)
    mean, variance = np.mean(x, axes), np.var(x, axes)
    y = apply_channels_last(nn.batch_norm, x, mean, variance, weight, bias, epsilon=eps)
    return [y, mean, np.rsqrt(np.add(variance, eps))]


# ---- dropout ------------------------------------------------------------------------


def native_dropout(x: Array, p: float, train: bool | None) -> list[Array]:
    """`x`, some of it dropped in training, and what is kept."""
    if train is False or not p:
        return [x, np.ones(x.shape, "bool")]
    kept = np.zeros(x.shape, "bool")
    if p < 1:
        kept = random.bernoulli(next_key(), 1 - p, x.shape)
    scaled = np.multiply(x, 1 / (1 - p) if p < 1 else 0.0)
    return [np.where(kept, scaled, np.zeros_like(x)), kept]


# ---- softmax ------------------------------------------------------------------------


def _along(function: Callable[..., Array]) -> Callable[..., Array]:
    """A softmax; a dtype that is given is that of the computation."""

    def call(x: Array, dim: int, dtype: str | None = None) -> Array:
        y = as_float(x if dtype is None else np.astype(x, dtype))
        return function(y, dim) if x.ndim else np.reshape(function(y[None], 0), ())

    return call


softmax, log_softmax = _along(nn.softmax), _along(nn.log_softmax)


def _native(function: Callable[..., Array]) -> Callable[[Array, int, bool], Array]:
    """A softmax with a flag: whether half precision gives a result in f32."""
    return lambda x, dim, widen: function(x, dim, "f32" if widen else None)


def safe_softmax(x: Array, dim: int, dtype: str | None = None) -> Array:
    """The softmax; zeros where all elements are -infinity."""
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
    """Attention of (…, heads, length, depth).

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
    rows = [_rows(x, batch, own) for x, own in zip((q, k, v), heads, strict=True)]
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
    """Attention whose weights are dropped at random, as it is while training."""
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


def _rows(x: Array, batch: Sequence[Size], heads: Sequence[Size]) -> Array:
    """(…, heads, length, depth) → (batch, length, heads, depth)."""
    whole = np.broadcast_to(x, (*batch, *heads, *x.shape[-2:]))
    rows = np.reshape(whole, (math.prod(batch), math.prod(heads), *x.shape[-2:]))
    return np.swapaxes(rows, 1, 2)


def _mask(mask: Array, batch: Sequence[Size]) -> Array:
    """A mask that broadcasts to (batch, heads, length, positions)."""
    if mask.ndim <= 4 and len(batch) <= 1:
        return mask
    sizes = (*batch, *mask.shape[-3:])
    whole = np.broadcast_to(mask, sizes)
    return np.reshape(whole, (math.prod(batch), *mask.shape[-3:]))


OPS: dict[str, Callable[..., Any]] = {
    "aten.layer_norm": layer_norm,
    "aten.native_layer_norm": native_layer_norm,
    "aten.rms_norm": rms_norm,
    "aten.group_norm": group_norm,
    "aten.native_group_norm": native_group_norm,
    "aten._native_batch_norm_legit_no_training": batch_norm,
    "aten._native_batch_norm_legit_functional": batch_norm_training,
    "aten._native_batch_norm_legit.no_stats": batch_norm_own,
    "aten.native_dropout": native_dropout,
    "aten.softmax.int": softmax,
    "aten._softmax": _native(softmax),
    "aten._safe_softmax": safe_softmax,
    "aten.log_softmax.int": log_softmax,
    "aten._log_softmax": _native(log_softmax),
    "aten.scaled_dot_product_attention": attention,
}
