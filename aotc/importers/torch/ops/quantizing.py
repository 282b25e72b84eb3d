"""Ops that quantize: those of PyTorch's quantized graphs, and simulated ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aotc import numpy as np
from aotc.importers.torch.promotion import as_dtype
from aotc.tracing.array import Array


def _levels(x: Array, scale: Any, zero: Any, low: int, high: int) -> Array:
    """The level nearest to each element, as a float."""
    steps = np.round(np.multiply(x, np.divide(1.0, as_dtype(scale, x.dtype))))
    return np.clip(np.add(steps, as_dtype(zero, x.dtype)), low, high)


def quantize(
    x: Array, scale: Any, zero: Any, low: int, high: int, dtype: str, *_: Any
) -> Array:
    """The level nearest to each element."""
    return np.astype(_levels(x, scale, zero, low, high), dtype)


def dequantize(
    x: Array,
    scale: Any,
    zero: Any,
    low: int,
    high: int,
    dtype: str,
    *,
    out_dtype: str | None = None,
) -> Array:
    """The numbers that levels stand for."""
    kind = out_dtype or "f32"
    steps = np.astype(x, kind)
    if zero is not None:
        steps = np.subtract(steps, as_dtype(zero, kind))
    return np.multiply(steps, as_dtype(scale, kind))


def per_channel(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same with a scale and a zero for each position of an axis."""

    def call(
        x: Array, scales: Array, zeros: Any, axis: int, *rest: Any, **named: Any
    ) -> Any:
        def spread(part: Any) -> Any:
            if part is None:
                return None
            return np.reshape(part, (-1, *[1] * (x.ndim - 1 - axis % x.ndim)))

        return function(x, spread(scales), spread(zeros), *rest, **named)

    return call


def simulate(x: Array, scale: Any, zero: Any, low: int, high: int) -> list[Array]:
    """Each element rounded to its level, and where none was cut off."""
    levels = _levels(x, scale, zero, low, high)
    origin = as_dtype(zero, x.dtype)
    y = np.multiply(np.subtract(levels, origin), as_dtype(scale, x.dtype))
    free = np.round(np.multiply(x, np.divide(1.0, as_dtype(scale, x.dtype))))
    return [y, np.equal(np.add(free, origin), levels)]


def simulate_if(
    x: Array, scale: Array, zero: Array, enabled: Array, low: int, high: int
) -> list[Array]:
    """The same where a flag is set; else `x` itself."""
    y, kept = simulate(x, np.reshape(scale, ()), np.reshape(zero, ()), low, high)
    flag = np.not_equal(np.reshape(enabled, ()), 0)
    return [np.where(flag, y, x), np.logical_or(kept, np.logical_not(flag))]


def parameters_for(
    x: Array, low: int, high: int, eps: float, dtype: str
) -> list[Array]:
    """The scale and the zero (f64, i64) that spread levels over what `x` holds."""
    least = np.minimum(np.min(x), 0.0)
    most = np.maximum(np.max(x), 0.0)
    scale = np.divide(np.subtract(most, least), float(high - low))
    scale = np.maximum(scale, float(eps))
    zero = np.subtract(float(low), np.round(np.divide(least, scale)))
    return [
        np.astype(scale, "f64"),
        np.astype(np.clip(zero, float(low), float(high)), "i64"),
    ]


_GRAPH = "quantized_decomposed"

OPS: dict[str, Callable[..., Any]] = {
    f"{_GRAPH}.quantize_per_tensor": quantize,
    f"{_GRAPH}.dequantize_per_tensor": dequantize,
    f"{_GRAPH}.quantize_per_channel": per_channel(quantize),
    f"{_GRAPH}.dequantize_per_channel": per_channel(dequantize),
    f"{_GRAPH}.choose_qparams": parameters_for,
    "aten.fake_quantize_per_tensor_affine_cachemask": simulate,
    "aten.fake_quantize_per_channel_affine_cachemask": per_channel(simulate),
    "aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams": simulate_if,
}
