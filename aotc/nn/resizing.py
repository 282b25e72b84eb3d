"""Images of other sizes: interpolation, pixel shuffling, and sampling at any place."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from aotc import numpy as np
from aotc.dialects.types import Size
from aotc.nn.interpolation import (
    Places,
    grid,
    interpolate_along,
    module_of,
    shrinking,
    take_along,
    whole_ratio,
)
from aotc.nn.spatial import spatial_rank, static_size
from aotc.tracing.array import Array
from aotc.tracing.conversion import ArrayLike, as_float, lift
from aotc.tracing.source_locations import fail

__all__ = [
    "depth_to_space", "pixel_shuffle", "pixel_unshuffle", "resize", "space_to_depth",
]  # fmt: skip

Scale = float | Sequence[float]

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
    """Resize the spatial axes of an image by interpolation.

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
        size = image.shape[axis]
        if whole_ratio(new, size) == 1 and factor in (None, 1):
            continue
        dtype = _place_dtype(image, size, new)
        if method == "nearest":
            image = _nearest(image, axis, new, factor, coordinates, dtype)
            continue
        image = interpolate_along(
            image,
            axis,
            _source_positions(size, new, factor, coordinates, dtype),
            method,
            cubic,
            shrink=min(shrinking(size, new, factor), 1.0) if antialias else 1.0,
            exclude_outside=antialias,
        )
    return image


def _place_dtype(x: Array, *sizes: Size) -> str:
    """Return the dtype of coordinates: f64 for static sizes and f64 images, else
    f32.
    """
    known = all(isinstance(size, int) for size in sizes)
    return "f64" if known or x.dtype == "f64" else "f32"


def _target(
    x: Array, sizes: Size | Sequence[Size] | None, scale: Scale | None
) -> tuple[list[Size], list[float | None]]:
    """Return the new spatial sizes, and scale factors where the user gave them."""
    spatial = spatial_rank(x)
    given = sizes if scale is None else scale
    if given is None:
        fail("bad-size", "expected sizes or a scale")
    values = _each(given, spatial)
    if scale is None:
        return values, [None] * spatial
    if sizes is not None:
        return _each(sizes, spatial), values
    pairs = zip(x.shape[1:-1], values, strict=True)
    return [_scaled_size(n, f) for n, f in pairs], values


def _scaled_size(size: Size, factor: float) -> Size:
    """Return a size times a factor, rounded down."""
    if float(factor).is_integer():
        return size * int(factor)
    return math.floor(
        static_size(size, "image, for a scale that is not whole,") * factor
    )


def _each(given: Any, spatial: int) -> list[Any]:
    """Return one positive number, or a sequence, as a list per spatial axis; or
    raise.
    """
    many = isinstance(given, (list, tuple))
    values = list(given) if many else [given] * spatial
    numbers = [value for value in values if isinstance(value, (int, float))]
    positive = all(math.isfinite(value) and value > 0 for value in numbers)
    if len(values) != spatial or not positive:
        fail(
            "bad-size",
            f"expected one positive number, or one per spatial axis ({spatial}); "
            f"got {given!r}",
        )
    return values


def _source_positions(
    size: Size, new: Size, factor: float | None, coordinates: str, dtype: str
) -> Places:
    """Return the coordinate in x of each pixel of the result, along one axis."""
    i, after, before = grid(new, size, dtype)
    xp = module_of(after)
    ratio = after / before if factor is None else factor
    found: Places
    if coordinates == "align_corners":
        found = i * ((before - 1) / xp.maximum(after - 1, 1))
    elif coordinates == "asymmetric":
        found = i / ratio
    else:
        found = (i + 0.5) / ratio - 0.5
        if coordinates == "pytorch_half_pixel":
            found = xp.where(after > 1, found, 0.0)
    return found


def _nearest(
    x: Array, axis: int, new: Size, factor: float | None, coordinates: str, dtype: str
) -> Array:
    """Resize one axis by nearest neighbours; "asymmetric" rounds down."""
    size = x.shape[axis]
    repeats = whole_ratio(new, size)
    if repeats and factor in (None, repeats) and coordinates != "align_corners":
        return x if repeats == 1 else np.repeat(x, repeats, axis)
    places = _source_positions(size, new, factor, coordinates, dtype)
    half = 0.0 if coordinates == "asymmetric" else 0.5
    return take_along(x, axis, module_of(places).floor(places + half))


# ---- space and depth ----------------------------------------------------------------


def depth_to_space(x: ArrayLike, block: int) -> Array:
    """Move channels to blocks of pixels: N, H, W, block² C → N, H b, W b, C."""
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
    """Swap channels and block positions in the last axis; `before` says channels are
    first.
    """
    x, b = _blocks(x, factor)
    *rest, c = x.type.shape
    if c % (b * b) != 0:
        fail("shape-mismatch", f"the channels of {x.type} do not divide by {b * b}")
    groups = (c // (b * b), b * b) if before else (b * b, c // (b * b))
    split = np.reshape(x, (*rest, *groups))
    return np.reshape(np.swapaxes(split, -1, -2), x.shape)


def _blocks(x: ArrayLike, block: int) -> tuple[Array, int]:
    """Return the image and block size, after checking both."""
    x = lift(x)
    if x.ndim != 4 or not isinstance(block, int) or block < 1:
        fail(
            "bad-window",
            f"expected x as N, H, W, C and a block of at least 1; got {x.type} and "
            f"{block}",
        )
    return x, block
