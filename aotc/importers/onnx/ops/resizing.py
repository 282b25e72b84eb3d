"""Resizing, along each axis by a matrix of weights or by positions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy

from aotc import numpy as np
from aotc.dialects.types import Dim, Size
from aotc.importers.common.channels import apply_channels_last
from aotc.importers.onnx.calling import Imports
from aotc.importers.onnx.values import Known, integers
from aotc.nn.resizing import interpolate_along
from aotc.tracing.array import Array
from aotc.tracing.source_locations import fail

Numbers = numpy.ndarray[Any, Any]


@dataclass(frozen=True)
class Sampling:
    """How elements of the result are found in x.

    Args:
        mode: "nearest", "linear" or "cubic".
        places: ONNX's coordinate_transformation_mode.
        nearest: its nearest_mode.
        cubic: parameter of the cubic kernel.
        antialias: whether a smaller result averages all of x.
        exclude_outside: whether what is beyond the border has no weight.
        extrapolated: the value beyond the border for "tf_crop_and_resize".
    """

    mode: str
    places: str
    nearest: str
    cubic: float
    antialias: bool
    exclude_outside: bool
    extrapolated: float


def resize(
    x: Array,
    roi: Known | None = None,
    scales: Known | None = None,
    sizes: Known | None = None,
    *,
    antialias: int = 0,
    axes: tuple[int, ...] | None = None,
    coordinate_transformation_mode: str = "half_pixel",
    cubic_coeff_a: float = -0.75,
    exclude_outside: int = 0,
    extrapolation_value: float = 0.0,
    keep_aspect_ratio_policy: str = "stretch",
    mode: str = "nearest",
    nearest_mode: str = "round_prefer_floor",
    opset: int,
) -> Array:
    """`x` with other sizes."""
    if opset < 11:  # the second input was the scales
        return upsample(x, roi, mode=mode)
    sampling = Sampling(
        mode,
        coordinate_transformation_mode,
        nearest_mode,
        cubic_coeff_a,
        bool(antialias),
        bool(exclude_outside),
        extrapolation_value,
    )
    along = [a % x.ndim for a in (range(x.ndim) if axes is None else axes)]
    wanted, factors = _target(x, along, scales, sizes, keep_aspect_ratio_policy)
    regions = _regions(roi, len(along))
    return _resize_axes(x, along, wanted, factors, regions, sampling)


def upsample(
    x: Array,
    factors: Known | None = None,
    *,
    mode: str = "nearest",
    scales: tuple[float, ...] = (),
) -> Array:
    """`x` with sizes that are multiplied; the operator before Resize."""
    given = [float(f) for f in (scales if factors is None else factors.reshape(-1))]
    sampling = Sampling(mode, "asymmetric", "floor", -0.75, False, False, 0.0)
    wanted = [_scaled_size(n, f) for n, f in zip(x.shape, given, strict=True)]
    axes = list(range(x.ndim))
    return _resize_axes(x, axes, wanted, given, [(0.0, 1.0)] * x.ndim, sampling)


def _regions(roi: Known | None, count: int) -> list[tuple[float, float]]:
    if roi is None or roi.size != 2 * count:
        return [(0.0, 1.0)] * count
    ends = [float(end) for end in roi.reshape(-1)]
    return list(zip(ends[:count], ends[count:], strict=True))


def _target(
    x: Array,
    axes: Sequence[int],
    scales: Known | None,
    sizes: Known | None,
    policy: str,
) -> tuple[list[Size], list[float]]:
    """The new size of each axis, and its ratio to the old one."""
    have = [x.shape[axis] for axis in axes]
    if scales is not None and scales.size:
        given = [float(f) for f in scales.reshape(-1)]
        return [_scaled_size(n, f) for n, f in zip(have, given, strict=True)], given
    if sizes is None:
        fail("bad-node", "expected scales or sizes")
    wanted = list(integers(sizes))
    ratios = [_ratio(m, n) for m, n in zip(wanted, have, strict=True)]
    if policy == "stretch":
        return wanted, ratios
    pick: Callable[..., float] = min if policy == "not_larger" else max
    ratio = pick(ratios)
    kept: list[Size] = [math.floor(ratio * _static_size(n) + 0.5) for n in have]
    return kept, [ratio] * len(kept)


def _ratio(new: Size, old: Size) -> float:
    if new == old:
        return 1.0
    if isinstance(new, Dim) and isinstance(old, Dim):
        for factor in range(2, 17):
            if new == old * factor:
                return float(factor)
    return _static_size(new) / _static_size(old)


def _scaled_size(size: Size, factor: float) -> Size:
    if float(factor).is_integer():
        return size * int(factor)
    return math.floor(_static_size(size) * factor)


def _static_size(size: Size) -> int:
    if isinstance(size, Dim):
        fail(
            "symbolic-size",
            f"resizing the size '{size}' by a factor that is not whole needs a fixed "
            "one",
            "export the model with fixed image sizes",
        )
    return size


def _resize_axes(
    x: Array,
    axes: Sequence[int],
    sizes: Sequence[Size],
    factors: Sequence[float],
    regions: Sequence[tuple[float, float]],
    how: Sampling,
) -> Array:
    outside: dict[int, Numbers] = {}
    scaled = [axis for axis, factor in zip(axes, factors, strict=True) if factor != 1]
    is_image = min(scaled, default=0) > 1
    for axis, new, factor, region in zip(axes, sizes, factors, regions, strict=True):
        size = x.shape[axis]
        if new == size and factor == 1 and region == (0.0, 1.0):
            continue
        if how.mode == "nearest" and _repeats(factor, how):
            x = _repeat(x, int(factor), axis, is_image=is_image)
            continue
        places = _source_positions(
            _static_size(size), _static_size(new), factor, region, how.places
        )
        if how.places == "tf_crop_and_resize":
            outside[axis] = (places < 0) | (places > _static_size(size) - 1)
        x = _along(x, axis, places, factor, how)
    for axis, beyond in outside.items():
        shape = [-1 if i == axis else 1 for i in range(x.ndim)]
        x = np.where(beyond.reshape(shape), how.extrapolated, x)
    return x


def _repeats(factor: float, how: Sampling) -> bool:
    """Whether each element of x comes `factor` times, whatever its size."""
    if not float(factor).is_integer() or how.places == "align_corners":
        return False
    if how.places == "tf_crop_and_resize":
        return False
    count = 4 * int(factor)
    places = _source_positions(4, count, factor, (0.0, 1.0), how.places)
    found = numpy.clip(_nearest(places, how.nearest), 0, 3)
    return bool((found == numpy.arange(count) // int(factor)).all())


def _source_positions(
    size: int, new: int, factor: float, region: tuple[float, float], mode: str
) -> Numbers:
    """Where in x the elements of the result are."""
    i, length = numpy.arange(new, dtype=float), factor * size
    if mode == "align_corners":
        return i * ((size - 1) / (length - 1)) if length != 1 else i * 0.0
    if mode == "asymmetric":
        return i / factor
    if mode == "tf_crop_and_resize":
        first, last = (end * (size - 1) for end in region)
        if length == 1:
            return i * 0 + (first + last) / 2
        return first + i * (last - first) / (length - 1)
    if mode == "tf_half_pixel_for_nn":
        return (i + 0.5) / factor
    if mode == "pytorch_half_pixel" and new == 1:
        return i * 0 - 0.5
    centers = (i + 0.5) / factor - 0.5
    if mode == "half_pixel_symmetric":
        return centers + size / 2 * (1 - new / length)
    if mode not in ("half_pixel", "pytorch_half_pixel"):
        fail("bad-node", f"the coordinate_transformation_mode {mode!r} is none of ONNX")
    return centers


def _nearest(places: Numbers, mode: str) -> Numbers:
    rounding: dict[str, Callable[[Numbers], Numbers]] = {
        "round_prefer_floor": lambda x: numpy.ceil(x - 0.5),
        "round_prefer_ceil": lambda x: numpy.floor(x + 0.5),
        "floor": numpy.floor,
        "ceil": numpy.ceil,
        "simple": numpy.floor,
    }
    found: Numbers = rounding[mode](places).astype(int)
    return found


def _repeat(x: Array, factor: int, axis: int, *, is_image: bool) -> Array:
    """Each element so many times, of an image in the layout of convolutions."""
    if is_image:
        return apply_channels_last(np.repeat, x, factor, axis - 1)
    return np.repeat(x, factor, axis)


def _along(x: Array, axis: int, places: Numbers, factor: float, how: Sampling) -> Array:
    size = x.shape[axis].__index__()
    if how.mode == "nearest":
        index = numpy.clip(_nearest(places, how.nearest), 0, size - 1)
        return np.take(x, index.astype("i4"), axis)
    return interpolate_along(
        x,
        axis,
        places,
        how.mode,
        how.cubic,
        shrink=min(factor, 1.0) if how.antialias else 1.0,
        exclude_outside=how.exclude_outside,
    )


TABLE: dict[str, Imports] = {"Resize": resize, "Upsample": upsample}
