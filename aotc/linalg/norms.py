"""Norms, and properties by singular values of a matrix: functions of `aotc.linalg`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from aotc import numpy as np
from aotc.dialects.types import element_count
from aotc.linalg.factorizing import cutoff, matrices, square, svdvals
from aotc.linalg.solving import inv
from aotc.numpy.axes import Axes, axis_list
from aotc.numpy.elementwise import root_of_squares
from aotc.tracing.array import Array
from aotc.tracing.conversion import ArrayLike, as_float, astype, to_accumulator
from aotc.tracing.source_locations import fail

__all__ = ["cond", "matrix_norm", "matrix_rank", "norm", "vector_norm"]


def norm(
    x: ArrayLike,
    ord: float | str | None = None,
    axis: Axes = None,
    keepdims: bool = False,  # noqa: A002
) -> Array:
    """A norm of vectors or matrices, as NumPy's.

    Args:
        x: an array.
        ord: None for the root of the sum of squares; for vectors inf, -inf or a number;
            for matrices "fro", "nuc", inf, -inf, 1, -1, 2 or -2.
        axis: one axis of vectors or two of matrices; None for all axes.
        keepdims: whether the axes stay, with size 1.
    """
    given = as_float(x)
    return astype(_norm(to_accumulator(given), ord, axis, keepdims), given.dtype)


def _norm(array: Array, ord: Any, axis: Axes, keepdims: bool) -> Array:  # noqa: A002
    """Return the vector or matrix norm that the number of axes selects."""
    if axis is None and ord is None:
        return _apply_keepdims(
            _euclidean(np.ravel(array), -1), array, range(array.ndim), keepdims
        )
    axes = axis_list(array, tuple(range(array.ndim)) if axis is None else axis)
    if len(axes) == 1:
        return vector_norm(
            array, axis=axes[0], keepdims=keepdims, ord=2 if ord is None else ord
        )
    if len(axes) != 2:
        fail("bad-axis", f"expected one axis or two; got {axis} of {array.type}")
    moved = np.moveaxis(array, axes, (-2, -1))
    result = matrix_norm(moved, ord="fro" if ord is None else ord)
    return _apply_keepdims(result, array, axes, keepdims)


def vector_norm(
    x: ArrayLike,
    /,
    *,
    axis: Axes = None,
    keepdims: bool = False,
    ord: Any = 2,  # noqa: A002
) -> Array:
    """(sum |x|**ord)**(1/ord); with inf and -inf the largest and smallest |x|.

    With 0 it is how many elements are not 0. The gradient at 0 is 0.
    """
    given = as_float(x)
    array = to_accumulator(given)
    axes = axis_list(array, tuple(range(array.ndim)) if axis is None else axis)
    flat = np.moveaxis(array, axes, tuple(range(-len(axes), 0)))
    vectors = _joined_axes(flat, len(axes))
    found = _apply_keepdims(_of_vectors(vectors, _number(ord)), array, axes, keepdims)
    return astype(found, given.dtype)


def _joined_axes(x: Array, count: int) -> Array:
    """Reshape the last `count` axes into one, with its size computed, not -1."""
    shape, number = x.type.shape, x.ndim - count
    kept, last = shape[:number], shape[number:]
    return np.reshape(x, (*kept, element_count(last)))


def _of_vectors(x: Array, order: float) -> Array:
    """Return the norm of an order along the last axis."""
    size = np.absolute(x)
    if order == math.inf:
        return np.max(size, -1)
    if order == -math.inf:
        return np.min(size, -1)
    if order == 0:
        return np.sum((size != 0).astype(x.dtype), -1)
    if order == 1:
        return np.sum(size, -1)
    if order == 2:
        return _euclidean(x, -1)
    return _smooth_power(np.sum(_smooth_power(size, order), -1), 1 / order)


def _smooth_power(x: Array, exponent: float) -> Array:
    """Return x**exponent, with a derivative of 0 where x is 0."""
    is_zero = x == 0
    power = np.power(np.where(is_zero, 1.0, x), exponent)
    return np.where(is_zero, 0.0 if exponent > 0 else math.inf, power)


def _euclidean(x: Array, axis: int) -> Array:
    """Return the root of the sum of squares along an axis; its gradient at 0 is 0."""
    return root_of_squares(np.sum(x * x, axis))


def matrix_norm(
    x: ArrayLike,
    /,
    *,
    keepdims: bool = False,
    ord: float | str = "fro",  # noqa: A002
) -> Array:
    """A norm of matrices: "fro", "nuc", inf, -inf, 1, -1, 2 or -2.

    That is of all elements; of the singular values their sum; of the sums of |x| in
    rows the largest and smallest, and in columns; of singular values likewise.
    """
    given = as_float(x)
    array = to_accumulator(given)
    if array.ndim < 2:
        fail("shape-mismatch", f"expected 'x' with two axes or more; got {given.type}")
    if ord in _BY_SUMS:
        axis, choose = _BY_SUMS[ord]
        result = choose(np.sum(np.absolute(array), axis), -1)
    elif ord == "fro":
        result = _euclidean(_joined_axes(array, 2), -1)
    elif ord in _BY_VALUES:
        result = _BY_VALUES[ord](svdvals(array), -1)
    else:
        known = [*_BY_SUMS, "fro", *_BY_VALUES]
        fail("bad-argument", f"expected ord out of {known}; got {ord!r}")
    found = _apply_keepdims(result, array, (array.ndim - 2, array.ndim - 1), keepdims)
    return astype(found, given.dtype)


_BY_SUMS: dict[Any, Any] = {
    math.inf: (-1, np.max),
    -math.inf: (-1, np.min),
    1: (-2, np.max),
    -1: (-2, np.min),
}
_BY_VALUES: dict[Any, Any] = {"nuc": np.sum, 2: np.max, -2: np.min}


def _apply_keepdims(
    result: Array, x: Array, axes: Sequence[int], keepdims: bool
) -> Array:
    """Return a reduced result, with axes of size 1 inserted for `keepdims`."""
    return np.expand_dims(result, tuple(axes)) if keepdims and len(axes) else result


def _number(order: Any) -> float:
    """Return the order of a vector norm as a float; raise if it is no number."""
    if isinstance(order, bool) or not isinstance(order, int | float):
        fail("bad-argument", f"expected ord as a number for vectors; got {order!r}")
    return float(order)


# ---- by singular values -------------------------------------------------------------


def cond(x: ArrayLike, p: float | str | None = None) -> Array:
    """Return the condition numbers of matrices: their norm times that of their inverse.

    Args:
        x: square matrices; for None and the orders 2 and -2, of any shape.
        p: order of the norm, as for `matrix_norm`; None is 2.
    """
    if p in (None, 2, -2):
        values = svdvals(x)
        first, last = values[..., 0], values[..., -1]
        small, large = (first, last) if p == -2 else (last, first)
        # a matrix of zeros is singular, too
        return np.where(np.equal(first, 0), np.inf, large / small)
    array = square("x", x)
    inverse = inv(array)
    found = matrix_norm(array, ord=p) * matrix_norm(inverse, ord=p)
    is_singular = np.logical_not(np.all(np.isfinite(inverse), axis=(-2, -1)))
    is_known = np.logical_not(np.any(np.isnan(array), axis=(-2, -1)))
    return np.where(np.logical_and(is_singular, is_known), np.inf, found)


def matrix_rank(A: ArrayLike, tol: ArrayLike | None = None) -> Array:  # noqa: N803 - NumPy's name
    """Count the singular values above `tol`, as i32.

    By default `tol` is the largest value times the larger size times the rounding of
    the dtype.
    """
    x = matrices("A", A)
    values = svdvals(x)
    least = cutoff(x, values, None) if tol is None else np.asarray(tol, x.dtype)
    return np.sum((values > np.expand_dims(least, -1)).astype("i32"), -1)
