"""Ops that quantize: those of PyTorch's quantized graphs, and simulated ones.

As in PyTorch, scales and levels of half-precision numbers are f32.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aotc import nn
from aotc import numpy as np
from aotc.dialects.lowering.conversion import accumulator
from aotc.importers.torch.promotion import as_dtype, common_dtype
from aotc.nn.quantizing import broadcast_along
from aotc.nn.spatial import static_size
from aotc.numpy.products import dot_general
from aotc.tracing.array import Array
from aotc.tracing.conversion import ArrayLike, lift, to_accumulator


def _broadcast_parameter(x: Array, parameter: Any, axis: int | None) -> Array:
    """Return a scale or zero point in x's dtype, shaped to broadcast along an axis."""
    return broadcast_along(_parameter(as_dtype(parameter, x.dtype), axis), x, axis)


def _parameter(parameter: Array, axis: int | None) -> Array:
    """Return a scale or zero point: per axis as it is, otherwise as a scalar."""
    return np.reshape(parameter, ()) if axis is None else parameter


def nearest_level(x: Array, scale: Array, zero: Array) -> Array:
    """Return `round(x * (1 / scale)) + zero` as floats."""
    return np.add(np.round(np.multiply(x, np.divide(1.0, scale))), zero)


def quantize(
    x: Array,
    scale: ArrayLike,
    zero: ArrayLike,
    low: int,
    high: int,
    dtype: str,
    *_: object,
    axis: int | None = None,
) -> Array:
    """Return x quantised to integers from `low` to `high`."""
    x = to_accumulator(x)
    found = nearest_level(
        x, _broadcast_parameter(x, scale, axis), _broadcast_parameter(x, zero, axis)
    )
    return np.astype(np.clip(found, low, high), dtype)


def dequantize(
    x: Array,
    scale: Any,
    zero: ArrayLike,
    low: int,
    high: int,
    dtype: str,
    *,
    out_dtype: str | None = None,
    axis: int | None = None,
) -> Array:
    """Return the floats that quantised integers represent."""
    dtype = out_dtype or "f32"
    step = _parameter(as_dtype(scale, accumulator(dtype)), axis)
    origin = _parameter(lift(0 if zero is None else zero), axis)
    return np.astype(nn.dequantize(x, step, origin, axis=axis), dtype)


def per_channel(function: Callable[..., object]) -> Callable[..., object]:
    """Wrap a quantising function to take one scale and zero point per index of
    an axis.
    """

    def call(
        x: Array, scales: Array, zeros: Any, axis: int, *rest: Any, **named: Any
    ) -> Any:
        return function(x, scales, zeros, *rest, axis=axis, **named)

    return call


def simulate(
    x: Array,
    scale: ArrayLike,
    zero: ArrayLike,
    low: int,
    high: int,
    *,
    axis: int | None = None,
) -> list[Array]:
    """Return x fake-quantised, and a mask of the elements that are not clipped."""
    wide = to_accumulator(x)
    step = _broadcast_parameter(wide, scale, axis)
    origin = _broadcast_parameter(wide, zero, axis)
    free = nearest_level(wide, step, origin)
    levels = np.clip(free, low, high)
    found = np.multiply(np.subtract(levels, origin), step)
    return [np.astype(found, x.dtype), np.equal(free, levels)]


def simulate_if(
    x: Array, scale: Array, zero: Array, enabled: Array, low: int, high: int
) -> list[Array]:
    """Return x fake-quantised if a flag is set, and the mask of elements not
    clipped.
    """
    y, kept = simulate(x, scale, zero, low, high)
    flag = np.not_equal(np.reshape(enabled, ()), 0)
    return [np.where(flag, y, x), np.logical_or(kept, np.logical_not(flag))]


def parameters_for(
    x: Array, low: int, high: int, eps: float, dtype: str
) -> list[Array]:
    """Return scale and zero point (f64[1], i64[1]) for the range of x.

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


# ---- by rows and groups -------------------------------------------------------------


def quantize_per_token(
    x: Array, scales: Array, zeros: Array, low: int, high: int, dtype: str
) -> Array:
    """Return x quantised with a scale and zero point for each row.

    PyTorch adds the zero first, so that it decides which way halves are rounded.
    """
    wide = common_dtype(to_accumulator(x).dtype, scales.dtype)
    steps = np.multiply(np.astype(x, wide), np.divide(1.0, np.astype(scales, wide)))
    levels = np.round(np.add(steps, np.astype(zeros, wide)))
    return np.astype(np.clip(levels, low, high), dtype)


def dequantize_per_token(
    x: Array,
    scales: Array,
    zeros: Array,
    low: int,
    high: int,
    dtype: str,
    output_dtype: str,
) -> Array:
    """Return the floats of integers with a scale and zero point for each row."""
    found = np.subtract(as_dtype(x, scales.dtype), as_dtype(zeros, scales.dtype))
    return np.astype(np.multiply(found, scales), output_dtype)


def parameters_for_rows(x: Array, dtype: str) -> list[Array]:
    """Return scale (f64) and zero point (i64) for each row's range, to -128 … 127.

    Source: `qs8_quantization_params` of XNNPACK: the zero is rounded from the end of
    the range that is nearer to a level.
    """
    low, high = -128.0, 127.0
    least = np.minimum(np.min(x, -1, keepdims=True), 0.0)
    most = np.maximum(np.max(x, -1, keepdims=True), 0.0)
    scale = np.divide(np.subtract(most, least), high - low)
    scale = np.maximum(scale, 2.0**-23)
    below, above = np.divide(least, scale), np.divide(most, scale)
    is_above = np.greater(np.add(np.add(low, below), np.add(high, above)), 0.0)
    zero = np.where(is_above, np.subtract(low, below), np.subtract(high, above))
    levels = np.round(np.clip(zero, low, high))
    return [np.astype(scale, "f64"), np.astype(levels, "i64")]


def symmetric_parameters_for_rows(x: Array, dtype: str) -> list[Array]:
    """Return each row's symmetric scale to -127 … 127, and zero points of 0."""
    size = np.max(np.absolute(x), -1, keepdims=True)
    wide = np.astype(size, "f32") if size.dtype == "f16" else size
    scale = np.divide(np.maximum(wide, 1e-5), 127.0)
    return [scale, np.zeros_like(scale)]


