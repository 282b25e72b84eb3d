"""ATen ops that make images of other sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy

from aotc import numpy as np
from aotc.core import dtypes
from aotc.dialects.types import Size, bounds
from aotc.importers.common.channels import channels_first, channels_last
from aotc.importers.common.scaling import scaled_size
from aotc.nn.interpolation import (
    Number,
    Places,
    grid,
    interpolate_along,
    module_of,
    shrinking,
    take_along,
    whole_ratio,
)
from aotc.nn.spatial import static_size
from aotc.tracing.array import Array
from aotc.tracing.conversion import lift

# the new sizes, and for each spatial axis the factor that places are scaled by, if one
# is given instead of the ratio of the sizes
Target = tuple[list[Size], list[float | None]]


def _target(
    x: Array, sizes: Sequence[Size] | None, scale_factors: Sequence[object]
) -> Target:
    """Return target sizes and scale factors (None if not given) of the spatial axes."""
    have = x.shape[2:]
    factors = list(
        scale_factors[0]
        if scale_factors and isinstance(scale_factors[0], list)
        else scale_factors
    )
    factors += [None] * (len(have) - len(factors))
    if sizes is None:
        sizes = [scaled_size(n, f) for n, f in zip(have, factors, strict=True)]
    return list(sizes), factors


def _step(
    size: Size, new: Size, factor: float | None, ratios: Sequence[int], dtype: str
) -> Number:
    """Return the step between source positions of neighbouring result pixels.

    By the factor, if one is given; sizes that have one of the whole `ratios` drop it:
    PyTorch copies or repeats their pixels, whatever factor led to that size (1.2 leaves
    3 pixels 3).
    """
    _, after, before = grid(new, size, dtype)
    if factor is None or whole_ratio(new, size) in ratios:
        return before / after
    step: Number = dtypes.to_numpy(dtype).type(1 / factor)
    if not isinstance(after, Array):
        return step
    for ratio in ratios:
        low, high = bounds(new - size * ratio)
        if low <= 0 <= high:  # a call decides it
            is_whole = np.equal(lift(new, "i64"), lift(size * ratio, "i64"))
            step = np.astype(np.where(is_whole, 1 / ratio, step), dtype)
    return step


# ---- the nearest pixel --------------------------------------------------------------


def _nearest(exact: bool) -> Callable[..., Array]:
    """Return the import function of nearest-neighbour resizing, floor or `exact`."""

    def call(x: Array, sizes: Sequence[Size] | None, *given: Any) -> Array:
        # only the kernel for two axes tells sizes that are equal or double (nearest_idx
        # in UpSampleKernel.cpp); that for three does so for images in channels-last
        # memory alone, which an exported program does not tell
        ratios = (1, 2) if x.ndim == 4 and not exact else ()
        target = _target(x, sizes, given)
        x = channels_last(x)  # as the convolutions around have it
        for axis, (new, factor) in enumerate(zip(*target, strict=True), 1):
            x = _nearest_along(x, axis, new, factor, ratios, 0.5 if exact else 0.0)
        return channels_first(x)

    return call


def _nearest_along(
    x: Array,
    axis: int,
    new: Size,
    factor: float | None,
    ratios: Sequence[int],
    shift: float,
) -> Array:
    """Return x resized along one axis by nearest neighbours."""
    size = x.shape[axis]
    repeats = whole_ratio(new, size)
    dropped = factor is None or factor == repeats or repeats in ratios
    if dropped and repeats in _REPEATED:
        return x if repeats == 1 else np.repeat(x, repeats, axis)
    # in the precision of PyTorch, which decides between neighbours
    i, _, _ = grid(new, size)
    step = _step(size, new, factor, ratios, "f32")
    return take_along(x, axis, module_of(i).floor((i + numpy.float32(shift)) * step))


# for which `i * (1 / n)` in f32, rounded down, is `i // n`
_REPEATED = (1, 2, 3, 4, 8, 16)


# ---- interpolation ------------------------------------------------------------------


def _interpolation(method: str, antialias: bool = False) -> Callable[..., Array]:
    """Return the import function of linear or cubic resizing."""
    # the cubic kernel is applied where nothing changes, too
    ratios = (1,) if method == "linear" or antialias else ()

    def call(
        x: Array, sizes: Sequence[Size] | None, align_corners: bool, *given: Any
    ) -> Array:
        target = _target(x, sizes, given)
        x = channels_last(x)
        for axis, (new, factor) in enumerate(zip(*target, strict=True), 1):
            size = x.shape[axis]
            if whole_ratio(new, size) == 1 and (factor in (None, 1) or 1 in ratios):
                continue
            shrink = _shrinking(size, new, factor, align_corners) if antialias else 1.0
            x = interpolate_along(
                x,
                axis,
                _source_positions(size, new, factor, ratios, align_corners, antialias),
                method,
                -0.5 if antialias else -0.75,
                shrink=min(shrink, 1.0),
                exclude_outside=antialias,
            )
        return channels_first(x)

    return call


def _source_positions(
    size: Size,
    new: Size,
    factor: float | None,
    ratios: Sequence[int],
    align_corners: bool,
    antialias: bool,
) -> Places:
    """Return the source position of each pixel of the result along an axis."""
    known = isinstance(size, int) and isinstance(new, int)
    dtype = "f64" if known else "f32"
    i, after, before = grid(new, size, dtype)
    if not align_corners:
        step = _step(size, new, factor, ratios, dtype)
        return (i + 0.5) * step - 0.5
    if antialias:
        return (i + 0.5) / _aligned_scale(size, new) - 0.5
    found: Places = i * ((before - 1) / module_of(after).maximum(after - 1, 1))
    return found


def _shrinking(
    size: Size, new: Size, factor: float | None, align_corners: bool
) -> float:
    """Return the scale of an axis: the factor, or new size / old size, or that of
    aligned ends; below 1 antialiasing widens the kernel by it.
    """
    if align_corners:
        return _aligned_scale(size, new)
    return shrinking(size, new, factor)


def _aligned_scale(size: Size, new: Size) -> float:
    """Return the scale of an axis whose first and last pixels are aligned."""
    size, new = static_size(size, "image"), static_size(new, "image")
    return (new - 1) / (size - 1) if new > 1 and size > 1 else 1.0


OPS: dict[str, Callable[..., Any]] = {
    "aten.upsample_nearest1d": _nearest(exact=False),
    "aten.upsample_nearest2d": _nearest(exact=False),
    "aten.upsample_nearest3d": _nearest(exact=False),
    "aten._upsample_nearest_exact1d": _nearest(exact=True),
    "aten._upsample_nearest_exact2d": _nearest(exact=True),
    "aten._upsample_nearest_exact3d": _nearest(exact=True),
    "aten.upsample_linear1d": _interpolation("linear"),
    "aten.upsample_bilinear2d": _interpolation("linear"),
    "aten.upsample_trilinear3d": _interpolation("linear"),
    "aten.upsample_bicubic2d": _interpolation("cubic"),
    "aten._upsample_bilinear2d_aa": _interpolation("linear", antialias=True),
    "aten._upsample_bicubic2d_aa": _interpolation("cubic", antialias=True),
}
