"""ATen ops that make images of other sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy

from aotc import nn
from aotc import numpy as np
from aotc.dialects.types import Size
from aotc.importers.common.channels import (
    apply_channels_last,
    channels_first,
    channels_last,
)
from aotc.nn.spatial import static_size
from aotc.tracing.array import Array

# the new sizes, and for each spatial axis the factor that places are scaled by, if one
# is given instead of the ratio of the sizes
Target = tuple[list[Size], list[float | None]]


def _target(
    x: Array,
    sizes: Sequence[Size] | None,
    given: Sequence[Any],
    whole: Sequence[float],
) -> Target:
    """From the arguments of an op: factors, or sizes and one factor per axis.

    An axis whose sizes have one of the ratios `whole` drops its factor: PyTorch copies
    or repeats its pixels, whatever factor led to that size (1.2 leaves 3 pixels 3).
    """
    have = x.shape[2:]
    factors = list(given[0] if given and isinstance(given[0], list) else given)
    factors += [None] * (len(have) - len(factors))
    if sizes is None:
        sizes = [_scaled_size(n, f) for n, f in zip(have, factors, strict=True)]
    used = [
        None if _ratio(m, n) in whole else f
        for m, n, f in zip(sizes, have, factors, strict=True)
    ]
    return list(sizes), used


def _scaled_size(size: Size, factor: float) -> Size:
    if float(factor).is_integer():
        return size * int(factor)
    return int(static_size(size, "image, for a scale that is not whole,") * factor)


def _ratio(size: Size, of: Size) -> float | None:
    """How many times a size is another, if it is a whole number for all sizes."""
    for factor in (1, 2, 3, 4, 8, 16):
        if size == of * factor:
            return float(factor)
    return None


# ---- the nearest pixel --------------------------------------------------------------


def _nearest(exact: bool) -> Callable[..., Array]:
    """The nearest pixel from the left, or with `exact` the nearest one."""

    def call(x: Array, sizes: Sequence[Size] | None, *given: Any) -> Array:
        # only the kernel for two axes tells sizes that are equal or double (nearest_idx
        # in UpSampleKernel.cpp); that for three does so for images in channels-last
        # memory alone, which an exported program does not tell
        whole = (1, 2) if x.ndim == 4 and not exact else ()
        target = _target(x, sizes, given, whole)
        x = channels_last(x)  # as the convolutions around have it
        for axis, (new, factor) in enumerate(zip(*target, strict=True)):
            x = _nearest_along(x, axis + 1, new, factor, 0.5 if exact else 0.0)
        return channels_first(x)

    return call


def _nearest_along(
    x: Array, axis: int, new: Size, factor: float | None, shift: float
) -> Array:
    size = x.shape[axis]
    repeats = _ratio(new, size)
    if repeats is not None and factor in (None, repeats):
        return x if repeats == 1 else np.repeat(x, int(repeats), axis)
    size, new = static_size(size, "image"), static_size(new, "image")
    # in the precision of PyTorch, which decides between neighbours
    single = numpy.float32
    step = single(1 / factor) if factor else single(size) / single(new)
    places = numpy.floor((numpy.arange(new, dtype=single) + single(shift)) * step)
    return np.take(x, numpy.minimum(places, size - 1).astype("i4"), axis)


# ---- interpolation ------------------------------------------------------------------


def _interpolation(method: str, antialias: bool = False) -> Callable[..., Array]:
    """A sum of neighbours, weighted by their distance."""

    def call(
        x: Array, sizes: Sequence[Size] | None, align_corners: bool, *given: Any
    ) -> Array:
        # the cubic kernel is applied where nothing changes, too
        whole = (1,) if method == "linear" or antialias else ()
        target, factors = _target(x, sizes, given, whole)
        ends = align_corners and antialias
        old = x.shape[2:]
        scale = [
            _end_to_end(n, m) if ends else factor or _ratio(m, n) or _quotient(m, n)
            for n, m, factor in zip(old, target, factors, strict=True)
        ]
        return apply_channels_last(
            nn.resize,
            x,
            target,
            method,
            scale=scale,
            coordinates="align_corners" if align_corners and not ends else "half_pixel",
            antialias=antialias,
            cubic=-0.5 if antialias else -0.75,
        )

    return call


def _quotient(new: Size, size: Size) -> float:
    return static_size(new, "image") / static_size(size, "image")


def _end_to_end(size: Size, new: Size) -> float:
    """The ratio of the distances between the first and the last pixel."""
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
