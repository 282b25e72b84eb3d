"""Sums of products: dot_general and convolution, in full generality."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from aotc import numpy as np
from aotc.complexes import Complex
from aotc.core import dtypes
from aotc.importers.stablehlo.operation import Op
from aotc.importers.stablehlo.ops.shapes import pad_with
from aotc.importers.stablehlo.values import (
    Value,
    array,
    as_known,
    as_pair,
    sizes,
)
from aotc.mlir import stablehlo
from aotc.tracing.array import Array
from aotc.tracing.tracing import emit

Bilinear = Callable[[Array, Array], Array]


def bilinear(function: Bilinear, lhs: Value, rhs: Value, dtype: str) -> Value:
    """Apply a bilinear function to two operands converted to a dtype, real or complex.

    The operands are converted first: the dtype of the result is that of the sums.
    """
    if not isinstance(lhs, Complex) and not isinstance(rhs, Complex):
        return function(np.astype(array(lhs), dtype), np.astype(array(rhs), dtype))
    z, w = (as_pair(x).map(lambda part: np.astype(part, dtype)) for x in (lhs, rhs))
    return Complex(
        function(z.real, w.real) - function(z.imag, w.imag),
        function(z.real, w.imag) + function(z.imag, w.real),
    )


def dot_general(op: Op, lhs: Value, rhs: Value) -> Value:
    """Return the contraction of lhs and rhs: batch axes, then free axes of lhs,
    of rhs.
    """
    numbers = stablehlo().DotDimensionNumbers(op.attribute("dot_dimension_numbers"))
    attributes: Any = {
        "lhs_batch": tuple(numbers.lhs_batching_dimensions),
        "rhs_batch": tuple(numbers.rhs_batching_dimensions),
        "lhs_contract": tuple(numbers.lhs_contracting_dimensions),
        "rhs_contract": tuple(numbers.rhs_contracting_dimensions),
    }
    product = _with_bools(lambda x, y: emit("dot_general", x, y, **attributes))
    return bilinear(product, lhs, rhs, op.kind.dtype)


def dot(op: Op, lhs: Value, rhs: Value) -> Value:
    """Return the product of vectors and matrices."""
    return bilinear(_with_bools(np.dot), lhs, rhs, op.kind.dtype)


def _with_bools(function: Bilinear) -> Bilinear:
    """Wrap a bilinear function to take bools, with `or` in the place of a sum."""

    def product(x: Array, y: Array) -> Array:
        if x.dtype != "bool":
            return function(x, y)
        return np.not_equal(function(np.astype(x, "i32"), np.astype(y, "i32")), 0)

    return product


# ---- convolution --------------------------------------------------------------------


@dataclass(frozen=True)
class _ConvolutionWindow:
    """The strides, padding and dilations of a convolution; images are N,
    spatial…, C.
    """

    strides: tuple[int, ...]
    padding: tuple[Any, ...]  # low and high for each axis in turn
    gaps: tuple[int, ...]  # between elements of the image
    dilation: tuple[int, ...]
    turned: tuple[int, ...]  # axes of the kernel that are read backwards
    groups: int
    batch_groups: int


def convolution(op: Op, lhs: Value, rhs: Value) -> Value:
    """Return a convolution with any layout, dilation and groups."""
    rank = len(op.kind.shape) - 2
    padding = op.ints("padding", (0,) * (2 * rank))
    return _convolution(op, lhs, rhs, padding)


def dynamic_conv(op: Op, lhs: Value, rhs: Value, padding: Value) -> Value:
    """Return a convolution with a padding operand, which must be known at import."""
    return _convolution(op, lhs, rhs, sizes(padding))


def _convolution(op: Op, lhs: Value, rhs: Value, padding: tuple[object, ...]) -> Value:
    """Return the result of a convolution op with this padding."""
    shape: tuple[Any, ...] = op.kind.shape
    if 0 in shape:  # a kernel may be larger than the image
        return bilinear(lambda x, y: np.zeros(shape, x.dtype), lhs, rhs, op.kind.dtype)
    ones = (1,) * (len(op.kind.shape) - 2)
    window = _ConvolutionWindow(
        strides=op.ints("window_strides", ones),
        padding=padding,
        gaps=tuple(n - 1 for n in op.ints("lhs_dilation", ones)),
        dilation=op.ints("rhs_dilation", ones),
        turned=tuple(i for i, n in enumerate(op.ints("window_reversal")) if n),
        groups=op.integer("feature_group_count", 1),
        batch_groups=op.integer("batch_group_count", 1),
    )
    axes = stablehlo().ConvDimensionNumbers(op.attribute("dimension_numbers"))

    def convolve(x: Array, kernel: Array) -> Array:
        x = np.transpose(x, _image_axes(axes, "input"))
        order = (
            *axes.kernel_spatial_dimensions,
            axes.kernel_input_feature_dimension,
            axes.kernel_output_feature_dimension,
        )
        y = _convolve_channels_last(x, np.transpose(kernel, order), window)
        placed = _image_axes(axes, "output")
        return np.transpose(y, [placed.index(axis) for axis in range(y.ndim)])

    return bilinear(_with_bools(convolve), lhs, rhs, op.kind.dtype)


def _image_axes(axes: object, side: str) -> list[int]:
    """Return an image's batch axis, spatial axes and feature axis, in this order."""
    return [
        getattr(axes, f"{side}_batch_dimension"),
        *getattr(axes, f"{side}_spatial_dimensions"),
        getattr(axes, f"{side}_feature_dimension"),
    ]


