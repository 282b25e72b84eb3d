"""Images of N, spatial…, C read at any place: by the nearest pixel or several."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from functools import reduce

from aotc import numpy as np
from aotc.dialects.types import Size, maximum
from aotc.tracing.array import Array
from aotc.tracing.conversion import ArrayLike, as_float, one_dtype
from aotc.tracing.source_locations import fail

__all__ = ["grid_sample"]

Places = Sequence[Array]


def pixels_at(image: Array, places: Places) -> Array:
    """Return the pixels at integer coordinates, clamped to the image's border.

    Args:
        image: N, spatial…, C.
        places: for each spatial axis, floats of the shape N, ….
    """
    n, *sizes, c = image.shape
    rank = places[0].ndim
    index = np.reshape(np.arange(n), (n, *(1,) * (rank - 1)))
    for size, place in zip(sizes, places, strict=True):
        inside = np.clip(np.astype(place, "i32"), 0, size - 1)
        index = np.add(np.multiply(index, size), inside)
    return np.take(np.reshape(image, (n * math.prod(sizes), c)), index, 0, mode="clip")


def inside_mask(image: Array, places: Places) -> Array:
    """Return whether coordinates are inside the image, with a last axis for
    channels.
    """
    inside = [
        np.logical_and(np.greater_equal(place, 0), np.less(place, size))
        for place, size in zip(places, image.shape[1:-1], strict=True)
    ]
    return np.expand_dims(reduce(np.logical_and, inside), -1)


# (first tap, share of each tap) of places along one axis
Taps = Callable[[Array], tuple[Array, list[Array]]]


def linear(place: Array) -> tuple[Array, list[Array]]:
    """Return the pixel before a coordinate, and linear weights of it and the next."""
    first = np.floor(place)
    share = np.subtract(place, first)
    return first, [np.subtract(1.0, share), share]


def cubic(place: Array) -> tuple[Array, list[Array]]:
    """Return the first of four pixels around a coordinate, and their cubic weights."""
    a, floor = -0.75, np.floor(place)
    t = np.subtract(place, floor)
    shares = []
    for offset in (-1, 0, 1, 2):
        d = np.absolute(np.subtract(t, float(offset)))
        if offset in (0, 1):
            shares.append(((a + 2) * d - (a + 3)) * d * d + 1)
        else:
            shares.append(((d - 5) * d + 8) * d * a - 4 * a)
    return np.subtract(floor, 1.0), shares


def interpolate(places: Places, taps: Taps, pixels: Callable[[Places], Array]) -> Array:
    """Return the sum of `pixels` around coordinates, weighted by `taps`."""
    firsts, shares = zip(*map(taps, places), strict=True)
    terms = []
    for offsets in itertools.product(*(range(len(each)) for each in shares)):
        at = [np.add(first, o) for first, o in zip(firsts, offsets, strict=True)]
        own = [each[o] for each, o in zip(shares, offsets, strict=True)]
        weight = np.expand_dims(reduce(np.multiply, own), -1)
        terms.append(np.multiply(pixels(at), weight))
    return reduce(np.add, terms)


def to_pixels(place: Array, size: Size, align_corners: bool) -> Array:
    """Convert a coordinate from [-1, 1] to pixels."""
    half = np.multiply(np.add(place, 1.0), 0.5)
    if align_corners:
        return np.multiply(half, size - 1)
    return np.subtract(np.multiply(half, size), 0.5)


def reflect(place: Array, size: Size, align_corners: bool) -> Array:
    """Reflect coordinates outside the image at its borders."""
    low = 0.0 if align_corners else -0.5
    span = np.asarray(maximum(size - 1, 1) if align_corners else size, place.dtype)
    away = np.absolute(np.subtract(place, low))
    turn = np.multiply(span, 2.0)
    round_trip = np.remainder(away, turn)
    return np.add(np.minimum(round_trip, np.subtract(turn, round_trip)), low)


# ---- grids --------------------------------------------------------------------------

METHODS = ("linear", "nearest", "cubic")
PADDINGS = ("zeros", "border", "reflection")


def grid_sample(
    x: ArrayLike,
    grid: ArrayLike,
    method: str = "linear",
    padding: str = "zeros",
    *,
    align_corners: bool = False,
) -> Array:
    """Return the image interpolated at the coordinates of `grid`.

    Args:
        x: N, spatial…, C.
        grid: N, …, as many numbers as there are spatial axes: each place, the last axis
            first ((x, y) for H, W), from -1 (left, top) to 1.
        method: "linear", "nearest" or "cubic".
        padding: what is beyond the border: "zeros", the nearest pixel for "border", or
            what a mirror at the border shows for "reflection".
        align_corners: whether -1 and 1 are the centers of the outer pixels, or their
            edges.

    Returns:
        N, …, C.
    """
    x, grid = one_dtype(as_float(x), grid)
    _require_sampling(x, grid, method, padding)
    sizes = x.shape[1:-1]
    places = [
        to_pixels(grid[..., len(sizes) - 1 - axis], size, align_corners)
        for axis, size in enumerate(sizes)
    ]

    def inside(at: Places) -> Places:
        if padding != "reflection":
            return at
        pairs = zip(at, sizes, strict=True)
        return [reflect(place, size, align_corners) for place, size in pairs]

    def pixels(at: Places) -> Array:
        found = pixels_at(x, at)
        return np.where(inside_mask(x, at), found, 0.0) if padding == "zeros" else found

    if method == "cubic":
        return interpolate(places, cubic, lambda at: pixels(inside(at)))
    places = list(inside(places))
    if padding != "zeros":
        pairs = zip(places, sizes, strict=True)
        places = [np.clip(place, 0, size - 1) for place, size in pairs]
    if method == "nearest":
        return pixels([np.round(place) for place in places])
    return interpolate(places, linear, pixels)


def _require_sampling(x: Array, grid: Array, method: str, padding: str) -> None:
    """Raise for shapes that do not fit, and unknown methods or paddings."""
    spatial, shape = x.ndim - 2, grid.type.shape
    if spatial < 1 or shape[-1:] != (spatial,) or shape[:1] != x.type.shape[:1]:
        fail(
            "shape-mismatch",
            "expected x as N, spatial…, C and a grid N, …, spatial axes; got "
            f"{x.type}, {grid.type}",
        )
    for value, known, what in (
        (method, METHODS, "method"),
        (padding, PADDINGS, "padding"),
    ):
        if value not in known:
            fail("bad-method", f"expected {what} {', '.join(known)}; got {value!r}")
