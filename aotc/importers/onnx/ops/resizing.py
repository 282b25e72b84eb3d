"""Resizing, along each axis by a matrix of weights or by positions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy

from aotc import numpy as np
from aotc.artifacts.conditions import Condition
from aotc.core import dtypes
from aotc.dialects.types import Size, bounds
from aotc.importers.common.channels import apply_channels_last
from aotc.importers.common.scaling import scaled_size
from aotc.importers.common.size_conditions import require_sizes
from aotc.importers.onnx.calling import Imports
from aotc.importers.onnx.values import Known, integers
from aotc.nn.interpolation import (
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
from aotc.tracing.source_locations import fail

# what a size is multiplied by; an array where a call decides it
Factor = numpy.floating | Array


@dataclass(frozen=True)
class Sampling:
    """The interpolation mode and coordinate conventions of a Resize node.

    Args:
        mode: "nearest", "linear" or "cubic".
        places: ONNX's coordinate_transformation_mode.
        nearest: its nearest_mode; "simple" for operators that had none.
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
    """Return x resampled to other sizes."""
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
    wanted, factors = _target_sizes(x, along, scales, sizes, keep_aspect_ratio_policy)
    regions = _regions(roi, len(along))
    return _resize_axes(x, along, wanted, factors, regions, sampling)


def upsample(
    x: Array,
    factors: Known | None = None,
    *,
    mode: str = "nearest",
    scales: tuple[float, ...] = (),
) -> Array:
    """Return x resampled to sizes that are multiplied by factors (before Resize)."""
    listed = scales if factors is None else factors.reshape(-1)
    given = [numpy.float32(f) for f in listed]
    wanted = [_scaled_size(n, f) for n, f in zip(x.shape, given, strict=True)]
    whole = [(0.0, 1.0)] * x.ndim
    sampling = Sampling(mode, "asymmetric", "simple", -0.75, False, False, 0.0)
    return _resize_axes(x, range(x.ndim), wanted, given, whole, sampling)


def _regions(roi: Known | None, count: int) -> list[tuple[float, float]]:
    """Return the (start, end) region of each axis, relative to its size."""
    if roi is None or roi.size != 2 * count:
        return [(0.0, 1.0)] * count
    ends = [float(end) for end in roi.reshape(-1)]
    return list(zip(ends[:count], ends[count:], strict=True))


def _target_sizes(
    x: Array,
    axes: Sequence[int],
    scales: Known | None,
    sizes: Known | None,
    policy: str,
) -> tuple[list[Size], list[Factor]]:
    """Return the new size of each axis, and its scale factor."""
    have = [x.shape[axis] for axis in axes]
    if scales is not None and scales.size:
        given = [numpy.float32(f) for f in scales.reshape(-1)]
        return [_scaled_size(n, f) for n, f in zip(have, given, strict=True)], [*given]
    if sizes is None:
        fail("bad-node", "expected scales or sizes")
    wanted = list(integers(sizes))
    ratios = [_ratio(m, n) for m, n in zip(wanted, have, strict=True)]
    if policy == "stretch":
        return wanted, ratios
    pick: Callable[..., Any] = min if policy == "not_larger" else max
    ratio = numpy.float32(pick(map(_known_ratio, ratios)))
    kept = [_rounded_size(n, ratio) for n in have]
    return kept, [ratio] * len(kept)


def _ratio(new: Size, old: Size) -> Factor:
    """Return the ratio of two sizes, as an array where it is only known in a call."""
    repeats = whole_ratio(new, old)
    if repeats:
        return numpy.float32(repeats)
    _, after, before = grid(new, old)
    ratio: Factor = after / before
    return ratio


def _known_ratio(ratio: Factor) -> numpy.floating:
    """Return a ratio that is known at build time; refuse any other."""
    if isinstance(ratio, Array):
        fail(
            "symbolic-size",
            "which of the sizes keeps the aspect ratio depends on the sizes of a call",
            "export the model with fixed image sizes",
        )
    return ratio


def _scaled_size(size: Size, factor: numpy.floating) -> Size:
    """Return a size times a factor in f32, rounded down."""
    return scaled_size(size, float(factor), numpy.float32)


def _rounded_size(size: Size, factor: numpy.floating) -> Size:
    """Return a static size times a factor in f32, rounded to nearest."""
    known = static_size(size, "image, to keep its aspect ratio,")
    return int(numpy.floor(numpy.float32(known) * factor + numpy.float32(0.5)))