def _convolve_channels_last(
    x: Array, kernel: Array, window: _ConvolutionWindow
) -> Array:
    """Return the convolution of an image N, spatial…, C with a kernel."""
    if window.turned:
        kernel = np.flip(kernel, window.turned)
    groups = window.groups
    if window.batch_groups > 1:
        x, groups = _batches_as_features(x, window.batch_groups), window.batch_groups
    low, high = window.padding[::2], window.padding[1::2]
    if any(window.gaps) or any(isinstance(n, int) and n < 0 for n in window.padding):
        zero, none = as_known(0, "i32"), (0,)
        x = pad_with(x, zero, (0, *low, 0), (0, *high, 0), none + window.gaps + none)
        low = high = (0,) * len(low)
    if _is_plain(x, kernel, low + high):
        return emit(
            "conv_general",
            x,
            kernel,
            strides=window.strides,
            padding=tuple(n for pair in zip(low, high, strict=True) for n in pair),
            dilation=window.dilation,
            groups=groups,
        )
    x = pad_with(x, as_known(0, "i32"), (0, *low, 0), (0, *high, 0), (0,) * x.ndim)
    return _by_windows(x, kernel, window, groups)


def _is_plain(x: Array, kernel: Array, padding: Sequence[object]) -> bool:
    """Return whether the graph's convolution op can compute a convolution."""
    fixed = all(isinstance(n, int) for n in (*kernel.shape, *padding))
    filled = fixed and 0 not in (*kernel.shape, *x.shape)
    return filled and x.ndim in (3, 4, 5) and dtypes.is_float(x.dtype)


def _batches_as_features(x: Array, groups: int) -> Array:
    """Return (G N, …, C) as (N, …, G C): group g of the batch becomes features."""
    count, *spatial, channels = x.shape
    split = np.reshape(x, (groups, count // groups, *spatial, channels))
    moved = np.moveaxis(split, 0, -2)
    return np.reshape(moved, (count // groups, *spatial, groups * channels))


def _by_windows(
    x: Array, kernel: Array, window: _ConvolutionWindow, groups: int
) -> Array:
    """Return a convolution as the product of extracted windows with the kernel."""
    rank = x.ndim - 2
    if rank:
        inner = tuple(int(n) for n in kernel.shape[:rank])
        steps = {"strides": window.strides, "dilation": window.dilation}
        x = emit("windows", x, window=inner, **steps)
    per_group = x.shape[-1] // groups
    outputs = kernel.shape[-1] // groups
    lead = x.shape[: 1 + rank]
    x = np.reshape(x, (*x.shape[:-1], groups, per_group))
    kernel = np.reshape(kernel, (*kernel.shape[:-1], groups, outputs))
    summed = tuple(range(rank))
    y = emit(
        "dot_general",
        x,
        kernel,
        lhs_batch=(x.ndim - 2,),
        rhs_batch=(rank + 1,),
        lhs_contract=(*(1 + rank + axis for axis in summed), x.ndim - 1),
        rhs_contract=(*summed, rank),
    )
    return np.reshape(np.moveaxis(y, 0, -2), (*lead, groups * outputs))


OPS: dict[str, Callable[..., Any]] = {
    "stablehlo.convolution": convolution,
    "stablehlo.dot": dot,
    "stablehlo.dot_general": dot_general,
    "stablehlo.dynamic_conv": dynamic_conv,
}