def symmetric_parameters(
    x: Array, low: int, high: int, eps: float, dtype: str
) -> list[Array]:
    """Return symmetric scale and zero point (f64[1], i64[1]) for the range of x."""
    size = np.max(np.absolute(x))
    scale = np.divide(size, (high - low) / 2)
    scale = np.maximum(np.astype(scale, "f32"), float(eps))
    zero = 128 if dtype == "u8" else 0
    parts = np.astype(scale, "f64"), np.asarray(zero, "i64")
    return [np.reshape(part, (1,)) for part in parts]


def quantize_groups(
    x: Array,
    scales: Array,
    zeros: Array,
    low: int,
    high: int,
    dtype: str,
    group: int,
) -> Array:
    """Return x quantised with a scale for each group of a row."""
    rows = np.reshape(x, (-1, _group_size(x, scales, group)))
    step, zero = np.reshape(scales, (-1, 1)), np.reshape(zeros, (-1, 1))
    return np.reshape(quantize_per_token(rows, step, zero, low, high, dtype), x.shape)


def dequantize_groups(
    x: Array,
    scales: Array,
    zeros: Array | None,
    low: int,
    high: int,
    dtype: str,
    group: int,
    output_dtype: str,
) -> Array:
    """Return the floats of integers with a scale for each group of a row."""
    size = _group_size(x, scales, group)
    counts = (x.shape[0], x.shape[1] // size)
    zero = lift(0) if zeros is None else np.reshape(zeros, counts)
    step = as_dtype(np.reshape(scales, counts), accumulator(output_dtype))
    found = nn.dequantize(x, step, zero, axis=1, block=size)
    return np.astype(found, output_dtype)


def _group_size(x: Array, scales: Array, group: int) -> int:
    """Return the group size along a row: the whole row if it has one scale."""
    is_whole = group > x.shape[-1] and scales.shape[-1] == 1
    return static_size(x.shape[-1], "rows") if is_whole else group


def simulate_per_channel(
    x: Array, scales: Array, zeros: Array, axis: int, low: int, high: int
) -> Array:
    """Return x fake-quantised with a scale and zero point for each channel."""
    return simulate(x, scales, zeros, low, high, axis=axis)[0]


# ---- products -----------------------------------------------------------------------


def integer_product(a: Array, b: Array) -> Array:
    """Return the product of two matrices of 8-bit integers, in i32."""
    if a.dtype != b.dtype:  # u8 and i8, which have i16 in common
        a, b = np.astype(a, "i16"), np.astype(b, "i16")
    return dot_general(a, b, ((1,), (0,)), dtype="i32")


def product_by_levels(x: Array, levels: Array, scales: Array) -> Array:
    """Return x times the transpose of integers that have a scale for each row."""
    sums = np.matmul(x, np.transpose(np.astype(levels, x.dtype)))
    return np.multiply(sums, np.astype(scales, x.dtype))


_GRAPH = "quantized_decomposed"

OPS: dict[str, Callable[..., Any]] = {
    f"{_GRAPH}.quantize_per_tensor": quantize,
    f"{_GRAPH}.dequantize_per_tensor": dequantize,
    f"{_GRAPH}.quantize_per_channel": per_channel(quantize),
    f"{_GRAPH}.dequantize_per_channel": per_channel(dequantize),
    f"{_GRAPH}.choose_qparams": parameters_for,
    f"{_GRAPH}.choose_qparams_symmetric": symmetric_parameters,
    f"{_GRAPH}.quantize_per_token": quantize_per_token,
    f"{_GRAPH}.dequantize_per_token": dequantize_per_token,
    f"{_GRAPH}.choose_qparams_per_token": symmetric_parameters_for_rows,
    f"{_GRAPH}.choose_qparams_per_token_asymmetric": parameters_for_rows,
    f"{_GRAPH}._choose_qparams_per_token_asymmetric_impl": parameters_for_rows,
    f"{_GRAPH}.quantize_per_channel_group": quantize_groups,
    f"{_GRAPH}.dequantize_per_channel_group": dequantize_groups,
    f"{_GRAPH}.fake_quant_per_channel": simulate_per_channel,
    f"{_GRAPH}.convert_element_type": np.astype,
    "aten._int_mm": integer_product,
    "aten._weight_int8pack_mm": product_by_levels,
    "aten.fake_quantize_per_tensor_affine_cachemask": simulate,
    "aten.fake_quantize_per_channel_affine_cachemask": per_channel(simulate),
    "aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams": simulate_if,
}
