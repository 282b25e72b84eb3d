"""Pooling."""

from __future__ import annotations

import math

from aotc import nn
from aotc import numpy as np
from aotc.frontends.array import Array
from aotc.frontends.onnx.calling import Imports
from aotc.frontends.onnx.ops.images import (
    channels_first,
    channels_last,
    padding,
    per_axis,
)
from aotc.frontends.places import fail

Ints = tuple[int, ...]


def average_pool(
    x: Array,
    *,
    kernel_shape: Ints,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    count_include_pad: int = 0,
    dilations: Ints = (),
    pads: Ints = (),
    strides: Ints = (),
) -> Array:
    """The mean of each window."""
    spatial = len(kernel_shape)
    y = nn.avg_pool(
        channels_last(x),
        kernel_shape,
        per_axis(strides, spatial),
        padding(auto_pad, pads, spatial),
        dilation=per_axis(dilations, spatial),
        ceil_mode=bool(ceil_mode),
        count_include_pad=bool(count_include_pad),
    )
    return channels_first(y)


def lp_pool(
    x: Array,
    *,
    kernel_shape: Ints,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    dilations: Ints = (),
    p: int = 2,
    pads: Ints = (),
    strides: Ints = (),
) -> Array:
    """The p-norm of each window."""
    spatial = len(kernel_shape)
    y = nn.lp_pool(
        channels_last(x),
        float(p),
        kernel_shape,
        per_axis(strides, spatial),
        padding(auto_pad, pads, spatial),
        dilation=per_axis(dilations, spatial),
        ceil_mode=bool(ceil_mode),
    )
    return channels_first(y)


def max_pool(
    x: Array,
    *,
    kernel_shape: Ints,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    dilations: Ints = (),
    pads: Ints = (),
    storage_order: int = 0,
    strides: Ints = (),
    wanted: int,
) -> Array | tuple[Array, Array]:
    """The largest element of each window, and where in x it is."""
    spatial = len(kernel_shape)

    def pooled(image: Array) -> Array:
        y = nn.max_pool(
            channels_last(image),
            kernel_shape,
            per_axis(strides, spatial),
            padding(auto_pad, pads, spatial),
            dilation=per_axis(dilations, spatial),
            ceil_mode=bool(ceil_mode),
        )
        return channels_first(y)

    if wanted < 2:
        return (
            np.astype(pooled(np.astype(x, "f32")), x.dtype) if _whole(x) else pooled(x)
        )
    return pooled(x), _places(x, kernel_shape, strides, dilations, pads, storage_order)


def _whole(x: Array) -> bool:
    return not x.dtype.startswith(("f", "bf"))


def _places(
    x: Array,
    window: Ints,
    strides: Ints,
    dilations: Ints,
    pads: Ints,
    storage_order: int,
) -> Array:
    """The position in x of the largest element of each window, in a row."""
    from aotc.frontends.tracing import emit

    spatial = len(window)
    sides = padding("NOTSET", pads, spatial)
    low, high = zip(*sides, strict=True)
    shape = tuple(x.shape[2:])
    images = (1, *shape, 1)
    order = [*range(spatial)][:: -1 if storage_order else 1]
    stride = 1
    flat = np.zeros(shape, "i64")
    for axis in reversed(order):
        along = [-1 if i == axis else 1 for i in range(spatial)]
        places = np.reshape(np.arange(shape[axis], dtype="i64"), along)
        flat = np.add(flat, np.multiply(places, stride))
        stride = stride * shape[axis]

    def cut(image: Array, fill: float) -> Array:
        padded = emit(
            "pad",
            image,
            low=(0, *low, 0),
            high=(0, *high, 0),
            interior=(0,) * (spatial + 2),
            value=fill,
        )
        every = emit(
            "windows",
            padded,
            window=tuple(window),
            strides=per_axis(strides, spatial),
            dilation=per_axis(dilations, spatial),
        )
        counts = every.shape[: 1 + spatial]
        return np.reshape(every, (*counts, math.prod(window), every.shape[-1]))

    values = cut(channels_last(x), -math.inf)
    best = np.argmax(values, -2, keepdims=True)
    inside = cut(np.reshape(flat, images), 0.0)
    inside = np.broadcast_to(inside, values.shape)
    found = np.squeeze(np.take_along_axis(inside, best, -2), -2)
    # positions count over the whole of N, C, spatial…
    channel = np.reshape(np.arange(x.shape[1], dtype="i64"), (1, -1, *[1] * spatial))
    image = np.reshape(np.arange(x.shape[0], dtype="i64"), (-1, *[1] * (spatial + 1)))
    plane = np.add(np.multiply(image, x.shape[1]), channel)
    return np.add(channels_first(found), np.multiply(plane, stride))


def global_average_pool(x: Array) -> Array:
    """The mean over the spatial axes."""
    return np.mean(x, tuple(range(2, x.ndim)), keepdims=True)


def global_max_pool(x: Array) -> Array:
    """The largest element over the spatial axes."""
    return np.max(x, tuple(range(2, x.ndim)), keepdims=True)


def global_lp_pool(x: Array, *, p: int = 2) -> Array:
    """The p-norm over the spatial axes."""
    axes = tuple(range(2, x.ndim))
    sums = np.sum(np.power(np.absolute(x), float(p)), axes, keepdims=True)
    return np.power(sums, 1 / p)


def max_unpool(
    x: Array,
    places: Array,
    output_shape: Array | None = None,
    *,
    kernel_shape: Ints,
    pads: Ints = (),
    strides: Ints = (),
) -> Array:
    """The elements at their places in an image of zeros."""
    from aotc.frontends.onnx.values import integers, known_of

    spatial = len(kernel_shape)
    steps = per_axis(strides, spatial)
    sides = padding("NOTSET", pads, spatial)
    natural = [
        (n - 1) * s - low - high + w
        for n, s, w, (low, high) in zip(
            x.shape[2:], steps, kernel_shape, sides, strict=True
        )
    ]
    sizes = (*x.shape[:2], *natural)
    flat_places = np.reshape(places, (-1,))
    target = sizes
    if output_shape is not None:
        known = known_of(output_shape)
        if known is None:
            fail("unknown-value", "expected the output_shape of MaxUnpool to be known")
        target = integers(known)
    # the places count in the natural shape
    empty = np.zeros((math.prod(sizes),), x.dtype)
    filled = empty.at[flat_places].set(np.reshape(x, (-1,)))
    image = np.reshape(filled, sizes)
    if target == sizes:
        return image
    ends = [(0, big - small) for big, small in zip(target, sizes, strict=True)]
    return np.pad(image, ends)


TABLE: dict[str, Imports] = {
    "AveragePool": average_pool,
    "GlobalAveragePool": global_average_pool,
    "GlobalLpPool": global_lp_pool,
    "GlobalMaxPool": global_max_pool,
    "LpPool": lp_pool,
    "MaxPool": max_pool,
    "MaxUnpool": max_unpool,
}
