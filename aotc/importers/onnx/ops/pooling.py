"""Pooling."""

from __future__ import annotations

import math
from collections.abc import Sequence

from aotc import nn
from aotc import numpy as np
from aotc.core import dtypes
from aotc.dialects.types import Size
from aotc.importers.common.channels import (
    apply_channels_last,
    channels_first,
    channels_last,
)
from aotc.importers.onnx.calling import Imports
from aotc.importers.onnx.ops.geometry import Ints, Pooling, WindowAttributes, per_axis
from aotc.importers.onnx.values import Known, integers
from aotc.nn.pooling import windows_of
from aotc.nn.spatial import pad_spatial
from aotc.tracing.array import Array
from aotc.tracing.tracing import emit


def average_pool(x: Array, *, geometry: Pooling, count_include_pad: int = 0) -> Array:
    """Return the mean of each window."""
    return apply_channels_last(
        nn.avg_pool,
        x,
        count_include_pad=bool(count_include_pad),
        **geometry.windows(),
    )


def lp_pool(x: Array, *, geometry: Pooling, p: int = 2) -> Array:
    """Return the p-norm of each window."""
    return apply_channels_last(nn.lp_pool, x, float(p), **geometry.windows())


# ---- the largest element, and where it is -------------------------------------------


def max_pool(
    x: Array, *, geometry: Pooling, storage_order: int = 0, wanted: int
) -> Array | tuple[Array, Array]:
    """Return the maximum of each window, and its flat index in x if wanted."""
    # integers of 8 bits, which are all that may come, are floats without loss
    image = channels_last(x if dtypes.is_float(x.dtype) else np.astype(x, "f32"))
    given = geometry.windows()
    y = nn.max_pool(image, **given)
    largest = np.astype(channels_first(y), x.dtype)
    if wanted < 2:
        return largest
    ends, attributes = windows_of(image, **given)
    taps = math.prod(geometry.kernel_shape)

    def windows(image: Array, outside: float) -> Array:
        """Return each window's elements, `outside` in padding: N, spatial…, elements,
        C.
        """
        every = emit("windows", pad_spatial(image, ends, outside), **attributes)
        return np.reshape(every, (*every.shape[: x.ndim - 1], taps, every.shape[-1]))

    values = windows(image, -math.inf)
    flat = np.reshape(_pixel_indices(x, storage_order), (1, *x.shape[2:], 1))
    there = np.broadcast_to(windows(flat, 0.0), values.shape)
    best = np.argmax(values, -2, keepdims=True)
    found = np.squeeze(np.take_along_axis(there, best, -2), -2)
    return largest, np.add(channels_first(found), _channel_offsets(x))


def _pixel_indices(x: Array, storage_order: int) -> Array:
    """Return the flat index of each pixel within a channel, row- or column-major."""
    sizes = x.shape[2:]
    order: Sequence[int] = range(len(sizes))
    flat = np.zeros(sizes, "i64")
    stride: Size = 1
    for axis in order if storage_order else reversed(order):
        along = [-1 if i == axis else 1 for i in order]
        line = np.reshape(np.arange(sizes[axis], dtype="i64"), along)
        flat, stride = np.add(flat, np.multiply(line, stride)), stride * sizes[axis]
    return flat


def _channel_offsets(x: Array) -> Array:
    """Return the flat index of the first pixel of each image and channel."""
    images, channels, *sizes = x.shape
    ones = [1] * len(sizes)
    channel = np.reshape(np.arange(channels, dtype="i64"), (1, -1, *ones))
    image = np.reshape(np.arange(images, dtype="i64"), (-1, 1, *ones))
    plane = np.add(np.multiply(image, channels), channel)
    return np.multiply(plane, math.prod(sizes))


def max_unpool(
    x: Array,
    places: Array,
    output_shape: Known | None = None,
    *,
    kernel_shape: Ints,
    pads: Ints = (),
    strides: Ints = (),
) -> Array:
    """Return an image of zeros with the elements of x written at flat indices."""
    steps = per_axis(strides, len(kernel_shape))
    sides = WindowAttributes(pads=pads).sides(len(kernel_shape))
    sizes = [
        (n - 1) * s - low - high + w
        for n, s, w, (low, high) in zip(
            x.shape[2:], steps, kernel_shape, sides, strict=True
        )
    ]
    # the places count in the shape that follows from the windows
    natural = (*x.shape[:2], *sizes)
    empty = np.zeros((math.prod(natural),), x.dtype)
    filled = empty.at[np.reshape(places, (-1,))].set(np.reshape(x, (-1,)))
    image = np.reshape(filled, natural)
    if output_shape is None:
        return image
    wanted = integers(output_shape)
    return np.pad(image, [(0, m - n) for m, n in zip(wanted, natural, strict=True)])


# ---- over all of an image -----------------------------------------------------------


def global_average_pool(x: Array) -> Array:
    """Return the mean over the spatial axes."""
    return np.mean(x, tuple(range(2, x.ndim)), keepdims=True)


def global_max_pool(x: Array) -> Array:
    """Return the maximum over the spatial axes."""
    return np.max(x, tuple(range(2, x.ndim)), keepdims=True)


def global_lp_pool(x: Array, *, p: int = 2) -> Array:
    """Return the p-norm over the spatial axes."""
    axes = tuple(range(2, x.ndim))
    sums = np.sum(np.power(np.absolute(x), float(p)), axes, keepdims=True)
    return np.power(sums, 1 / p)


TABLE: dict[str, Imports] = {
    "AveragePool": average_pool,
    "GlobalAveragePool": global_average_pool,
    "GlobalLpPool": global_lp_pool,
    "GlobalMaxPool": global_max_pool,
    "LpPool": lp_pool,
    "MaxPool": max_pool,
    "MaxUnpool": max_unpool,
}
