"""ATen ops that convolve images."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aotc import nn
from aotc.importers.common.channels import (
    apply_channels_last,
    kernel_last,
    transposed_kernel_last,
)
from aotc.importers.torch.ops.geometry import Numbers, each, sides
from aotc.tracing.array import Array


def convolution(
    x: Array,
    weight: Array,
    bias: Array | None,
    stride: Numbers,
    padding: Numbers,
    dilation: Numbers,
    transposed: bool,
    output_padding: Numbers,
    groups: int,
) -> Array:
    """Return a (transposed) convolution over as many spatial axes as x has."""
    spatial = x.ndim - 2
    options: dict[str, Any] = {
        "strides": each(stride, spatial),
        "padding": sides(padding, spatial),
        "dilation": each(dilation, spatial),
        "groups": groups,
    }
    if not transposed:
        return apply_channels_last(nn.conv, x, kernel_last(weight), bias, **options)
    return apply_channels_last(
        nn.conv_transpose,
        x,
        transposed_kernel_last(weight, groups),
        bias,
        output_padding=each(output_padding, spatial),
        **options,
    )


OPS: dict[str, Callable[..., Any]] = {"aten.convolution": convolution}
