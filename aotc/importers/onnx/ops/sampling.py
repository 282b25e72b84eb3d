"""Images read at any place: grids and regions."""

from __future__ import annotations

import itertools
from functools import reduce

from aotc import numpy as np
from aotc.importers.common.channels import channels_first, channels_last
from aotc.importers.onnx.calling import Imports
from aotc.nn.sampling import (
    Places,
    Taps,
    cubic,
    inside_mask,
    interpolate,
    linear,
    pixels_at,
    reflect,
    to_pixels,
)
from aotc.tracing.array import Array
from aotc.tracing.source_locations import fail

# ---- GridSample ---------------------------------------------------------------------

_TAPS: dict[str, Taps] = {
    "bilinear": linear,
    "linear": linear,
    "bicubic": cubic,
    "cubic": cubic,
}


def grid_sample(
    x: Array,
    grid: Array,
    *,
    align_corners: int = 0,
    mode: str = "linear",
    padding_mode: str = "zeros",
) -> Array:
    """Return x sampled at positions in -1 … 1, whose axes come last axis first."""
    image = channels_last(x)
    sizes = image.shape[1:-1]
    rank = len(sizes)
    places = [
        to_pixels(grid[..., rank - 1 - axis], sizes[axis], bool(align_corners))
        for axis in range(rank)
    ]

    def inside(at: Places) -> Places:
        if padding_mode != "reflection":
            return at
        return [
            reflect(place, size, bool(align_corners))
            for place, size in zip(at, sizes, strict=True)
        ]

    def pixels(at: Places) -> Array:
        found = pixels_at(image, inside(at))
        return np.where(inside_mask(image, at), found, 0.0) if keeps_zeros else found

    keeps_zeros = padding_mode == "zeros"
    if mode == "nearest":
        return channels_first(pixels([np.rint(place) for place in places]))
    if mode not in _TAPS:
        fail("bad-node", f"the mode {mode!r} of GridSample is none of ONNX")
    if padding_mode == "border" and _TAPS[mode] is linear:
        places = [np.clip(p, 0, n - 1) for p, n in zip(places, sizes, strict=True)]
    moved = inside(places) if _TAPS[mode] is linear else places
    return channels_first(interpolate(moved, _TAPS[mode], pixels))


# ---- RoiAlign -----------------------------------------------------------------------


def roi_align(
    x: Array,
    rois: Array,
    batch_indices: Array,
    *,
    coordinate_transformation_mode: str | None = None,
    mode: str = "avg",
    output_height: int = 1,
    output_width: int = 1,
    sampling_ratio: int = 0,
    spatial_scale: float = 1.0,
    opset: int,
) -> Array:
    """Return samples of x pooled over a grid of cells in each region of interest."""
    if sampling_ratio < 1:
        fail(
            "data-dependent-shape",
            "a RoiAlign with the sampling_ratio 0 takes as many samples as the values "
            "of its regions say",
            "export it with a sampling_ratio of at least 1, such as 2",
        )
    usual = "half_pixel" if opset >= 16 else "output_half_pixel"
    aligned = (coordinate_transformation_mode or usual) == "half_pixel"
    corners = np.subtract(np.multiply(rois, spatial_scale), 0.5 if aligned else 0.0)
    image = np.take(channels_last(x), batch_indices, 0)
    places = [
        _samples(
            corners[:, 1 - axis], corners[:, 3 - axis], count, sampling_ratio, aligned
        )
        for axis, count in enumerate((output_height, output_width))
    ]
    shape = (output_height, sampling_ratio, output_width, sampling_ratio)
    parts = [
        np.reshape(channels_first(term), (*rois.shape[:1], x.shape[1], *shape))
        for term in _roi_terms(image, places)
    ]
    if mode == "avg":
        return np.mean(reduce(np.add, parts), (3, 5))
    return np.max(reduce(np.maximum, parts), (3, 5))


def _samples(start: Array, end: Array, count: int, ratio: int, aligned: bool) -> Array:
    """Return the sample positions of each region along one axis."""
    span = np.subtract(end, start)
    span = span if aligned else np.maximum(span, 1.0)
    steps = np.multiply(np.add(np.arange(count * ratio, dtype="f32"), 0.5), 1 / ratio)
    each = np.expand_dims(np.divide(span, float(count)), 1)
    return np.add(np.expand_dims(start, 1), np.multiply(each, np.expand_dims(steps, 0)))


def _roi_terms(image: Array, places: Places) -> list[Array]:
    """Return the four weighted pixels around each sample; zeros far outside."""
    shape = (image.shape[0], places[0].shape[1], places[1].shape[1])
    grid = [
        np.broadcast_to(np.expand_dims(place, 2 - axis), shape)
        for axis, place in enumerate(places)
    ]
    sizes = image.shape[1:-1]
    near = [
        np.logical_and(np.greater_equal(place, -1.0), np.less_equal(place, size))
        for place, size in zip(grid, sizes, strict=True)
    ]
    kept = [np.clip(p, 0, size - 1) for p, size in zip(grid, sizes, strict=True)]
    (top, down), (left, right) = map(linear, kept)
    terms = []
    for dy, dx in itertools.product((0, 1), (0, 1)):
        pixel = pixels_at(image, [np.add(top, dy), np.add(left, dx)])
        share = np.where(np.logical_and(*near), np.multiply(down[dy], right[dx]), 0.0)
        terms.append(np.multiply(pixel, np.expand_dims(share, -1)))
    return terms


TABLE: dict[str, Imports] = {"GridSample": grid_sample, "RoiAlign": roi_align}
