"""Quantised operators of ONNX Runtime, as its quantiser and its exporters write them.

Source: ContribOperators.md of microsoft/onnxruntime. Those that quantise their result
are the floats' operator between DequantizeLinear and QuantizeLinear, with scales that
are scalars; a zero point that is left out is 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aotc import nn
from aotc import numpy as np
from aotc.core import dtypes
from aotc.importers.onnx.calling import Imports
from aotc.importers.onnx.ops.activations import leaky_relu, softmax
from aotc.importers.onnx.ops.geometry import Pooling
from aotc.importers.onnx.ops.pooling import average_pool, global_average_pool
from aotc.importers.onnx.ops.quantization import (
    dequantize_linear,
    matmul_integer,
    quantize_linear,
)
from aotc.importers.onnx.values import element_of
from aotc.nn.packed_integers import unpack
from aotc.tracing.array import Array
from aotc.tracing.source_locations import fail

# ---- a float operator between integers ----------------------------------------------


def _quantize(y: Array, scale: Array, zero_point: Array | None, like: Array) -> Array:
    """Return floats quantised to the zero point's type, or without one that of
    `like`.
    """
    code = element_of(like)
    return quantize_linear(y, scale, zero_point, output_dtype=code)


def _unary(function: Callable[..., Array]) -> Imports:
    """Return the import function of a quantised operator of one array, given the float
    one.
    """

    def call(
        x: Array,
        x_scale: Array,
        x_zero: Array | None,
        y_scale: Array,
        y_zero: Array | None = None,
    ) -> Array:
        y = function(dequantize_linear(x, x_scale, x_zero))
        return _quantize(y, y_scale, y_zero, x)

    return call


def _binary(function: Callable[..., Array]) -> Imports:
    """Return the import function of a quantised operator of two arrays, given the float
    one.
    """

    def call(
        a: Array,
        a_scale: Array,
        a_zero: Array | None,
        b: Array,
        b_scale: Array,
        b_zero: Array | None,
        y_scale: Array,
        y_zero: Array | None = None,
    ) -> Array:
        left = dequantize_linear(a, a_scale, a_zero)
        right = dequantize_linear(b, b_scale, b_zero)
        return _quantize(function(left, right), y_scale, y_zero, a)

    return call


def qlinear_leaky_relu(
    x: Array,
    x_scale: Array,
    x_zero: Array | None,
    y_scale: Array,
    y_zero: Array | None = None,
    *,
    alpha: float = 0.01,
) -> Array:
    """Return quantised x, multiplied by alpha below 0, requantised."""
    y = leaky_relu(dequantize_linear(x, x_scale, x_zero), alpha=alpha)
    return _quantize(y, y_scale, y_zero, x)


def qlinear_softmax(
    x: Array,
    x_scale: Array,
    x_zero: Array | None,
    y_scale: Array,
    y_zero: Array,
    *,
    opset: int,
    axis: int = -1,
) -> Array:
    """Return the softmax of quantised x, quantised; `opset` says which Softmax."""
    y = softmax(dequantize_linear(x, x_scale, x_zero), axis=axis, opset=opset)
    return _quantize(y, y_scale, y_zero, x)


def qlinear_global_average_pool(
    x: Array,
    x_scale: Array,
    x_zero: Array,
    y_scale: Array,
    y_zero: Array,
    *,
    channels_last: int = 0,
) -> Array:
    """Return the mean of a quantised image over the spatial axes, quantised."""
    real = dequantize_linear(x, x_scale, x_zero)
    if channels_last:
        y = np.mean(real, tuple(range(1, x.ndim - 1)), keepdims=True)
    else:
        y = global_average_pool(real)
    return _quantize(y, y_scale, y_zero, x)


def qlinear_average_pool(
    x: Array,
    x_scale: Array,
    x_zero: Array | None,
    y_scale: Array,
    y_zero: Array | None = None,
    *,
    geometry: Pooling,
    count_include_pad: int = 0,
    channels_last: int = 0,
) -> Array:
    """Return the mean of each window of a quantised image, quantised."""
    real = dequantize_linear(x, x_scale, x_zero)
    if channels_last:
        padded = bool(count_include_pad)
        y = nn.avg_pool(real, count_include_pad=padded, **geometry.windows())
    else:
        y = average_pool(real, geometry=geometry, count_include_pad=count_include_pad)
    return _quantize(y, y_scale, y_zero, x)


def qlinear_concat(y_scale: Array, y_zero: Array, *parts: Array, axis: int) -> Array:
    """Return the concatenation of quantised arrays, requantised to one scale."""
    real = [
        dequantize_linear(*parts[start : start + 3])
        for start in range(0, len(parts), 3)
    ]
    return _quantize(np.concatenate(real, axis), y_scale, y_zero, y_zero)


def qlinear_where(
    condition: Array,
    x: Array,
    x_scale: Array,
    x_zero: Array,
    y: Array,
    y_scale: Array,
    y_zero: Array,
    z_scale: Array,
    z_zero: Array,
) -> Array:
    """Return quantised x where a condition holds, else quantised y, requantised."""
    first = dequantize_linear(x, x_scale, x_zero)
    second = dequantize_linear(y, y_scale, y_zero)
    return _quantize(np.where(condition, first, second), z_scale, z_zero, x)


# ---- products of integers -----------------------------------------------------------


def matmul_integer_to_float(
    a: Array,
    b: Array,
    a_scale: Array,
    b_scale: Array,
    a_zero: Array | None = None,
    b_zero: Array | None = None,
    bias: Array | None = None,
) -> Array:
    """Return the product of two quantised arrays, as floats."""
    total = matmul_integer(a, b, a_zero, b_zero)
    scale = np.multiply(_scalar(a_scale), _scalar(b_scale))
    y = np.multiply(np.astype(total, scale.dtype), scale)
    return y if bias is None else np.add(y, bias)


def _scalar(x: Array) -> Array:
    """Return an array of shape (1,) as a scalar; others as they are."""
    return np.reshape(x, ()) if x.shape == (1,) else x


def dynamic_quantize_matmul(
    a: Array,
    b: Array,
    b_scale: Array,
    b_zero: Array | None = None,
    bias: Array | None = None,
) -> Array:
    """Return the product of an array, quantised to u8 by its range, and a quantised
    one.
    """
    scale, zero_point = nn.quantization_scale(np.min(a), np.max(a), "u8")
    levels = nn.quantize(a, scale, zero_point, "u8")
    zero = np.astype(zero_point, "u8")
    return matmul_integer_to_float(levels, b, scale, b_scale, zero, b_zero, bias)


def qgemm(
    a: Array,
    a_scale: Array,
    a_zero: Array,
    b: Array,
    b_scale: Array,
    b_zero: Array,
    c: Array | None = None,
    y_scale: Array | None = None,
    y_zero: Array | None = None,
    *,
    alpha: float = 1.0,
    transA: int = 0,  # noqa: N803 - ONNX's name
    transB: int = 0,  # noqa: N803
) -> Array:
    """Return `alpha a b + c` of quantised matrices, quantised or as floats."""
    left = np.transpose(a) if transA else a
    right = np.transpose(b) if transB else b
    total = matmul_integer(left, right, a_zero, b_zero)
    if c is not None:
        total = np.add(total, c)
    scale = np.multiply(_scalar(a_scale), _scalar(b_scale))
    y = np.multiply(np.astype(total, "f32"), np.multiply(scale, alpha))
    return y if y_scale is None else _quantize(y, y_scale, y_zero, a)


def qattention(
    x: Array,
    weight: Array,
    bias: Array,
    x_scale: Array,
    weight_scale: Array,
    mask_index: Array | None = None,
    x_zero: Array | None = None,
    weight_zero: Array | None = None,
    past: Array | None = None,
    *,
    num_heads: int,
    unidirectional: int = 0,
    scale: float = 0.0,
    mask_filter_value: float = -10000.0,
    do_rotary: int = 0,
    past_present_share_buffer: int = 0,
) -> tuple[Array, Array]:
    """Return self-attention of projected quantised rows, and its keys and values."""
    if do_rotary or past_present_share_buffer:
        fail("unsupported-ops", "QAttention with rotary embeddings or a shared buffer")
    if mask_index is not None and mask_index.ndim > 2:
        fail("unsupported-ops", "QAttention with a mask of more than two axes")
    rows = matmul_integer_to_float(
        x, weight, x_scale, weight_scale, x_zero, weight_zero, bias
    )
    batch, length, features = rows.shape
    heads = (batch, length, 3, num_heads, features // (3 * num_heads))
    q, k, v = (np.squeeze(part, 2) for part in np.split(np.reshape(rows, heads), 3, 2))
    if past is not None:
        before = np.swapaxes(past, 2, 3)
        k = np.concatenate([before[0], k], 1)
        v = np.concatenate([before[1], v], 1)
    found = nn.attention(
        q,
        k,
        v,
        bias=_score_mask(
            mask_index, length, k.shape[1], mask_filter_value, unidirectional
        ),
        scale=scale or None,
    )
    y = np.reshape(found, (batch, length, features // 3))
    return y, np.stack([np.swapaxes(k, 1, 2), np.swapaxes(v, 1, 2)])


def _score_mask(
    mask: Array | None, length: Any, positions: Any, least: float, is_causal: int
) -> Array | None:
    """Return the mask to add to attention scores; None if every position is visible.

    Args:
        mask: of each row how many positions it has, or which are not 0.
        length: of the rows.
        positions: how many there are.
        least: what is added.
        is_causal: whether positions after a row's own are not seen.
    """
    along = np.arange(positions, dtype="i32")
    added: list[Array] = []
    if is_causal:
        own = np.add(np.arange(length, dtype="i32"), np.subtract(positions, length))
        added.append(np.less_equal(along, np.expand_dims(own, -1)))
    if mask is not None:
        is_count = mask.ndim == 1
        counted = np.less(along, np.expand_dims(mask, -1)) if is_count else mask != 0
        added.append(np.expand_dims(counted, (1, 2)))
    if not added:
        return None
    parts = [np.where(kept, 0.0, least) for kept in added]
    found = parts[0] if len(parts) == 1 else np.add(*parts)
    return found if found.ndim == 4 else np.expand_dims(found, (0, 1))


# ---- weights in blocks of few bits --------------------------------------------------


def matmul_n_bits(
    a: Array,
    b: Array,
    scales: Array,
    zero_points: Array | None = None,
    g_idx: Array | None = None,
    bias: Array | None = None,
    *,
    K: int,  # noqa: N803 - ONNX Runtime's names
    N: int,  # noqa: N803
    block_size: int,
    bits: int = 4,
    accuracy_level: int = 0,
    weight_prepacked: int = 0,
) -> Array:
    """Return `a` times the transpose of `b`, a weight quantised in blocks of inputs.

    `accuracy_level` allows a runtime to round `a` to fewer bits, which nothing does
    here.
    """
    if weight_prepacked:
        fail("unsupported-ops", "weights that are packed for a GPU")
    _require_bits(bits)
    blocks = -(-K // block_size)
    levels = unpack(np.reshape(b, (N, blocks * block_size * bits // 8)), bits)
    scale = np.reshape(scales, (N, blocks))
    zero: Array | int = 2 ** (bits - 1)
    if zero_points is not None and dtypes.is_float(zero_points.dtype):
        zero = np.reshape(zero_points, (N, blocks))
    elif zero_points is not None:
        packed = np.reshape(zero_points, (N, -(-blocks * bits // 8)))
        zero = unpack(packed, bits)[:, :blocks]
    if g_idx is not None:
        groups = g_idx[:K]
        scale = np.take(scale, groups, 1)
        zero = zero if isinstance(zero, int) else np.take(zero, groups, 1)
        block_size = 1
    weights = nn.dequantize(levels[:, :K], scale, zero, axis=1, block=block_size)
    y = np.matmul(a, np.transpose(weights))
    return y if bias is None else np.add(y, bias)


def _require_bits(bits: int) -> None:
    """Refuse a bit width that is not supported."""
    if bits not in (2, 4, 8):
        fail(
            "unsupported-ops",
            f"weights of {bits} bits",
            "quantise them to 2, 4 or 8",
        )


def gather_block_quantized(
    data: Array,
    indices: Array,
    scales: Array,
    zero_points: Array | None = None,
    *,
    bits: int = 4,
    block_size: int = 128,
    gather_axis: int = 0,
    quantize_axis: int = 1,
) -> Array:
    """Return elements of a block-quantised table at indices; zeros out of bounds."""
    levels, zero = data, zero_points
    default: Array | int = 0
    if element_of(data) == _BYTES:
        _require_bits(bits)
        levels, default = unpack(data, bits), 2 ** (bits - 1)
        if zero is not None:
            count = scales.shape[-1]
            zero = unpack(zero, bits)[..., :count]
    table = nn.dequantize(
        levels,
        scales,
        default if zero is None else zero,
        axis=quantize_axis,
        block=block_size,
    )
    return np.take(table, indices, gather_axis, mode="fill", fill_value=0.0)


_BYTES = 2  # TensorProto.UINT8

_DOMAIN = "com.microsoft"

TABLE: dict[str, Imports] = {
    f"{_DOMAIN}.DequantizeLinear": dequantize_linear,
    f"{_DOMAIN}.DynamicQuantizeMatMul": dynamic_quantize_matmul,
    f"{_DOMAIN}.GatherBlockQuantized": gather_block_quantized,
    f"{_DOMAIN}.MatMulIntegerToFloat": matmul_integer_to_float,
    f"{_DOMAIN}.MatMulNBits": matmul_n_bits,
    f"{_DOMAIN}.QAttention": qattention,
    f"{_DOMAIN}.QGemm": qgemm,
    f"{_DOMAIN}.QLinearAdd": _binary(np.add),
    f"{_DOMAIN}.QLinearAveragePool": qlinear_average_pool,
    f"{_DOMAIN}.QLinearConcat": qlinear_concat,
    f"{_DOMAIN}.QLinearGlobalAveragePool": qlinear_global_average_pool,
    f"{_DOMAIN}.QLinearLeakyRelu": qlinear_leaky_relu,
    f"{_DOMAIN}.QLinearMul": _binary(np.multiply),
    f"{_DOMAIN}.QLinearSigmoid": _unary(nn.sigmoid),
    f"{_DOMAIN}.QLinearSoftmax": qlinear_softmax,
    f"{_DOMAIN}.QLinearWhere": qlinear_where,
    f"{_DOMAIN}.QuantizeLinear": quantize_linear,
}
