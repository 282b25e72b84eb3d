"""Quantised values: conversion, and products of small integers."""

from __future__ import annotations

from typing import Any

from aotc import dtypes, nn
from aotc import numpy as np
from aotc.dialects.types import Size
from aotc.importers.onnx.calling import Imports
from aotc.importers.onnx.elements import Element, code_of, element
from aotc.importers.onnx.ops.images import (
    channels_first,
    channels_last,
    kernel_last,
    per_axis,
)
from aotc.importers.onnx.ops.images import padding as padding_of
from aotc.importers.onnx.ops.narrow import rounded
from aotc.importers.onnx.values import element_of, tagged
from aotc.tracing.array import Array

Ints = tuple[int, ...]


def _along(part: Array, x: Array, axis: int, block: int) -> Array:
    """A scale shaped to broadcast with x: of all, of an axis, or of blocks of it."""
    if part.ndim == 0 or part.shape == (1,):
        return np.reshape(part, ())
    place = axis % x.ndim
    if part.ndim == 1:
        return np.reshape(part, [n if i == place else 1 for i, n in enumerate(x.shape)])
    if part.shape == x.shape:
        return part
    size: Size = x.shape[place]
    wide = np.repeat(part, block or -(-size // part.shape[place]), place)
    key: list[Any] = [slice(None)] * x.ndim
    key[place] = slice(0, size)
    return wide[tuple(key)]


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
    """round(x / scale) + zero point, in the type of the zero point."""
    code = output_dtype or code_of("u8")
    if zero_point is not None:
        code = element_of(zero_point)
    kind = element(code)
    working = element(precision).dtype if precision else scale.dtype
    step = np.astype(_along(scale, x, axis, block_size), working)
    ratio = np.divide(np.astype(x, working), step)
    if kind.is_narrow_float:
        found = rounded(np.astype(ratio, "f32"), kind, bool(saturate))
        return tagged(found, kind, code)
    whole = np.rint(np.astype(ratio, "f32"))
    if zero_point is not None:
        offset = np.astype(_along(zero_point, x, axis, block_size), "f32")
        whole = np.add(whole, offset)
    low, high = _bounds(kind)
    return tagged(np.astype(np.clip(whole, low, high), kind.dtype), kind, code)


def _bounds(kind: Element) -> tuple[float, float]:
    if kind.dtype in dtypes.UNSIGNED:
        return 0.0, 2.0**kind.bits - 1
    return -(2.0 ** (kind.bits - 1)), 2.0 ** (kind.bits - 1) - 1


def dequantize_linear(
    x: Array,
    scale: Array,
    zero_point: Array | None = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
) -> Array:
    """(x - zero point) * scale."""
    step = _along(scale, x, axis, block_size)
    values = x
    if zero_point is not None:
        offset = _along(zero_point, x, axis, block_size)
        if not dtypes.is_float(x.dtype):
            values, offset = np.astype(x, "i32"), np.astype(offset, "i32")
        values = np.subtract(values, offset)
    dtype = element(output_dtype).dtype if output_dtype else scale.dtype
    working = "f32" if dtypes.is_float(x.dtype) else scale.dtype
    found = np.multiply(np.astype(values, working), np.astype(step, working))
    return np.astype(found, dtype)


# ---- products -----------------------------------------------------------------------


def _offset(x: Array, zero_point: Array | None, axis: int) -> Array:
    """`x` - zero point, exactly."""
    wide = np.astype(x, "i32")
    if zero_point is None:
        return wide
    point = np.astype(zero_point, "i32")
    if point.ndim == 1 and point.shape != (1,):
        sizes = [-1 if i == axis % x.ndim else 1 for i in range(x.ndim)]
        point = np.reshape(point, sizes)
    elif point.ndim <= 1:
        point = np.reshape(point, ())
    return np.subtract(wide, point)


def matmul_integer(
    a: Array, b: Array, a_zero: Array | None = None, b_zero: Array | None = None
) -> Array:
    """The product of two matrices of small integers, in i32."""
    left = _offset(a, a_zero, -2 if a.ndim > 1 else 0)
    return np.matmul(left, _offset(b, b_zero, -1))


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
    """The product of two quantised matrices, quantised."""
    total = matmul_integer(a, b, a_zero, b_zero)
    rows = np.expand_dims(a_scale, -1) if _is_vector(a_scale) else _scalar(a_scale)
    factor = np.divide(np.multiply(rows, _scalar(b_scale)), _scalar(y_scale))
    return _requantized(total, factor, y_zero)


def _is_vector(x: Array) -> bool:
    return x.ndim == 1 and x.shape != (1,)


def _scalar(x: Array) -> Array:
    return np.reshape(x, ()) if x.shape == (1,) else x


def _requantized(total: Array, factor: Array, zero_point: Array) -> Array:
    kind = element(element_of(zero_point))
    scaled = np.rint(np.multiply(np.astype(total, "f32"), np.astype(factor, "f32")))
    whole = np.add(scaled, np.astype(_scalar(zero_point), "f32"))
    low, high = _bounds(kind)
    found = np.astype(np.clip(whole, low, high), kind.dtype)
    return tagged(found, kind, element_of(zero_point))


def conv_integer(
    x: Array,
    kernel: Array,
    x_zero: Array | None = None,
    kernel_zero: Array | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: Ints = (),
    group: int = 1,
    kernel_shape: Ints = (),
    pads: Ints = (),
    strides: Ints = (),
) -> Array:
    """The convolution of small integers, in i32."""
    spatial = x.ndim - 2
    one = np.ones((), "f32")
    nothing = np.zeros((), "i32")
    y = nn.quantized_conv(
        channels_last(x),
        kernel_last(kernel),
        one,
        one,
        nothing if x_zero is None else _scalar(x_zero),
        nothing if kernel_zero is None else _scalar(kernel_zero),
        strides=per_axis(strides, spatial),
        padding=padding_of(auto_pad, pads, spatial),
        dilation=per_axis(dilations, spatial),
        groups=group,
    )
    return np.astype(channels_first(y), "i32")


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
    auto_pad: str = "NOTSET",
    dilations: Ints = (),
    group: int = 1,
    kernel_shape: Ints = (),
    pads: Ints = (),
    strides: Ints = (),
) -> Array:
    """The convolution of a quantised image and kernel, quantised."""
    total = conv_integer(
        x,
        kernel,
        x_zero,
        kernel_zero,
        auto_pad=auto_pad,
        dilations=dilations,
        group=group,
        pads=pads,
        strides=strides,
    )
    sizes = (-1, *[1] * (x.ndim - 2))
    if bias is not None:
        total = np.add(total, np.reshape(bias, sizes))
    scale = np.divide(np.multiply(_scalar(x_scale), kernel_scale), _scalar(y_scale))
    factor = np.reshape(scale, sizes) if _is_vector(scale) else _scalar(scale)
    return _requantized(total, factor, y_zero)


TABLE: dict[str, Imports] = {
    "ConvInteger": conv_integer,
    "DequantizeLinear": dequantize_linear,
    "MatMulInteger": matmul_integer,
    "QLinearConv": qlinear_conv,
    "QLinearMatMul": qlinear_matmul,
    "QuantizeLinear": quantize_linear,
}
