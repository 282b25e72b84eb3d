"""Windows of images: moved ones that are read, and those that are put back."""

from __future__ import annotations

import itertools
import math
from functools import reduce

from aotc import numpy as np
from aotc.dialects.types import Size
from aotc.importers.common.channels import channels_last, over_channels
from aotc.importers.onnx.calling import Imports
from aotc.importers.onnx.ops.geometry import Ints, WindowAttributes, per_axis
from aotc.importers.onnx.values import Known, row_of_numbers
from aotc.nn.sampling import (
    Places,
    inside_mask,
    interpolate,
    linear,
    pixels_at,
)
from aotc.tracing.array import Array
from aotc.tracing.tracing import emit

# ---- DeformConv ---------------------------------------------------------------------


def deform_conv(
    x: Array,
    kernel: Array,
    offset: Array,
    bias: Array | None = None,
    mask: Array | None = None,
    *,
    dilations: Ints = (),
    group: int = 1,
    kernel_shape: Ints = (),
    offset_group: int = 1,
    pads: Ints = (),
    strides: Ints = (),
) -> Array:
    """Return a convolution whose kernel taps are each shifted by an offset.

    Dai et al., "Deformable convolutional networks", 2017; with weights for each tap
    (the mask), Zhu et al., 2019.
    """
    features, own, *window = (n.__index__() for n in kernel.shape)
    out = offset.shape[2:]
    taps = math.prod(window)
    n, c = x.shape[:2]
    moves = np.reshape(offset, (n, offset_group, *window, 2, *out))
    steps, spread = per_axis(strides, 2), per_axis(dilations, 2)
    sides = WindowAttributes(pads=pads).sides(2)
    base = [
        _tap_positions(out[a], window[a], steps[a], spread[a], sides[a][0], a)
        for a in (0, 1)
    ]
    columns = []
    for part in range(offset_group):
        width = c // offset_group
        image = channels_last(x[:, part * width : (part + 1) * width])
        places = [np.add(moves[:, part, :, :, a], base[a]) for a in (0, 1)]

        def pixels(at: Places, image: Array = image) -> Array:
            return np.where(inside_mask(image, at), pixels_at(image, at), 0.0)

        found = interpolate(places, linear, pixels)
        if mask is not None:
            weights = np.reshape(mask, (n, offset_group, *window, *out))[:, part]
            found = np.multiply(found, np.expand_dims(weights, -1))
        columns.append(found)
    whole = np.concatenate(columns, -1)
    split = np.reshape(whole, (n, taps, *out, group, own))
    filters = np.reshape(kernel, (group, features // group, own, taps))
    y = np.einsum("nthwgc,gfct->ngfhw", split, filters)
    y = np.reshape(y, (n, features, *out))
    return y if bias is None else np.add(y, over_channels(bias, y))


def _tap_positions(
    out: Size, window: int, stride: int, dilation: int, low: int, axis: int
) -> Array:
    """Return the position of each kernel tap for each window, along one axis."""
    starts = np.multiply(np.arange(out, dtype="f32"), float(stride))
    taps = np.multiply(np.arange(window, dtype="f32"), float(dilation))
    along = [-1 if i == axis else 1 for i in range(2)]
    first = np.reshape(starts, (1, 1, *along))
    return np.add(np.subtract(first, float(low)), np.reshape(taps, (*along, 1, 1)))


# ---- Col2Im -------------------------------------------------------------------------


def col_to_im(
    x: Array,
    image: Known,
    block: Known,
    *,
    dilations: Ints = (),
    pads: Ints = (),
    strides: Ints = (),
) -> Array:
    """Return the image that sums windows (N, C * taps, windows) back to their
    positions.
    """
    sizes, window = row_of_numbers(image), row_of_numbers(block)
    rank = len(sizes)
    steps, spread = per_axis(strides, rank), per_axis(dilations, rank)
    sides = WindowAttributes(pads=pads).sides(rank)
    whole = [n + low + high for n, (low, high) in zip(sizes, sides, strict=True)]
    counts = [
        (n - d * (w - 1) - 1) // s + 1
        for n, w, s, d in zip(whole, window, steps, spread, strict=True)
    ]
    n, rows = x.shape[:2]
    parts = np.reshape(x, (n, rows // math.prod(window), *window, *counts))
    terms = []
    for tap in itertools.product(*map(range, window)):
        low = [k * d for k, d in zip(tap, spread, strict=True)]
        term = emit(
            "pad",
            parts[(slice(None), slice(None), *tap)],
            low=(0, 0, *low),
            high=(0, 0, *(
                size - first - (count - 1) * step - 1
                for size, first, count, step in zip(
                    whole, low, counts, steps, strict=True
                )
            )),
            interior=(0, 0, *(step - 1 for step in steps)),
            value=0.0,
        )  # fmt: skip
        terms.append(term)
    inner = [slice(low, low + n) for n, (low, _) in zip(sizes, sides, strict=True)]
    return reduce(np.add, terms)[(slice(None), slice(None), *inner)]


TABLE: dict[str, Imports] = {"Col2Im": col_to_im, "DeformConv": deform_conv}
