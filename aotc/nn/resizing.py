"""Images of other sizes: interpolation, pixel shuffling, and sampling at any place."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy

from aotc import dtypes
from aotc import numpy as np
from aotc.dialects.types import Size
from aotc.nn.spatial import spatial_rank, static_size
from aotc.tracing.array import Array
from aotc.tracing.conversion import ArrayLike, as_float, lift
from aotc.tracing.source_locations import fail

Scale = float | Sequence[float]

Numbers = numpy.ndarray[Any, Any]

METHODS = ("nearest", "linear", "cubic")
COORDINATES = ("half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel")


def resize(
    x: ArrayLike,
    sizes: Size | Sequence[Size] | None = None,
    method: str = "linear",
    *,
    scale: Scale | None = None,
    coordinates: str = "half_pixel",
    antialias: bool = False,
    cubic: float = -0.75,
) -> Array:
    """An image with other spatial sizes.

    Places beyond the border take the nearest pixel; with `antialias` they do not count.

    Args:
        x: N, spatial…, C.
        sizes: the new spatial sizes; by default the old ones times `scale`, rounded
            down.
        method: "nearest", "linear" or "cubic".
        scale: the ratio of a new pixel's place to the old one's, for each spatial axis
            or one for all; by default that of the sizes.
        coordinates: where pixel i of the result is in x (o and n are the sizes):
            "half_pixel" (i + 1/2) n / o - 1/2, "align_corners" i (n - 1) / (o - 1),
            "asymmetric" i n / o, "pytorch_half_pixel" as "half_pixel", but 0 for o = 1.
        antialias: whether pixels of the result that are larger than those of x average
            all of x that they cover.
        cubic: parameter of the cubic kernel, -0.5 in Keys (1981).
    """
    image = as_float(x)
    for value, known, what in (
        (method, METHODS, "method"),
        (coordinates, COORDINATES, "coordinates"),
    ):
        if value not in known:
            fail(f"bad-{what}", f"expected {what} {', '.join(known)}; got {value!r}")
    wanted, factors = _target(image, sizes, scale)
    for axis, (new, factor) in enumerate(zip(wanted, factors, strict=True), 1):
        if method == "nearest":
            image = _nearest(image, axis, new, factor, coordinates)
        elif new != image.shape[axis] or factor != 1:
            size = static_size(image.shape[axis], "image")
            places = _source_positions(
                size, static_size(new, "image"), factor, coordinates
            )
            shrink = min(factor, 1.0) if antialias else 1.0
            image = interpolate_along(
                image,
                axis,
                places,
                method,
                cubic,
                shrink=shrink,
                exclude_outside=antialias,
            )
    return image


def _target(
    x: Array, sizes: Size | Sequence[Size] | None, scale: Scale | None
) -> tuple[list[Size], list[float]]:
    """The new spatial sizes, and their ratios to the old ones."""
    spatial = spatial_rank(x)
    given = sizes if scale is None else scale
    if given is None:
        fail("bad-size", "expected sizes or a scale")
    values = _each(given, spatial)
    have = x.shape[1:-1]
    if scale is None:
        numbers = [static_size(n, "image, for given sizes,") for n in have]
        wanted = [static_size(m, "image, without a scale,") for m in values]
        return values, [m / n for m, n in zip(wanted, numbers, strict=True)]
    if sizes is not None:
        return _each(sizes, spatial), values
    return [_scaled_size(n, f) for n, f in zip(have, values, strict=True)], values


def _each(given: Any, spatial: int) -> list[Any]:
    """One positive number per spatial axis."""
    many = isinstance(given, (list, tuple))
    values = list(given) if many else [given] * spatial
    finite = all(math.isfinite(value) for value in values if isinstance(value, float))
    if len(values) != spatial or not finite or any(value <= 0 for value in values):
        fail(
            "bad-size",
            f"expected one positive number, or one per spatial axis ({spatial}); "
            f"got {given!r}",
        )
    return values


def _scaled_size(size: Size, factor: float) -> Size:
    if float(factor).is_integer():
        return size * int(factor)
    return math.floor(
        static_size(size, "image, for a scale that is not whole,") * factor
    )


def _source_positions(size: int, new: int, factor: float, coordinates: str) -> Any:
    """Where in x the pixels of the result are."""
    i = numpy.arange(new)
    if coordinates == "align_corners":
        return i * ((size - 1) / (new - 1) if new > 1 else 0.0)
    if coordinates == "asymmetric":
        return i / factor
    if coordinates == "pytorch_half_pixel" and new == 1:
        return i * 0.0
    return (i + 0.5) / factor - 0.5


def _nearest(x: Array, axis: int, new: Size, factor: float, coordinates: str) -> Array:
    """By position; halves round up, "asymmetric" rounds down."""
    repeats = float(factor).is_integer() and factor >= 1
    if repeats and coordinates != "align_corners":
        return x if factor == 1 else np.repeat(x, int(factor), axis)
    size = static_size(x.shape[axis], "image")
    places = _source_positions(size, static_size(new, "image"), factor, coordinates)
    half = 0.0 if coordinates == "asymmetric" else 0.5
    index = numpy.clip(numpy.floor(places + half), 0, max(size - 1, 0))
    return np.take(x, index.astype("i4"), axis)


def interpolate_along(
    x: Array,
    axis: int,
    places: Numbers,
    method: str,
    cubic: float,
    *,
    shrink: float = 1.0,
    exclude_outside: bool = False,
) -> Array:
    """The elements at places along an axis: a matrix product.

    Args:
        x: an array whose axis has a fixed size.
        axis: which one.
        places: positions in x, one for each of the result.
        method: "linear" or "cubic".
        cubic: parameter of the cubic kernel.
        shrink: what distances are multiplied by: less than 1 averages more of x.
        exclude_outside: whether what is beyond the border has no weight; else it is as
            the nearest element.
    """
    size = static_size(x.shape[axis], "image")
    reach, kernel = (1, _linear) if method == "linear" else (2, _cubic(cubic))
    span = math.ceil(reach / shrink)
    taps = numpy.floor(places)[:, None] + numpy.arange(1 - span, span + 1)
    shares = kernel(numpy.abs(taps - places[:, None]) * shrink)
    if exclude_outside:
        shares = numpy.where((taps < 0) | (taps > size - 1), 0.0, shares)
    shares = shares / shares.sum(1, keepdims=True)
    weights = numpy.zeros((len(places), size))
    columns = numpy.clip(taps, 0, size - 1).astype(int)
    rows = numpy.broadcast_to(numpy.arange(len(places))[:, None], columns.shape)
    numpy.add.at(weights, (rows, columns), shares)
    matrix = weights.astype(dtypes.to_numpy(x.dtype))
    return np.moveaxis(np.tensordot(x, matrix, ((axis,), (1,))), -1, axis)


def _linear(distance: Numbers) -> Numbers:
    found: Numbers = numpy.maximum(1 - distance, 0)
    return found


def _cubic(a: float) -> Callable[[Numbers], Numbers]:
    """Keys, "Cubic convolution interpolation for digital image processing", 1981."""

    def kernel(d: Numbers) -> Numbers:
        near = ((a + 2) * d - (a + 3)) * d * d + 1
        far = ((d - 5) * d + 8) * d * a - 4 * a
        found: Numbers = numpy.where(d <= 1, near, numpy.where(d < 2, far, 0))
        return found

    return kernel


# ---- space and depth ----------------------------------------------------------------


def depth_to_space(x: ArrayLike, block: int) -> Array:
    """Channels as blocks of pixels: N, H, W, block * block * C → N, H b, W b, C."""
    x, b = _blocks(x, block)
    n, h, w, c = x.type.shape
    if c % (b * b) != 0:
        fail("shape-mismatch", f"the channels of {x.type} do not divide by {b * b}")
    split = np.reshape(x, (n, h, w, b, b, c // (b * b)))
    return np.reshape(
        np.transpose(split, (0, 1, 3, 2, 4, 5)), (n, h * b, w * b, c // (b * b))
    )


def space_to_depth(x: ArrayLike, block: int) -> Array:
    """The inverse of `depth_to_space`."""
    x, b = _blocks(x, block)
    n, h, w, c = x.type.shape
    if h % b != 0 or w % b != 0:
        fail("shape-mismatch", f"the image of {x.type} does not divide by {b}")
    split = np.reshape(x, (n, h // b, b, w // b, b, c))
    return np.reshape(
        np.transpose(split, (0, 1, 3, 2, 4, 5)), (n, h // b, w // b, b * b * c)
    )


def pixel_shuffle(x: ArrayLike, factor: int) -> Array:
    """`depth_to_space` with the channels in PyTorch's order, C before the blocks."""
    return depth_to_space(_regroup_channels(x, factor, before=True), factor)


def pixel_unshuffle(x: ArrayLike, factor: int) -> Array:
    """The inverse of `pixel_shuffle`."""
    return _regroup_channels(space_to_depth(x, factor), factor, before=False)


def _regroup_channels(x: ArrayLike, factor: int, before: bool) -> Array:
    """Channels C, blocks as blocks, C (`before`), or the other way."""
    x, b = _blocks(x, factor)
    *rest, c = x.type.shape
    if c % (b * b) != 0:
        fail("shape-mismatch", f"the channels of {x.type} do not divide by {b * b}")
    groups = (c // (b * b), b * b) if before else (b * b, c // (b * b))
    split = np.reshape(x, (*rest, *groups))
    return np.reshape(np.swapaxes(split, -1, -2), x.shape)


def _blocks(x: ArrayLike, block: int) -> tuple[Array, int]:
    x = lift(x)
    if x.ndim != 4 or not isinstance(block, int) or block < 1:
        fail(
            "bad-window",
            f"expected x as N, H, W, C and a block of at least 1; got {x.type} and "
            f"{block}",
        )
    return x, block
