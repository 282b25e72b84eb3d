"""ATen ops that pool images."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy

from aotc import nn
from aotc import numpy as np
from aotc.core import dtypes
from aotc.importers.common.channels import apply_channels_last
from aotc.importers.torch.ops.geometry import Numbers, allow_unbatched, each, sides
from aotc.nn.spatial import static_size
from aotc.tracing.array import Array
from aotc.tracing.source_locations import fail


def _max_pool(spatial: int) -> Callable[..., Array]:
    """Return the import function of max pooling over `spatial` axes."""

    def call(
        x: Array,
        kernel_size: Numbers,
        stride: Numbers = (),
        padding: Numbers = 0,
        dilation: Numbers = 1,
        ceil_mode: bool = False,
    ) -> Array:
        return apply_channels_last(
            nn.max_pool,
            x,
            each(kernel_size, spatial),
            each(stride, spatial) if stride else None,
            sides(padding, spatial),
            dilation=each(dilation, spatial),
            ceil_mode=ceil_mode,
        )

    return allow_unbatched(call, spatial)


def _avg_pool(spatial: int) -> Callable[..., Array]:
    """Return the import function of average pooling over `spatial` axes."""

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
        windows: dict[str, Any] = {
            "window": each(kernel_size, spatial),
            "strides": each(stride, spatial) if stride else None,
            "padding": sides(padding, spatial),
            "ceil_mode": ceil_mode,
        }
        if divisor_override:
            sums = apply_channels_last(nn.sum_pool, x, **windows)
            return np.divide(sums, divisor_override)
        return apply_channels_last(
            nn.avg_pool, x, **windows, count_include_pad=count_include_pad
        )

    return allow_unbatched(call, spatial)


def _adaptive(
    pool: Callable[..., Array], spatial: int
) -> Callable[[Array, Sequence[int]], Array]:
    """Return the import function of adaptive pooling by a function of `aotc.nn`."""

    def call(x: Array, sizes: Sequence[int]) -> Array:
        if all(size == 1 for size in sizes):
            reduce = np.mean if pool is nn.adaptive_avg_pool else np.max
            return reduce(x, tuple(range(2, x.ndim)), keepdims=True)
        return apply_channels_last(pool, x, list(sizes))

    return allow_unbatched(call, spatial)


def _adaptive_max(spatial: int) -> Callable[[Array, Sequence[int]], list[Array]]:
    """Return a function for adaptive max pooling: the maxima and their flat indices."""

    def call(x: Array, sizes: Sequence[int]) -> list[Array]:
        have = [static_size(size, "image") for size in x.shape[-spatial:]]
        kept = x.shape[:-spatial]
        inside, places = _cells(have, sizes)
        parts = np.take(np.reshape(x, (*kept, math.prod(have))), places, -1)
        parts = np.where(inside, parts, _lowest(x.dtype))
        at = np.argmax(parts, -1, keepdims=True)
        where = np.take_along_axis(np.broadcast_to(places, parts.shape), at, -1)
        found = np.take_along_axis(parts, at, -1), np.astype(where, "i64")
        return [np.reshape(part, (*kept, *sizes)) for part in found]

    return allow_unbatched(call, spatial)


def _cells(have: Sequence[int], sizes: Sequence[int]) -> tuple[Any, Any]:
    """Return mask and flat indices of the pixels in each cell of adaptive pooling."""
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
    """Return the least element of a dtype."""
    return -math.inf if dtypes.is_float(dtype) else int(np.iinfo(dtype).min)


adaptive_avg_pool_2d = _adaptive(nn.adaptive_avg_pool, 2)

OPS: dict[str, Callable[..., Any]] = {
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
}
