"""Functions of `aotc.numpy` that go from point to point: `interp` and `unwrap`."""

from __future__ import annotations

import math

from aotc.numpy.axes import one_axis
from aotc.numpy.cumulative import cumsum
from aotc.numpy.cutting import slice_axis
from aotc.numpy.elementwise import (
    absolute,
    add,
    clip,
    divide,
    equal,
    greater,
    isnan,
    less,
    logical_and,
    multiply,
    remainder,
    subtract,
    where,
)
from aotc.numpy.joining import concatenate
from aotc.numpy.ordering import argsort, searchsorted, taken_along
from aotc.numpy.sequences import diff
from aotc.numpy.shaping import ravel, reshape
from aotc.tracing.array import Array
from aotc.tracing.conversion import ArrayLike, as_float, one_dtype
from aotc.tracing.source_locations import fail

__all__ = ["interp", "unwrap"]


def interp(
    x: ArrayLike,
    xp: ArrayLike,
    fp: ArrayLike,
    left: float | None = None,
    right: float | None = None,
    period: float | None = None,
) -> Array:
    """Interpolate linearly between the points (xp, fp) at `x`.

    Args:
        x: where; of any shape.
        xp: a vector of rising numbers, at least one.
        fp: the value at each of them.
        left: the value below the first point; that of the first without it.
        right: the value above the last point; that of the last without it.
        period: of `x`, if it is periodic; the points may come in any order then.
    """
    x, points, values = (as_float(part) for part in one_dtype(x, xp, fp))
    shape = points.type.shape
    if points.ndim != 1 or shape != values.type.shape or shape[0] == 0:
        fail(
            "shape-mismatch",
            "expected xp and fp to be vectors of one size, not 0; got "
            f"{points.type} and {values.type}",
        )
    if period is not None:
        x, points, values = _wrap_period(x, points, values, period)
        left = right = None
    y = _interpolate_linearly(ravel(x), points, values)
    y = reshape(y, x.shape)
    y = y if left is None else where(less(x, points[0]), left, y)
    y = y if right is None else where(greater(x, points[-1]), right, y)
    return where(isnan(x), x, y)


def _interpolate_linearly(x: Array, points: Array, values: Array) -> Array:
    """Interpolate at each `x` between its two neighbour points."""
    behind = searchsorted(points, x, side="right")
    last = points.shape[0] - 1
    pair = (clip(subtract(behind, 1), 0, last), clip(behind, 0, last))
    (x0, x1), (y0, y1) = (
        [taken_along(table, place, 0) for place in pair] for table in (points, values)
    )
    width = subtract(x1, x0)
    end = equal(width, 0)
    slope = divide(subtract(y1, y0), where(end, 1, width))
    y = add(y0, multiply(slope, subtract(x, x0)))
    # beside an infinite value: from the other end, on a level line, at a point
    y = where(isnan(y), add(y1, multiply(slope, subtract(x, x1))), y)
    y = where(logical_and(isnan(y), equal(y0, y1)), y0, y)
    return where(end, y1, where(equal(x, x0), y0, y))


def _wrap_period(x: Array, points: Array, values: Array, period: float) -> list[Array]:
    """Reduce points to one period, sort them, and repeat one at both ends."""
    if not period:
        fail("bad-period", f"expected a period other than 0; got {period}")
    span = abs(period)
    x, points = remainder(x, span), remainder(points, span)
    order = argsort(points)
    points, values = (taken_along(table, order, 0) for table in (points, values))
    before, behind = subtract(points[-1:], span), add(points[:1], span)
    points = concatenate([before, points, behind])
    return [x, points, concatenate([values[-1:], values, values[:1]])]


def unwrap(
    p: ArrayLike,
    discont: float | None = None,
    axis: int = -1,
    *,
    period: float = 2 * math.pi,
) -> Array:
    """Remove jumps from angles: add whole periods, so that no step is over half one.

    Args:
        p: angles.
        discont: the least step that is taken for a jump, if more than half a period.
        axis: along which the steps are.
        period: of the angles.
    """
    if not period > 0:
        fail("bad-period", f"expected a period above 0; got {period}")
    x = as_float(p)
    number, half = one_axis(x, axis), period / 2
    step = diff(x, axis=number)
    short = subtract(remainder(add(step, half), period), half)
    up = logical_and(equal(short, -half), greater(step, 0))
    change = subtract(where(up, half, short), step)
    smooth = less(absolute(step), half if discont is None else discont)
    moved = cumsum(where(smooth, 0, change), number)
    first = slice_axis(x, number, slice(None, 1))
    later = slice_axis(x, number, slice(1, None))
    return concatenate([first, add(later, moved)], number)
