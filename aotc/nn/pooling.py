"""Pooling over windows of an image (N, spatial…, C), and over all of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy

from aotc import numpy as np
from aotc.core import dtypes
from aotc.dialects.types import Size
from aotc.nn.spatial import (
    Padding,
    Sides,
    Window,
    each,
    pad_for_op,
    pad_spatial,
    sides_of,
    spatial_rank,
    static_size,
)
from aotc.tracing.array import Array
from aotc.tracing.conversion import ArrayLike, as_float, to_accumulator
from aotc.tracing.source_locations import fail
from aotc.tracing.tracing import emit

__all__ = [
    "adaptive_avg_pool", "adaptive_max_pool", "avg_pool", "global_avg_pool",
    "global_lp_pool", "global_max_pool", "lp_pool", "max_pool", "sum_pool",
]  # fmt: skip


def max_pool(
    x: ArrayLike,
    window: Window,
    strides: Window | None = None,
    padding: Padding = "VALID",
    *,
    dilation: Window = 1,
    ceil_mode: bool = False,
) -> Array:
    """The largest element of each window.

    Args:
        x: N, spatial…, C.
        window: its size along each spatial axis.
        strides: steps between windows; they touch if it is None.
        padding: as for `conv`; what is around the image is never the largest.
        dilation: distance between the elements of a window.
        ceil_mode: whether a last window may reach beyond the padded image.
    """
    x = as_float(x)
    sides, attributes = windows_of(x, window, strides, padding, dilation, ceil_mode)
    x, numbers = pad_for_op(x, sides, -math.inf)
    return emit("max_pool", x, padding=numbers, **attributes)


def sum_pool(
    x: ArrayLike,
    window: Window,
    strides: Window | None = None,
    padding: Padding = "VALID",
    *,
    dilation: Window = 1,
    ceil_mode: bool = False,
) -> Array:
    """The sum over each window; see `max_pool`."""
    x = as_float(x)
    sides, attributes = windows_of(x, window, strides, padding, dilation, ceil_mode)
    x, numbers = pad_for_op(x, sides)
    return emit("sum_pool", x, padding=numbers, **attributes)


def avg_pool(
    x: ArrayLike,
    window: Window,
    strides: Window | None = None,
    padding: Padding = "VALID",
    *,
    dilation: Window = 1,
    ceil_mode: bool = False,
    count_include_pad: bool = False,
) -> Array:
    """The mean of each window; see `max_pool`.

    Zeros around the image only count with `count_include_pad`; what `ceil_mode` adds
    beyond the padding never does.
    """
    x = as_float(x)
    given, attributes = windows_of(x, window, strides, padding, dilation, False)
    sides, _ = windows_of(x, window, strides, padding, dilation, ceil_mode)
    wide = to_accumulator(x)
    sums = sum_pool(
        wide, window, strides, padding, dilation=dilation, ceil_mode=ceil_mode
    )
    counted = given if count_include_pad else (0,) * len(given)
    rest = tuple(side - own for side, own in zip(sides, counted, strict=True))
    if all(isinstance(side, int) and side == 0 for side in rest):
        means = np.divide(sums, float(math.prod(attributes["window"])))
        return np.astype(means, x.dtype)
    ones = pad_spatial(np.full((1, *x.shape[1:-1], 1), 1.0, wide.dtype), counted, 1.0)
    ones, numbers = pad_for_op(ones, rest)
    counts = emit("sum_pool", ones, padding=numbers, **attributes)
    return np.astype(np.divide(sums, counts), x.dtype)


def lp_pool(
    x: ArrayLike,
    p: float,
    window: Window,
    strides: Window | None = None,
    padding: Padding = "VALID",
    *,
    dilation: Window = 1,
    ceil_mode: bool = False,
) -> Array:
    """Compute (sum of |x|**p)**(1 / p) over each window; see `max_pool`."""
    _require_norm(p)
    x = as_float(x)
    sums = sum_pool(
        np.power(np.absolute(to_accumulator(x)), p),
        window,
        strides,
        padding,
        dilation=dilation,
        ceil_mode=ceil_mode,
    )
    return np.astype(np.power(sums, 1 / p), x.dtype)


def _require_norm(p: float) -> None:
    """Raise unless the exponent of a norm is positive."""
    if not p > 0:
        fail("bad-window", f"expected a norm p above 0; got {p}")


def windows_of(
    x: Array,
    window: Window,
    strides: Window | None,
    padding: Padding,
    dilation: Window,
    ceil_mode: bool,
) -> tuple[Sides, dict[str, Any]]:
    """Return the padding, and the window attributes, of a pooling op."""
    spatial = spatial_rank(x)
    sizes = each(window, spatial, "window")
    steps = sizes if strides is None else each(strides, spatial, "stride")
    spread = each(dilation, spatial, "dilation")
    sides = sides_of(padding, x.shape[1:-1], sizes, steps, spread)
    if ceil_mode:
        sides = _with_last_window(x, sides, sizes, steps, spread)
    return sides, {"window": sizes, "strides": steps, "dilation": spread}


def _with_last_window(
    x: Array,
    sides: Sides,
    window: Sequence[int],
    strides: Sequence[int],
    dilation: Sequence[int],
) -> Sides:
    """Extend the padding at the end if one more window can start inside the image."""
    result = list(sides)
    for axis, (w, s, d) in enumerate(zip(window, strides, dilation, strict=True)):
        if s == 1:
            continue
        low, high = (static_size(n, "padding") for n in sides[2 * axis : 2 * axis + 2])
        reach = d * (w - 1) + 1
        places = x.type.shape[1 + axis] + low + high - reach
        # From so many places that are left over on, one more window starts inside.
        enough = max(s + high - reach, 0) + 1
        result[2 * axis + 1] = high + _missing(places, s, enough)
    return tuple(result)


def _missing(places: Size, stride: int, enough: int) -> Size:
    """Return the padding for one more window if `enough` places are left over; else 0.

    Sizes have no comparisons: it is counted down from `stride - enough`.
    """
    if enough == 1:
        return -places % stride
    left_over = places % stride
    reached = [(left_over + stride - n) // stride for n in range(enough, stride)]
    return (stride - enough) * reached[0] - sum(reached[1:]) if reached else 0


# ---- over all of an image -----------------------------------------------------------


def global_avg_pool(x: ArrayLike, *, keepdims: bool = False) -> Array:
    """The mean over the spatial axes of x: [N, spatial…, C] gives [N, C].

    With `keepdims` these axes stay, with size 1.
    """
    x = as_float(x)
    return np.mean(x, _spatial_axes(x), keepdims=keepdims)


def global_max_pool(x: ArrayLike, *, keepdims: bool = False) -> Array:
    """The largest element over the spatial axes."""
    x = as_float(x)
    return np.max(x, _spatial_axes(x), keepdims=keepdims)


def global_lp_pool(x: ArrayLike, p: float, *, keepdims: bool = False) -> Array:
    """Compute (sum of |x|**p)**(1 / p) over the spatial axes."""
    _require_norm(p)
    x = as_float(x)
    powers = np.power(np.absolute(to_accumulator(x)), p)
    sums = np.sum(powers, _spatial_axes(x), keepdims=keepdims)
    return np.astype(np.power(sums, 1 / p), x.dtype)


def _spatial_axes(x: Array) -> tuple[int, ...]:
    """Return the axes of an image between batch and channels."""
    return tuple(range(1, 1 + spatial_rank(x)))


# ---- to a given size ----------------------------------------------------------------


def adaptive_avg_pool(x: ArrayLike, sizes: Window) -> Array:
    """The means of `sizes` bins along each spatial axis, as equal as they can be.

    Part i of n elements in m parts is from floor(i n / m) to ceil((i + 1) n / m).
    """

    def part_means(x: Array, axis: int, starts: Any, ends: Any) -> Array:
        places = numpy.arange(static_size(x.shape[axis], "image"))
        inside = (places >= starts[:, None]) & (places < ends[:, None])
        weights = inside / (ends - starts)[:, None]
        weights = weights.astype(dtypes.to_numpy(x.dtype))
        return np.moveaxis(np.tensordot(x, weights, ((axis,), (1,))), -1, axis)

    x = as_float(x)
    return np.astype(
        _adaptive_pool(to_accumulator(x), sizes, avg_pool, part_means), x.dtype
    )


def adaptive_max_pool(x: ArrayLike, sizes: Window) -> Array:
    """The largest elements of the bins that `adaptive_avg_pool` averages."""

    def part_maxima(x: Array, axis: int, starts: Any, ends: Any) -> Array:
        offsets = numpy.arange((ends - starts).max())
        places = numpy.minimum(starts[:, None] + offsets, ends[:, None] - 1)
        taken = np.take(x, places.ravel().astype("i4"), axis)
        shape = (*x.shape[:axis], *places.shape, *x.shape[axis + 1 :])
        return np.max(np.reshape(taken, shape), axis + 1)

    return _adaptive_pool(as_float(x), sizes, max_pool, part_maxima)


def _adaptive_pool(
    x: Array,
    sizes: Window,
    pool: Callable[[Array, Window], Array],
    along: Callable[[Array, int, object, object], Array],
) -> Array:
    """Pool by `pool` if bins are equal, else by `along` one axis after the other."""
    spatial = spatial_rank(x)
    wanted = each(sizes, spatial, "size")
    have = [static_size(n, "image") for n in x.shape[1:-1]]
    if all(n % m == 0 and n for n, m in zip(have, wanted, strict=True)):
        return pool(x, [n // m for n, m in zip(have, wanted, strict=True)])
    for axis, (n, m) in enumerate(zip(have, wanted, strict=True)):
        parts = numpy.arange(m)
        x = along(x, 1 + axis, parts * n // m, -(-(parts + 1) * n // m))
    return x
