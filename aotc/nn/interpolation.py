"""Elements of an array at places between them, along one axis.

Places are numbers of NumPy where all sizes are numbers, and traced arrays where a call
decides one: the formulas are written once, for both.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy

from aotc import numpy as np
from aotc.core import dtypes
from aotc.dialects.types import Size, quotient
from aotc.nn.spatial import static_size
from aotc.tracing.array import Array
from aotc.tracing.conversion import lift

Numbers = numpy.ndarray
Places = Numbers | Array
Number = numpy.floating | Array


# ---- sizes --------------------------------------------------------------------------


def whole_ratio(new: Size, old: Size) -> int | None:
    """Return new / old if that is one integer for all symbol values; else None."""
    ratio = quotient((new,), (old,))
    return ratio if isinstance(ratio, int) else None


def shrinking(size: Size, new: Size, factor: float | None = None) -> float:
    """Return the scale of a resize, new / old; raise if a symbolic size decides it.

    Raises:
        InputError: only a call decides it.
    """
    if factor is not None:
        return factor
    repeats, averages = whole_ratio(new, size), whole_ratio(size, new)
    if repeats:
        return float(repeats)
    if averages:
        return 1 / averages
    return static_size(new, "image, to be averaged,") / static_size(size, "image")


# ---- places -------------------------------------------------------------------------


def grid(new: Size, old: Size, dtype: str = "f32") -> tuple[Places, Number, Number]:
    """Return the coordinates 0 … new - 1, and both sizes, as floats."""
    if isinstance(new, int) and isinstance(old, int):
        kind = dtypes.to_numpy(dtype).type
        return numpy.arange(new, dtype=kind), kind(new), kind(old)
    return (
        np.arange(0, new, dtype=dtype),
        np.astype(lift(new, "i64"), dtype),
        np.astype(lift(old, "i64"), dtype),
    )


def module_of(places: Number | Places) -> Any:
    """Return NumPy for NumPy coordinates, `aotc.numpy` for traced ones."""
    return np if isinstance(places, Array) else numpy


# ---- elements -----------------------------------------------------------------------


def take_along(x: Array, axis: int, places: Places) -> Array:
    """Return the elements at integer coordinates along an axis, clamped to its ends."""
    index = module_of(places).clip(places, 0, _last(x, axis, places))
    if isinstance(index, Array):
        return np.take(x, np.astype(index, "i32"), axis)
    return np.take(x, index.astype("i4"), axis)


def _last(x: Array, axis: int, places: Places) -> int | Array:
    """Return the coordinate of the last element, in the type of `places`."""
    size = x.shape[axis]
    if isinstance(places, Array):
        return np.maximum(np.astype(lift(size, "i64"), places.dtype) - 1, 0)
    return max(static_size(size, "image") - 1, 0)


def interpolate_along(
    x: Array,
    axis: int,
    places: Places,
    method: str,
    cubic: float,
    *,
    shrink: float = 1.0,
    exclude_outside: bool = False,
) -> Array:
    """Interpolate at coordinates along an axis by weighted sums of neighbours.

    Args:
        x: an array.
        axis: which one.
        places: positions in x, one for each of the result.
        method: "linear" or "cubic".
        cubic: parameter of the cubic kernel.
        shrink: what distances are multiplied by: less than 1 averages more of x.
        exclude_outside: whether what is beyond the border has no weight; else it is as
            the nearest element.
    """
    taps, shares = _weights(
        x, axis, places, method, cubic, shrink=shrink, exclude_outside=exclude_outside
    )
    if isinstance(places, Array):
        return _sum_of_taps(x, axis, taps, shares)
    size = static_size(x.shape[axis], "image")
    weights = numpy.zeros((len(places), size))
    columns = [numpy.clip(tap, 0, size - 1).astype(int) for tap in taps]
    for column, share in zip(columns, shares, strict=True):
        numpy.add.at(weights, (numpy.arange(len(places)), column), share)
    matrix = weights.astype(dtypes.to_numpy(x.dtype))
    return np.moveaxis(np.tensordot(x, matrix, ((axis,), (1,))), -1, axis)


def _weights(
    x: Array,
    axis: int,
    places: Places,
    method: str,
    cubic: float,
    *,
    shrink: float,
    exclude_outside: bool,
) -> tuple[list[Any], list[Any]]:
    """Return the neighbours of each coordinate and their weights."""
    xp = module_of(places)
    reach, kernel = (1, _linear) if method == "linear" else (2, _cubic(cubic))
    span = math.ceil(reach / shrink)
    first, last = xp.floor(places), _last(x, axis, places)
    taps = [first + offset for offset in range(1 - span, span + 1)]
    shares = [kernel(xp.abs(tap - places) * shrink) for tap in taps]
    if exclude_outside:
        outside = [xp.logical_or(tap < 0, tap > last) for tap in taps]
        pairs = zip(outside, shares, strict=True)
        shares = [xp.where(is_out, 0.0, share) for is_out, share in pairs]
    if exclude_outside or shrink != 1:
        total = sum(shares[1:], shares[0])
        shares = [share / total for share in shares]
    return taps, shares


def _sum_of_taps(x: Array, axis: int, taps: list[Any], shares: list[Any]) -> Array:
    """Return the sum of neighbours along an axis, each times its weight."""
    beside = [1] * x.ndim
    beside[axis] = -1
    parts = [
        take_along(x, axis, tap) * np.reshape(np.astype(share, x.dtype), tuple(beside))
        for tap, share in zip(taps, shares, strict=True)
    ]
    return sum(parts[1:], parts[0])


def _linear(distance: Any) -> Any:
    """Return the weight of linear interpolation at a distance."""
    return module_of(distance).maximum(1 - distance, 0)


def _cubic(a: float) -> Callable[[Any], Any]:
    """Return the weight function of Keys' cubic convolution (1981) with parameter
    `a`.
    """

    def kernel(d: Any) -> Any:
        xp = module_of(d)
        near = ((a + 2) * d - (a + 3)) * d * d + 1
        far = ((d - 5) * d + 8) * d * a - 4 * a
        return xp.where(d <= 1, near, xp.where(d < 2, far, 0.0))

    return kernel
