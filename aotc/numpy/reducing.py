"""Functions of `aotc.numpy` that reduce over axes."""

from __future__ import annotations

import builtins
import math
from collections.abc import Sequence
from typing import Any

from aotc.core import dtypes
from aotc.core.dtypes import DTypeLike
from aotc.dialects.lowering.conversion import integer_bounds
from aotc.dialects.types import Size, bounds, element_count
from aotc.numpy import elementwise as each
from aotc.numpy.axes import Axes, one_axis, rising_axes
from aotc.numpy.broadcasting import broadcast_to
from aotc.numpy.shaping import ravel, reshape
from aotc.tracing.array import Array
from aotc.tracing.conversion import ArrayLike, as_float, astype, lift, to_accumulator
from aotc.tracing.source_locations import fail
from aotc.tracing.tracing import emit

__all__ = [
    "all", "any", "argmax", "argmin", "average", "count_nonzero", "max", "mean", "min",
    "prod", "ptp", "std", "sum", "trapezoid", "var",
]  # fmt: skip


def apply_keepdims(
    result: Array, x: Array, axes: Sequence[int], keepdims: bool
) -> Array:
    """Return a reduced result, with axes of size 1 inserted for `keepdims`."""
    if not keepdims:
        return result
    return reshape(result, [1 if i in axes else n for i, n in enumerate(x.shape)])


def _reduce(name: str, x: Array, axis: Axes, keepdims: bool) -> Array:
    """Reduce over `axis` by the op of this name."""
    axes = rising_axes(x, axis)
    return apply_keepdims(emit(name, x, axes=axes), x, axes, keepdims)


def to_sum_dtype(a: ArrayLike, dtype: DTypeLike | None) -> Array:
    """Cast to `dtype`, or for sums to the array's own; bool is counted in i32."""
    x = lift(a)
    natural = "i32" if x.dtype == "bool" else x.dtype
    return astype(x, natural if dtype is None else dtype)


def apply_where(x: Array, where: ArrayLike | None, neutral: ArrayLike) -> Array:
    """Return `x` where the mask holds, and the neutral element elsewhere."""
    if where is None:
        return x
    mask = lift(where)
    if mask.dtype != "bool":
        fail("dtype-mismatch", f"expected `where` to be a bool array; got {mask.type}")
    return each.where(broadcast_to(mask, x.shape), x, neutral)


def lowest(dtype: str) -> float | int:
    """Return the neutral element of the maximum in a dtype."""
    if dtype == "bool":
        return False
    return -math.inf if dtypes.is_float(dtype) else integer_bounds(dtype)[0]


def highest(dtype: str) -> float | int:
    """Return the neutral element of the minimum in a dtype."""
    if dtype == "bool":
        return True
    return math.inf if dtypes.is_float(dtype) else integer_bounds(dtype)[1]


# ---- totals -------------------------------------------------------------------------