def _resize_axes(
    x: Array,
    axes: Sequence[int],
    sizes: Sequence[Size],
    factors: Sequence[Factor],
    regions: Sequence[tuple[float, float]],
    sampling: Sampling,
) -> Array:
    """Return x resampled along axes to new sizes."""
    changed = [
        (axis, new, factor, region)
        for axis, new, factor, region in zip(axes, sizes, factors, regions, strict=True)
        if not (_is_one(factor) and whole_ratio(new, x.shape[axis]) == 1)
        or (sampling.places == "tf_crop_and_resize" and region != (0.0, 1.0))
    ]
    pairs = [(new, x.shape[axis]) for axis, new, _, _ in changed]
    if sampling.places == "tf_crop_and_resize":
        _require_other_size(pairs)
    if all(whole_ratio(new, old) == 1 for new, old in pairs):
        return x  # as ONNX Runtime and PyTorch, whatever the factors were
    is_image = min((axis for axis, *_ in changed), default=0) > 1
    outside: dict[int, Places] = {}
    for axis, new, factor, region in changed:
        size = x.shape[axis]
        repeats = whole_ratio(new, size)
        if (
            sampling.mode == "nearest"
            and repeats
            and _repeats(factor, repeats, sampling)
        ):
            x = _repeat(x, repeats, axis, is_image=is_image)
            continue
        places = _source_positions(size, new, factor, region, sampling.places)
        places = _positions_unless_unchanged(pairs, places)
        if sampling.places == "tf_crop_and_resize":
            outside[axis] = _is_outside(places, size)
        x = _resample_axis(x, axis, new, places, factor, sampling)
    for axis, beyond in outside.items():
        shape = [-1 if i == axis else 1 for i in range(x.ndim)]
        x = np.where(beyond.reshape(shape), sampling.extrapolated, x)
    return x


def _require_other_size(pairs: Sequence[tuple[Size, Size]]) -> None:
    """Require that some (new, old) differ; ONNX Runtime else returns the input
    uncropped.
    """
    if not pairs:
        return
    sizes = {f"new{i}": new for i, (new, _) in enumerate(pairs)}
    sizes |= {f"old{i}": old for i, (_, old) in enumerate(pairs)}
    text = " or ".join(f"new{i} != old{i}" for i in range(len(pairs)))
    why = "ONNX defines a part of the input, and ONNX Runtime returns all of it"
    require_sizes(Condition.parse(text), sizes, why)


def _positions_unless_unchanged(
    pairs: Sequence[tuple[Size, Size]], places: Places
) -> Places:
    """Return the source positions; 0, 1, … in calls where each (new, old) is equal."""
    if not isinstance(places, Array):
        return places
    if any(low > 0 or high < 0 for low, high in (bounds(n - m) for n, m in pairs)):
        return places
    same = [np.equal(lift(new, "i64"), lift(old, "i64")) for new, old in pairs]
    every = reduce(np.logical_and, same)
    return np.where(every, np.arange(0, places.shape[0], dtype=places.dtype), places)


def _is_one(factor: Factor) -> bool:
    """Return whether a scale factor is known and 1."""
    return not isinstance(factor, Array) and factor == 1


def _is_outside(places: Places, size: Size) -> Places:
    """Return a mask of the source positions that lie outside of an axis."""
    _, _, length = grid(size, size) if isinstance(places, Array) else (0, 0, size)
    found: Places = module_of(places).logical_or(places < 0, places > length - 1)
    return found


