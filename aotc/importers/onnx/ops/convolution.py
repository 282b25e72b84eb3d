"""Convolutions."""

from __future__ import annotations

from collections.abc import Sequence

from aotc import nn
from aotc import numpy as np
from aotc.dialects.types import Size
from aotc.importers.common.channels import (
    apply_channels_last,
    kernel_last,
    over_channels,
    transposed_kernel_last,
)
from aotc.importers.onnx.calling import Imports
from aotc.importers.onnx.ops.geometry import Convolution, Ints
from aotc.tracing.array import Array


def conv(
    x: Array, kernel: Array, bias: Array | None = None, *, geometry: Convolution
) -> Array:
    """Return the convolution of x (N, C, spatial…) with a kernel F, C / groups,
    spatial….
    """
    steps = geometry.steps(x.ndim - 2)
    return apply_channels_last(
        nn.conv, x, kernel_last(kernel), bias, groups=geometry.group, **steps
    )


def conv_transpose(
    x: Array,
    kernel: Array,
    bias: Array | None = None,
    *,
    geometry: Convolution,
    output_padding: Ints = (),
    output_shape: Ints = (),
) -> Array:
    """Return a transposed convolution of x with a kernel C, F / groups, spatial…."""
    spatial = x.ndim - 2
    steps, more = geometry.steps(spatial), tuple(output_padding) or (0,) * spatial
    window = [n.__index__() for n in kernel.shape[2:]]
    spans = [d * (w - 1) + 1 for d, w in zip(steps["dilation"], window, strict=True)]
    wanted, auto_pad = output_shape[-spatial:], geometry.auto_pad
    cut = _crops(x, spans, steps["strides"], more, wanted, auto_pad)
    steps["padding"] = geometry.sides(spatial) if cut is None else cut
    y = apply_channels_last(
        nn.conv_transpose,
        x,
        transposed_kernel_last(kernel, geometry.group),
        output_padding=more,
        groups=geometry.group,
        **steps,
    )
    return y if bias is None else np.add(y, over_channels(bias, y))


def _crops(
    x: Array,
    spans: Sequence[int],
    strides: Sequence[int],
    output_padding: Sequence[int],
    output_shape: Sequence[int],
    auto_pad: str,
) -> list[tuple[Size, Size]] | None:
    """Return (low, high) to crop off each axis of a transposed convolution, or None.

    None stands for padding that `pads` states.
    """
    if not output_shape and auto_pad not in ("SAME_UPPER", "SAME_LOWER"):
        return None
    sides: list[tuple[Size, Size]] = []
    for axis, (span, stride, end) in enumerate(
        zip(spans, strides, output_padding, strict=True)
    ):
        size = x.shape[2 + axis]
        target = output_shape[axis] if output_shape else size * stride
        total = (size - 1) * stride + span + end - target
        low, high = total // 2, total - total // 2
        # as ONNX has it: for SAME_UPPER the odd one is cut at the end
        sides.append((low, high) if auto_pad == "SAME_UPPER" else (high, low))
    return sides


TABLE: dict[str, Imports] = {"Conv": conv, "ConvTranspose": conv_transpose}