def sum(  # noqa: A001 - NumPy's name
    a: ArrayLike,
    axis: Axes = None,
    dtype: DTypeLike | None = None,
    *,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """The sum over `axis`, in the dtype of `a`; bool is counted in i32."""
    x = apply_where(to_sum_dtype(a, dtype), where, 0)
    total = _reduce("reduce_sum", x, axis, keepdims)
    return total if initial is None else each.add(total, initial)


def prod(
    a: ArrayLike,
    axis: Axes = None,
    dtype: DTypeLike | None = None,
    *,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """The product over `axis`, in the dtype of `a`; bool is counted in i32."""
    x = apply_where(to_sum_dtype(a, dtype), where, 1)
    total = _reduce("reduce_prod", x, axis, keepdims)
    return total if initial is None else each.multiply(total, initial)


def max(  # noqa: A001 - NumPy's name
    a: ArrayLike,
    axis: Axes = None,
    *,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """The largest element over `axis` (and `initial`); NaN if any is."""
    return _extreme("max", a, axis, keepdims, initial, where)


def min(  # noqa: A001 - NumPy's name
    a: ArrayLike,
    axis: Axes = None,
    *,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """The smallest element over `axis` (and `initial`); NaN if any is."""
    return _extreme("min", a, axis, keepdims, initial, where)


def _extreme(
    name: str,
    a: ArrayLike,
    axis: Axes,
    keepdims: bool,
    initial: ArrayLike | None,
    where: ArrayLike | None,
) -> Array:
    """Reduce by `max` or `min`, with an initial value and mask."""
    x = lift(a)
    if x.dtype == "bool":
        bits = astype(x, "i8")
        return astype(_extreme(name, bits, axis, keepdims, initial, where), "bool")
    if where is not None and initial is None:
        fail(
            "empty-reduction",
            f"the {name} over elements chosen by `where` needs an `initial` value, "
            "for the case that none is chosen",
        )
    worst = lowest(x.dtype) if name == "max" else highest(x.dtype)
    x, axes = apply_where(x, where, worst), rising_axes(x, axis)
    join = each.maximum if name == "max" else each.minimum
    if initial is not None and builtins.any(x.type.shape[i] == 0 for i in axes):
        rest = [n for i, n in enumerate(x.shape) if i not in axes]
        return apply_keepdims(
            broadcast_to(lift(initial, x.dtype), rest), x, axes, keepdims
        )
    if initial is None:
        require_elements(x, axes)
    found = _reduce(f"reduce_{name}", x, axes, keepdims)
    return found if initial is None else join(found, initial)


def require_elements(x: Array, axes: Sequence[int]) -> None:
    """Raise if an axis to reduce may have no elements.

    Where another axis has the same size, there is nothing to choose either.
    """
    shape = x.type.shape
    kept = [size for axis, size in enumerate(shape) if axis not in axes]
    for axis in axes:
        size = shape[axis]
        if bounds(size)[0] < 1 and size not in kept:
            fail(
                "empty-reduction",
                f"expected elements along axis {axis} of {x.type}; got a size of "
                f"{size}, which may be {bounds(size)[0]}",
                hint="promise more elements, by `min` of the aotc.Dim that decides it, "
                "or give `max` and `min` an `initial` value",
            )


def ptp(a: ArrayLike, axis: Axes = None, *, keepdims: bool = False) -> Array:
    """The distance from the smallest to the largest element over `axis`."""
    largest, smallest = max(a, axis, keepdims=keepdims), min(a, axis, keepdims=keepdims)
    return each.subtract(largest, smallest)


def any(  # noqa: A001 - NumPy's name
    a: ArrayLike,
    axis: Axes = None,
    *,
    keepdims: bool = False,
    where: ArrayLike | None = None,
) -> Array:
    """Return whether any element is true, or not 0; False of no elements. A bool
    array.
    """
    x = apply_where(each.truth(a), where, False)
    return each.not_equal(sum(x, axis, keepdims=keepdims), 0)


def all(  # noqa: A001 - NumPy's name
    a: ArrayLike,
    axis: Axes = None,
    *,
    keepdims: bool = False,
    where: ArrayLike | None = None,
) -> Array:
    """Return whether all elements are true, or not 0; True of no elements. A bool
    array.
    """
    doubts = each.logical_not(apply_where(each.truth(a), where, True))
    return each.equal(sum(doubts, axis, keepdims=keepdims), 0)


def count_nonzero(a: ArrayLike, axis: Axes = None, *, keepdims: bool = False) -> Array:
    """Count the elements (i32) that are not zero."""
    return sum(each.truth(a), axis, keepdims=keepdims)


# ---- means --------------------------------------------------------------------------


def mean(
    a: ArrayLike,
    axis: Axes = None,
    dtype: DTypeLike | None = None,
    *,
    keepdims: bool = False,
    where: ArrayLike | None = None,
) -> Array:
    """The mean over `axis`; of integers and bools in f32, of no elements NaN."""
    x = as_float(a) if dtype is None else astype(a, dtype)
    wide = to_accumulator(x)
    total = sum(wide, axis, keepdims=keepdims, where=where)
    return astype(each.divide(total, _count(wide, axis, keepdims, where)), x.dtype)


def _count(
    x: Array, axis: Axes, keepdims: bool, where: ArrayLike | None, fewer: float = 0
) -> ArrayLike:
    """Return how many elements are reduced, less `fewer`, as a float."""
    if where is not None:
        ones = astype(broadcast_to(where, x.shape), x.dtype)
        held = each.subtract(sum(ones, axis, keepdims=keepdims), fewer)
        return each.maximum(held, 0)
    axes = rising_axes(x, axis)
    count: Size = element_count(tuple(x.type.shape[i] for i in axes))
    if isinstance(count, int):
        return float(builtins.max(count - fewer, 0))
    held = each.subtract(lift(count, x.dtype), fewer)
    return each.maximum(held, 0) if fewer else held


def var(
    a: ArrayLike,
    axis: Axes = None,
    dtype: DTypeLike | None = None,
    *,
    ddof: float = 0,
    keepdims: bool = False,
    where: ArrayLike | None = None,
) -> Array:
    """The mean of squared distances from the mean, with `ddof` fewer in the count."""
    x = as_float(a) if dtype is None else astype(a, dtype)
    return astype(_variance(to_accumulator(x), axis, ddof, keepdims, where), x.dtype)


def _variance(
    x: Array, axis: Axes, ddof: float, keepdims: bool, where: ArrayLike | None
) -> Array:
    """Return the mean of squared distances from the mean."""
    axes = rising_axes(x, axis)
    if where is not None:  # what is left out, NaN perhaps, has a derivative of 0
        x = apply_where(x, where, 0.0)
    centered = each.subtract(x, mean(x, axes, keepdims=True, where=where))
    total = sum(each.square(centered), axes, keepdims=keepdims, where=where)
    return each.divide(total, _count(x, axes, keepdims, where, ddof))


def std(
    a: ArrayLike,
    axis: Axes = None,
    dtype: DTypeLike | None = None,
    *,
    ddof: float = 0,
    keepdims: bool = False,
    where: ArrayLike | None = None,
) -> Array:
    """The square root of `var`; where all elements are equal its gradient is 0."""
    x = as_float(a) if dtype is None else astype(a, dtype)
    spread = _variance(to_accumulator(x), axis, ddof, keepdims, where)
    return astype(each.root_of_squares(spread), x.dtype)


def average(
    a: ArrayLike,
    axis: Axes = None,
    weights: ArrayLike | None = None,
    returned: bool = False,
    *,
    keepdims: bool = False,
) -> Any:
    """The mean over `axis` by `weights`; with their sum if it is to be `returned`.

    Weights have the shape of `a`, or are a vector along the one axis.
    """
    x = as_float(a)
    axes = rising_axes(x, axis)
    spread = broadcast_to(
        1.0 if weights is None else _weights(x, weights, axis), x.shape
    )
    wide = to_accumulator(x)
    w = astype(spread, wide.dtype)
    total = sum(w, axes, keepdims=keepdims)
    found = each.divide(sum(each.multiply(wide, w), axes, keepdims=keepdims), total)
    found, total = astype(found, x.dtype), astype(total, x.dtype)
    return (found, total) if returned else found


def _weights(x: Array, weights: ArrayLike, axis: Axes) -> Array:
    """Reshape the weights of an average to broadcast with `x`."""
    w = lift(weights)
    if w.type.shape == x.type.shape:
        return w
    number = one_axis(x, axis) if isinstance(axis, int) else None
    if number is None or w.type.shape != (x.type.shape[number],):
        fail(
            "shape-mismatch",
            f"expected `weights` in the shape of {x.type}, or a vector along one axis "
            f"of it; got {w.type}",
        )
    sizes = [1] * x.ndim
    return reshape(w, [*sizes[:number], w.shape[0], *sizes[number + 1 :]])


# ---- positions ----------------------------------------------------------------------


def argmax(a: ArrayLike, axis: int | None = None, *, keepdims: bool = False) -> Array:
    """The position (i32) of the first largest element; the first NaN, if there is one.

    Args:
        a: any shape and any real dtype.
        axis: along which to look; None looks through `a` as one row of elements.
        keepdims: leave the axis in the result, with size 1.

    Raises:
        InputError: `empty-reduction` if there are no elements along the axis, or if a
            call may have none.
    """
    x = lift(a)
    x = astype(x, "i8") if x.dtype == "bool" else x
    require_elements(x, range(x.ndim) if axis is None else (one_axis(x, axis),))
    if axis is None:
        return apply_keepdims(
            emit("argmax", ravel(x), axis=0), x, range(x.ndim), keepdims
        )
    number = one_axis(x, axis)
    return apply_keepdims(emit("argmax", x, axis=number), x, (number,), keepdims)


def argmin(a: ArrayLike, axis: int | None = None, *, keepdims: bool = False) -> Array:
    """The position (i32) of the first smallest element; see `argmax`."""
    x = lift(a)
    flipped = each.negative(x) if dtypes.is_float(x.dtype) else each.invert(x)
    return argmax(flipped, axis, keepdims=keepdims)


# ---- more ---------------------------------------------------------------------------


def trapezoid(
    y: ArrayLike, x: ArrayLike | None = None, dx: ArrayLike = 1.0, axis: int = -1
) -> Array:
    """The area under `y` at `x` (or in steps of `dx`) by straight lines."""
    values = as_float(y)
    number = one_axis(values, axis)
    before = (slice(None),) * number
    later, earlier = (*before, slice(1, None)), (*before, slice(None, -1))
    steps: ArrayLike = dx
    if x is not None:
        places = as_float(x)
        if places.ndim == 1:
            rest = [1] * (values.ndim - number - 1)
            steps = reshape(places[1:] - places[:-1], (-1, *rest))
        else:
            steps = places[later] - places[earlier]
    means = each.divide(each.add(values[later], values[earlier]), 2)
    return sum(each.multiply(means, steps), number)
