"""Ops that quantize: those of PyTorch's quantized graphs, and simulated ones.

As in PyTorch, scales and levels of half-precision numbers are f32.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aotc import nn
from aotc import numpy as np
from aotc.dialects.lowering.conversion import accumulator
from aotc.importers.torch.promotion import as_dtype
from aotc.nn.quantizing import broadcast_along
from aotc.numpy.products import dot_general
from aotc.tracing.array import Array
from aotc.tracing.conversion import lift, to_accumulator


def _broadcast_parameter(x: Array, part: Any, axis: int | None) -> Array:
    """A scale or a zero in the dtype of `x`, to broadcast with it."""
    return broadcast_along(_parameter(as_dtype(part, x.dtype), axis), x, axis)


def _parameter(part: Array, axis: int | None) -> Array:
    """A scale or a zero: without an axis, the one number of an array of any rank."""
    return np.reshape(part, ()) if axis is None else part


def _nearest_level(x: Array, scale: Array, zero: Array) -> Array:
    """The level nearest to each element, as a float; PyTorch divides by multiplying."""
    return np.add(np.round(np.multiply(x, np.divide(1.0, scale))), zero)


def quantize(
    x: Array,
    scale: Any,
    zero: Any,
    low: int,
    high: int,
    dtype: str,
    *_: Any,
    axis: int | None = None,
) -> Array:
    """The level nearest to each element."""
    x = to_accumulator(x)
    found = _nearest_level(
        x, _broadcast_parameter(x, scale, axis), _broadcast_parameter(x, zero, axis)
    )
    return np.astype(np.clip(found, low, high), dtype)


def dequantize(
    x: Array,
    scale: Any,
    zero: Any,
    low: int,
    high: int,
    dtype: str,
    *,
    out_dtype: str | None = None,
    axis: int | None = None,
) -> Array:
    """The numbers that levels stand for."""
    dtype = out_dtype or "f32"
    step = _parameter(as_dtype(scale, accumulator(dtype)), axis)
    origin = _parameter(lift(0 if zero is None else zero), axis)
    return np.astype(nn.dequantize(x, step, origin, axis=axis), dtype)


def per_channel(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same with a scale and a zero for each position of an axis."""

    def call(
        x: Array, scales: Array, zeros: Any, axis: int, *rest: Any, **named: Any
    ) -> Any:
        return function(x, scales, zeros, *rest, axis=axis, **named)

    return call


def simulate(
    x: Array, scale: Any, zero: Any, low: int, high: int, *, axis: int | None = None
) -> list[Array]:
    """Each element rounded to its level, and where none was cut off."""
    wide = to_accumulator(x)
    step = _broadcast_parameter(wide, scale, axis)
    origin = _broadcast_parameter(wide, zero, axis)
    free = _nearest_level(wide, step, origin)
    levels = np.clip(free, low, high)
    found = np.multiply(np.subtract(levels, origin), step)
    return [np.astype(found, x.dtype), np.equal(free, levels)]


def simulate_if(
    x: Array, scale: Array, zero: Array, enabled: Array, low: int, high: int
) -> list[Array]:
    """The same where a flag is set; else `x` itself."""
    y, kept = simulate(x, scale, zero, low, high)
    flag = np.not_equal(np.reshape(enabled, ()), 0)
    return [np.where(flag, y, x), np.logical_or(kept, np.logical_not(flag))]


def parameters_for(
    x: Array, low: int, high: int, eps: float, dtype: str
) -> list[Array]:
    """The scale and the zero (f64[1], i64[1]) that spread levels over what `x` holds.

    PyTorch divides the range in the dtype of `x`, and goes on in single precision.
    """
    least = np.minimum(np.min(x), 0.0)
    most = np.maximum(np.max(x), 0.0)
    width = np.divide(np.subtract(most, least), float(high - low))
    scale = np.maximum(np.astype(width, "f32"), float(eps))
    origin = np.round(np.divide(np.astype(least, "f32"), scale))
    zero = np.clip(np.subtract(float(low), origin), float(low), float(high))
    return [
        np.reshape(np.astype(part, dtype), (1,))
        for part, dtype in ((scale, "f64"), (zero, "i64"))
    ]


def integer_product(a: Array, b: Array) -> Array:
    """The product of two matrices of 8-bit integers, in i32."""
    if a.dtype != b.dtype:  # u8 and i8, which have i16 in common
        a, b = np.astype(a, "i16"), np.astype(b, "i16")
    return dot_general(a, b, ((1,), (0,)), dtype="i32")


_GRAPH = "quantized_decomposed"

OPS: dict[str, Callable[..., Any]] = {
    f"{_GRAPH}.quantize_per_tensor": quantize,
    f"{_GRAPH}.dequantize_per_tensor": dequantize,
    f"{_GRAPH}.quantize_per_channel": per_channel(quantize),
    f"{_GRAPH}.dequantize_per_channel": per_channel(dequantize),
    f"{_GRAPH}.choose_qparams": parameters_for,
    "aten._int_mm": integer_product,
    "aten.fake_quantize_per_tensor_affine_cachemask": simulate,
    "aten.fake_quantize_per_channel_affine_cachemask": per_channel(simulate),
    "aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams": simulate_if,
}
