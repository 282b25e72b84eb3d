"""ATen ops on images: convolution, pooling, resizing; torch has channels second."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy

from aotc import dtypes, nn
from aotc import numpy as np
from aotc.nn.spatial import fixed
from aotc.tracing.array import Array
from aotc.tracing.source_locations import fail

Numbers = int | Sequence[int]


def channels_last(x: Array) -> Array:
    """N, C, spatial… → N, spatial…, C."""
    return np.moveaxis(x, 1, -1)


def channels_first(x: Array) -> Array:
    """N, spatial…, C → N, C, spatial…."""
    return np.moveaxis(x, -1, 1)


def each(value: Numbers, spatial: int) -> list[int]:
    """One number per spatial axis, of one for all or a list."""
    numbers = [value] if isinstance(value, int) else list(value)
    return numbers * spatial if len(numbers) == 1 else numbers


# ---- convolution --------------------------------------------------------------------


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
    """A convolution, or its adjoint, with as many spatial axes as `x` has."""
    spatial = x.ndim - 2
    options: dict[str, Any] = {
        "strides": each(stride, spatial),
        "padding": [(n, n) for n in each(padding, spatial)],
        "dilation": each(dilation, spatial),
        "groups": groups,
    }
    if transposed:
        options["output_padding"] = each(output_padding, spatial)
        y = nn.conv_transpose(
            channels_last(x), _adjoint_kernel(weight, groups), bias, **options
        )
    else:
        kernel = np.moveaxis(weight, (1, 0), (-2, -1))  # F, C, spatial…
        y = nn.conv(channels_last(x), kernel, bias, **options)
    return channels_first(y)


def _adjoint_kernel(weight: Array, groups: int) -> Array:
    """C, F / groups, spatial… → spatial…, C / groups, F."""
    channels, features, *window = weight.shape
    split = np.reshape(weight, (groups, channels // groups, features, *window))
    kernel = np.moveaxis(split, (1, 0, 2), (-3, -2, -1))
    return np.reshape(kernel, (*window, channels // groups, groups * features))


# ---- pooling ------------------------------------------------------------------------


def batched(function: Callable[..., Any], spatial: int) -> Callable[..., Any]:
    """A function of N, C, spatial… for single images as well."""

    def call(x: Array, *args: Any, **options: Any) -> Any:
        if x.ndim == spatial + 2:
            return function(x, *args, **options)
        found = function(np.expand_dims(x, 0), *args, **options)
        if isinstance(found, list):
            return [np.squeeze(part, 0) for part in found]
        return np.squeeze(found, 0)

    return call


def _max_pool(spatial: int) -> Callable[..., Array]:
    def call(
        x: Array,
        kernel_size: Numbers,
        stride: Numbers = (),
        padding: Numbers = 0,
        dilation: Numbers = 1,
        ceil_mode: bool = False,
    ) -> Array:
        y = nn.max_pool(
            channels_last(x),
            each(kernel_size, spatial),
            each(stride, spatial) if stride else None,
            [(n, n) for n in each(padding, spatial)],
            dilation=each(dilation, spatial),
            ceil_mode=ceil_mode,
        )
        return channels_first(y)

    return batched(call, spatial)


def _avg_pool(spatial: int) -> Callable[..., Array]:
    def call(
        x: Array,
        kernel_size: Numbers,
        stride: Numbers = (),
        padding: Numbers = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> Array:
        if not dtypes.is_float(x.dtype):
            fail("unsupported", f"expected floats to take the mean of; got {x.type}")
        window = each(kernel_size, spatial)
        geometry: dict[str, Any] = {
            "strides": each(stride, spatial) if stride else None,
            "padding": [(n, n) for n in each(padding, spatial)],
            "ceil_mode": ceil_mode,
        }
        image = channels_last(x)
        if divisor_override:
            y = np.divide(nn.sum_pool(image, window, **geometry), divisor_override)
        else:
            y = nn.avg_pool(
                image, window, **geometry, count_include_pad=count_include_pad
            )
        return channels_first(y)

    return batched(call, spatial)


def _adaptive(
    pool: Callable[..., Array], spatial: int
) -> Callable[[Array, Sequence[int]], Array]:
    def call(x: Array, sizes: Sequence[int]) -> Array:
        if all(size == 1 for size in sizes):
            reduce = np.mean if pool is nn.adaptive_avg_pool else np.max
            return reduce(x, tuple(range(2, x.ndim)), keepdims=True)
        return channels_first(pool(channels_last(x), list(sizes)))

    return batched(call, spatial)


def _adaptive_max(spatial: int) -> Callable[[Array, Sequence[int]], list[Array]]:
    """The maximum of each part of an image, and its place in the row of all pixels."""

    def call(x: Array, sizes: Sequence[int]) -> list[Array]:
        have = [fixed(size, "image") for size in x.shape[-spatial:]]
        kept = x.shape[:-spatial]
        inside, places = _parts(have, sizes)
        parts = np.take(np.reshape(x, (*kept, math.prod(have))), places, -1)
        parts = np.where(inside, parts, _lowest(x.dtype))
        at = np.argmax(parts, -1, keepdims=True)
        where = np.take_along_axis(np.broadcast_to(places, parts.shape), at, -1)
        found = np.take_along_axis(parts, at, -1), np.astype(where, "i64")
        return [np.reshape(part, (*kept, *sizes)) for part in found]

    return batched(call, spatial)


def _parts(have: Sequence[int], sizes: Sequence[int]) -> tuple[Any, Any]:
    """For each part of an image its pixels: which there are, and their places."""
    inside, places = numpy.ones((1, 1), bool), numpy.zeros((1, 1), "i4")
    for n, count in zip(have, sizes, strict=True):
        starts = numpy.arange(count) * n // count
        ends = -(-(numpy.arange(count) + 1) * n // count)
        line = starts[:, None] + numpy.arange(max([*(ends - starts), 1]))
        within = line < ends[:, None]
        steps = numpy.minimum(line, max(n - 1, 0))
        places = places[:, None, :, None] * n + steps[:, None]
        inside = inside[:, None, :, None] & within[:, None]
        shape = (places.shape[0] * count, -1)
        places, inside = places.reshape(shape), inside.reshape(shape)
    return inside, places.astype("i4")


def _lowest(dtype: str) -> Any:
    return -math.inf if dtypes.is_float(dtype) else int(np.iinfo(dtype).min)


# ---- sampling -----------------------------------------------------------------------

_METHODS = ("linear", "nearest", "cubic")
_PADDINGS = ("zeros", "border", "reflection")


def grid_sample(
    x: Array, grid: Array, method: int, padding: int, align_corners: bool
) -> Array:
    """The image at the places of a grid."""
    y = nn.grid_sample(
        channels_last(x),
        grid,
        _METHODS[method],
        _PADDINGS[padding],
        align_corners=align_corners,
    )
    return channels_first(y)


adaptive_avg_pool_2d = _adaptive(nn.adaptive_avg_pool, 2)

OPS: dict[str, Callable[..., Any]] = {
    "aten.convolution": convolution,
    "aten.max_pool1d": _max_pool(1),
    "aten.max_pool2d": _max_pool(2),
    "aten.max_pool3d": _max_pool(3),
    "aten.avg_pool1d": _avg_pool(1),
    "aten.avg_pool2d": _avg_pool(2),
    "aten.avg_pool3d": _avg_pool(3),
    "aten.adaptive_avg_pool1d": _adaptive(nn.adaptive_avg_pool, 1),
    "aten._adaptive_avg_pool2d": adaptive_avg_pool_2d,
    "aten._adaptive_avg_pool3d": _adaptive(nn.adaptive_avg_pool, 3),
    "aten.adaptive_max_pool2d": _adaptive_max(2),
    "aten.adaptive_max_pool3d": _adaptive_max(3),
    "aten.grid_sampler_2d": grid_sample,
    "aten.grid_sampler_3d": grid_sample,
}
