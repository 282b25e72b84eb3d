"""Convolutions."""

from __future__ import annotations

from collections.abc import Sequence

from aotc import nn
from aotc import numpy as np
from aotc.dialects.types import Size
from aotc.importers.onnx.calling import Imports
from aotc.importers.onnx.ops.images import (
    channels_first,
    channels_last,
    kernel_last,
    over_channels,
    padding,
    per_axis,
)
from aotc.tracing.array import Array

Ints = tuple[int, ...]


def conv(
    x: Array,
    kernel: Array,
    bias: Array | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: Ints = (),
    group: int = 1,
    kernel_shape: Ints = (),
    pads: Ints = (),
    strides: Ints = (),
) -> Array:
    """Convolution of N, C, spatial… with F, C / groups, spatial…"""
    spatial = x.ndim - 2
    y = nn.conv(
        channels_last(x),
        kernel_last(kernel),
        bias,
        strides=per_axis(strides, spatial),
        padding=padding(auto_pad, pads, spatial),
        dilation=per_axis(dilations, spatial),
        groups=group,
    )
    return channels_first(y)


def conv_transpose(
    x: Array,
    kernel: Array,
    bias: Array | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: Ints = (),
    group: int = 1,
    kernel_shape: Ints = (),
    output_padding: Ints = (),
    output_shape: Ints = (),
    pads: Ints = (),
    strides: Ints = (),
) -> Array:
    """The transpose of a convolution; the kernel is C, F / groups, spatial…"""
    spatial = x.ndim - 2
    window = [n.__index__() for n in kernel.shape[2:]]
    steps, spread = per_axis(strides, spatial), per_axis(dilations, spatial)
    more = tuple(output_padding) or (0,) * spatial
    spans = [d * (w - 1) + 1 for d, w in zip(spread, window, strict=True)]
    cut = _cut(x, spans, steps, more, output_shape[-spatial:], auto_pad)
    given = padding("NOTSET", pads, spatial)
    y = nn.conv_transpose(
        channels_last(x),
        _transposed_kernel(kernel, group),
        None,
        strides=steps,
        padding=given if cut is None else cut,
        output_padding=more,
        dilation=spread,
        groups=group,
    )
    y = channels_first(y)
    return y if bias is None else np.add(y, over_channels(bias, y))


def _cut(
    x: Array,
    spans: Sequence[int],
    strides: Sequence[int],
    more: Sequence[int],
    wanted: Sequence[int],
    auto_pad: str,
) -> list[tuple[Size, Size]] | None:
    """What is cut from each side to get a wanted size; None if the node says it."""
    if not wanted and auto_pad not in ("SAME_UPPER", "SAME_LOWER"):
        return None
    sides: list[tuple[Size, Size]] = []
    for axis, (span, stride, end) in enumerate(zip(spans, strides, more, strict=True)):
        size = x.shape[2 + axis]
        target = wanted[axis] if wanted else size * stride
        total = (size - 1) * stride + span + end - target
        low, high = total // 2, total - total // 2
        # as ONNX has it: for SAME_UPPER the odd one is cut at the end
        sides.append((low, high) if auto_pad == "SAME_UPPER" else (high, low))
    return sides


def _transposed_kernel(kernel: Array, groups: int) -> Array:
    """C, F / groups, spatial… → spatial…, C / groups, F."""
    c, f, *window = kernel.shape
    split = np.reshape(kernel, (groups, c // groups, f, *window))
    beside = np.moveaxis(split, (1, 0, 2), (-3, -2, -1))
    return np.reshape(beside, (*window, c // groups, groups * f))


TABLE: dict[str, Imports] = {"Conv": conv, "ConvTranspose": conv_transpose}
