"""Quantised values: conversion, and products of small integers."""

from __future__ import annotations

from typing import Any

from aotc import nn
from aotc import numpy as np
from aotc.core import dtypes
from aotc.importers.common.channels import (
    apply_channels_last,
    kernel_last,
    over_channels,
)
from aotc.importers.onnx.calling import Imports
from aotc.importers.onnx.elements import code_of, element
from aotc.importers.onnx.ops.geometry import Convolution
from aotc.importers.onnx.ops.narrow import round_to_narrow
from aotc.importers.onnx.values import element_of, with_element_type
from aotc.nn.quantizing import broadcast_along
from aotc.nn.spatial import static_size
from aotc.numpy.products import dot_general
from aotc.tracing.array import Array
from aotc.tracing.conversion import ArrayLike


def quantize_linear(
    x: Array,
    scale: Array,
    zero_point: Array | None = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
    precision: int = 0,
    saturate: int = 1,
) -> Array:
    """Return round(x / scale) + zero point, in the type of the zero point."""
    code = output_dtype or code_of("u8")
    if zero_point is not None:
        code = element_of(zero_point)
    kind = element(code)
    working = element(precision).dtype if precision else scale.dtype
    values, step = np.astype(x, working), np.astype(_scalar(scale), working)
    granularity = _granularity(x, step, axis, block_size)
    if kind.is_narrow_float:
        ratio = np.divide(values, broadcast_along(step, x, **granularity))
        return with_element_type(
            round_to_narrow(np.astype(ratio, "f32"), kind, bool(saturate)), kind, code
        )
    offset = 0 if zero_point is None else _scalar(zero_point)
    return _quantize(values, step, offset, code, **granularity)


def _granularity(x: Array, scale: Array, axis: int, block_size: int) -> dict[str, int]:
    """Return quantisation options: the axis, and block size if any, that scales vary
    along.
    """
    if scale.ndim < 2:
        return {"axis": axis}
    size, count = x.shape[axis], scale.shape[axis]
    if block_size or size == count:
        return {"axis": axis, "block": block_size or 1}
    length = static_size(size, "quantised axis, for blocks without a block_size,")
    return {"axis": axis, "block": -(-length // max(static_size(count, "scale"), 1))}


def _quantize(
    x: Array, scale: ArrayLike, zero_point: ArrayLike, code: int, **granularity: int
) -> Array:
    """Return x quantised to ONNX's integer element type number `code`."""
    kind = element(code)
    options: dict[str, Any] = {"bits": kind.bits, **granularity}
    return with_element_type(
        nn.quantize(x, scale, zero_point, kind.dtype, **options), kind, code
    )


def dequantize_linear(
    x: Array,
    scale: Array,
    zero_point: Array | None = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
) -> Array:
    """Return (x - zero point) * scale as floats."""
    step = (
        np.astype(_scalar(scale), "f32") if dtypes.is_float(x.dtype) else _scalar(scale)
    )
    offset = 0 if zero_point is None else _scalar(zero_point)
    found = nn.dequantize(x, step, offset, **_granularity(x, step, axis, block_size))
    return np.astype(
        found, element(output_dtype).dtype if output_dtype else scale.dtype
    )


# ---- products -----------------------------------------------------------------------


def _subtract_zero_point(x: Array, zero_point: Array | None, axis: int) -> Array:
    """Return 8-bit integers less their zero point, as i16, which holds it exactly."""
    wide = np.astype(x, "i16")
    if zero_point is None:
        return wide
    point = np.astype(zero_point, "i16")
    if point.ndim == 1 and point.shape != (1,):
        sizes = [-1 if i == axis % x.ndim else 1 for i in range(x.ndim)]
        point = np.reshape(point, sizes)
    elif point.ndim <= 1:
        point = np.reshape(point, ())
    return np.subtract(wide, point)


def matmul_integer(
    a: Array, b: Array, a_zero: Array | None = None, b_zero: Array | None = None
) -> Array:
    """Return the product of two matrices of 8-bit integers, in i32."""
    left = _subtract_zero_point(a, a_zero, -2 if a.ndim > 1 else 0)
    right = _subtract_zero_point(b, b_zero, -1)
    if not a.ndim or b.ndim != 2:
        return np.matmul(np.astype(left, "i32"), np.astype(right, "i32"))
    return dot_general(left, right, ((a.ndim - 1,), (0,)), dtype="i32")


def qlinear_matmul(
    a: Array,
    a_scale: Array,
    a_zero: Array,
    b: Array,
    b_scale: Array,
    b_zero: Array,
    y_scale: Array,
    y_zero: Array,
) -> Array:
    """Return the product of two quantised matrices, quantised."""
    total = matmul_integer(a, b, a_zero, b_zero)
    rows = np.expand_dims(a_scale, -1) if _is_vector(a_scale) else _scalar(a_scale)
    factor = np.divide(np.multiply(rows, _scalar(b_scale)), _scalar(y_scale))
    return _requantize(total, factor, y_zero)


def _is_vector(x: Array) -> bool:
    """Return whether a scale or zero point varies along an axis."""
    return x.ndim == 1 and x.shape != (1,)


def _scalar(x: Array) -> Array:
    """Return an array of shape (1,) as a scalar; others as they are."""
    return np.reshape(x, ()) if x.shape == (1,) else x


def _requantize(total: Array, factor: Array, zero_point: Array) -> Array:
    """Return an i32 accumulator scaled and quantised to the type of the zero point."""
    scaled = np.multiply(np.astype(total, "f32"), np.astype(factor, "f32"))
    return _quantize(scaled, 1.0, _scalar(zero_point), element_of(zero_point))


def conv_integer(
    x: Array,
    kernel: Array,
    x_zero: Array | None = None,
    kernel_zero: Array | None = None,
    *,
    geometry: Convolution,
) -> Array:
    """Return the convolution of 8-bit integers, in i32."""
    return apply_channels_last(
        nn.integer_conv,
        x,
        kernel_last(kernel),
        0 if x_zero is None else _scalar(x_zero),
        0 if kernel_zero is None else _scalar(kernel_zero),
        groups=geometry.group,
        **geometry.steps(x.ndim - 2),
    )


def qlinear_conv(
    x: Array,
    x_scale: Array,
    x_zero: Array,
    kernel: Array,
    kernel_scale: Array,
    kernel_zero: Array,
    y_scale: Array,
    y_zero: Array,
    bias: Array | None = None,
    *,
    geometry: Convolution,
) -> Array:
    """Return the convolution of a quantised image and kernel, quantised."""
    total = conv_integer(x, kernel, x_zero, kernel_zero, geometry=geometry)
    if bias is not None:
        total = np.add(total, over_channels(bias, x))
    scale = np.divide(np.multiply(_scalar(x_scale), kernel_scale), _scalar(y_scale))
    factor = over_channels(scale, x) if _is_vector(scale) else _scalar(scale)
    return _requantize(total, factor, y_zero)


TABLE: dict[str, Imports] = {
    "ConvInteger": conv_integer,
    "DequantizeLinear": dequantize_linear,
    "MatMulInteger": matmul_integer,
    "QLinearConv": qlinear_conv,
    "QLinearMatMul": qlinear_matmul,
    "QuantizeLinear": quantize_linear,
}