def _repeats(factor: Factor, repeats: int, sampling: Sampling) -> bool:
    """Return whether resampling repeats each element `repeats` times, for any size."""
    if isinstance(factor, Array) or factor != repeats:
        return False
    if sampling.places in ("align_corners", "tf_crop_and_resize"):
        return False
    places = _source_positions(4, 4 * repeats, factor, (0.0, 1.0), sampling.places)
    found = numpy.clip(_nearest(places, sampling.nearest), 0, 3)
    return bool((found == numpy.arange(4 * repeats) // repeats).all())


def _source_positions(
    size: Size, new: Size, factor: Factor, region: tuple[float, float], mode: str
) -> Places:
    """Return the source position of each element of the result along an axis.

    In f32 and in the order of ONNX Runtime, whose roundings decide between neighbours.
    """
    if mode not in _POSITIONS:
        fail("bad-node", f"the coordinate_transformation_mode {mode!r} is none of ONNX")
    i, after, before = grid(new, size)
    line = _AxisCoordinates(i, after, before, factor, *map(numpy.float32, region))
    found: Places = _POSITIONS[mode](line)
    return found


@dataclass(frozen=True)
class _AxisCoordinates:
    """The operands of a coordinate transformation along an axis.

    Args:
        i: 0, 1, … below the new size.
        after: the new size.
        before: the old one.
        factor: between them, or what is given for it.
        first: where a crop begins, of 0 to 1.
        last: where it ends.
    """

    i: Any
    after: Any
    before: Any
    factor: Any
    first: Any
    last: Any

    def choose_by_length(self, several: object, one: object) -> object:
        """Select between the positions for an axis longer than 1, and those for
        size 1.
        """
        return module_of(self.after).where(self.after > 1, several, one)

    @property
    def steps(self) -> Any:
        """Number of steps from the first element of the result to the last, at
        least 1.
        """
        return module_of(self.after).maximum(self.after - 1, 1)


_HALF = numpy.float32(0.5)


def _half_pixel(x: _AxisCoordinates) -> object:
    """Return source positions with pixel centres at one half."""
    return (x.i + _HALF) / x.factor - _HALF


def _symmetric(x: _AxisCoordinates) -> object:
    """Return source positions by pixel centres, symmetric around the image's middle."""
    edge = x.before / 2 * (1 - x.after / (x.factor * x.before))
    i, edge, ratio = (_cast(part, "f64") for part in (x.i, edge, x.factor))
    return _cast(edge + (i + 0.5) / ratio - 0.5, "f32")


def _crop(x: _AxisCoordinates) -> object:
    """Return source positions spread over the region from `first` to `last`."""
    ends = x.before - 1
    several = x.first * ends + x.i * (x.last - x.first) * ends / x.steps
    return x.choose_by_length(several, _HALF * (x.first + x.last) * ends)


# by coordinate_transformation_mode
_POSITIONS: dict[str, Callable[[_AxisCoordinates], Any]] = {
    "half_pixel": _half_pixel,
    "half_pixel_symmetric": _symmetric,
    "pytorch_half_pixel": lambda x: x.choose_by_length(
        _half_pixel(x), numpy.float32(0)
    ),
    "align_corners": lambda x: x.i * (x.before - 1) / x.steps,
    "asymmetric": lambda x: x.i / x.factor,
    "tf_crop_and_resize": _crop,
    "tf_half_pixel_for_nn": lambda x: (x.i + _HALF) / x.factor,
}


def _cast(x: Known | Array, dtype: str) -> Any:
    """Return NumPy numbers, or traced positions, converted to a dtype."""
    if isinstance(x, Array):
        return np.astype(x, dtype)
    return x.astype(dtypes.to_numpy(dtype))


def _rounding(sampling: Sampling, factor: Factor) -> str:
    """Return the nearest_mode; for old operators, the rounding of ONNX Runtime."""
    if sampling.nearest != "simple":
        return sampling.nearest
    return "ceil" if not isinstance(factor, Array) and factor < 1 else "floor"


def _nearest(places: Places, mode: str) -> Places:
    """Return positions rounded to integers by a nearest_mode."""
    xp = module_of(places)
    low = xp.floor(places)
    found: Places = xp.ceil(places) if mode == "ceil" else low
    if mode in _HALVES:
        found = xp.where(places - low > 0.5 + _HALVES[mode], low + 1, low)
    return found


# by how much more than a half it takes to round up; ONNX Runtime takes for a half what
# is nearer to one than 1e-6
_HALVES = {"round_prefer_floor": 1e-6, "round_prefer_ceil": -1e-6}


def _repeat(x: Array, factor: int, axis: int, *, is_image: bool) -> Array:
    """Return x with each element repeated along an axis."""
    if is_image:
        return apply_channels_last(np.repeat, x, factor, axis - 1)
    return np.repeat(x, factor, axis)


def _resample_axis(
    x: Array, axis: int, new: Size, places: Places, factor: Factor, sampling: Sampling
) -> Array:
    """Return x resampled along one axis."""
    if sampling.mode == "nearest":
        return take_along(x, axis, _nearest(places, _rounding(sampling, factor)))
    known = None if isinstance(factor, Array) else float(factor)
    shrink = (
        min(shrinking(x.shape[axis], new, known), 1.0) if sampling.antialias else 1.0
    )
    return interpolate_along(
        x,
        axis,
        places,
        sampling.mode,
        sampling.cubic,
        shrink=shrink,
        exclude_outside=sampling.exclude_outside,
    )


TABLE: dict[str, Imports] = {"Resize": resize, "Upsample": upsample}
