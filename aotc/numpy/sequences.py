"""Functions of `aotc.numpy` on neighbours: differences, convolution, polynomials."""

from __future__ import annotations

import operator
from typing import Any

from aotc.dialects.types import Shape, SymbolicDim, bounds
from aotc.numpy.axes import Axes, axis_list, one_axis
from aotc.numpy.broadcasting import broadcast_to
from aotc.numpy.creation import zeros_like
from aotc.numpy.cutting import slice_axis
from aotc.numpy.elementwise import (
    add,
    divide,
    greater_equal,
    less,
    logical_and,
    multiply,
    subtract,
    where,
)
from aotc.numpy.joining import concatenate
from aotc.numpy.padding import pad
from aotc.numpy.products import dot
from aotc.numpy.reducing import sum as total
from aotc.numpy.shaping import flip, ravel, reshape
from aotc.tracing.array import Array
from aotc.tracing.conversion import ArrayLike, as_float, lift, one_dtype
from aotc.tracing.sizes import describe_contracts
from aotc.tracing.source_locations import fail
from aotc.tracing.tracing import emit

__all__ = ["convolve", "correlate", "diff", "ediff1d", "gradient", "polyval"]


def diff(a: ArrayLike, n: int = 1, axis: int = -1) -> Array:
    """Subtract from each element along `axis` the one before it, `n` times over."""
    x = lift(a)
    if operator.index(n) < 0:
        fail("bad-order", f"expected n to be 0 or more; got {n}")
    number = one_axis(x, axis)
    for _ in range(n):
        later = slice_axis(x, number, slice(1, None))
        x = subtract(later, slice_axis(x, number, slice(None, -1)))
    return x


def ediff1d(
    ary: ArrayLike, to_end: ArrayLike | None = None, to_begin: ArrayLike | None = None
) -> Array:
    """The differences of all elements, with more before and after them."""
    x = diff(ravel(ary))
    ends = [
        None if end is None else ravel(lift(end, x.dtype)) for end in (to_begin, to_end)
    ]
    return concatenate([part for part in (ends[0], x, ends[1]) if part is not None])


def gradient(f: ArrayLike, *varargs: object, axis: Axes = None) -> Any:
    """Return central differences along each axis, one-sided at the ends.

    Args:
        f: at least two elements along each axis.
        varargs: the distance between neighbours: one number, or one per axis.
        axis: one or several; all without it. The result is a list for several, in their
            order.
    """
    x = as_float(f)
    axes = range(x.ndim) if axis is None else axis_list(x, axis)
    steps = list(varargs) or [1.0]
    if len(steps) not in (1, len(axes)) or any(isinstance(s, list) for s in steps):
        fail(
            "bad-spacing",
            f"expected one number, or one for each of {len(axes)} axes; got {varargs}",
        )
    steps = steps * len(axes) if len(steps) == 1 else steps
    slopes = [_axis_gradient(x, a, s) for a, s in zip(axes, steps, strict=True)]
    return slopes[0] if len(slopes) == 1 else slopes


def _axis_gradient(x: Array, axis: int, step: object) -> Array:
    """Return central differences along an axis, one-sided at the ends."""
    if bounds(x.shape[axis])[0] < 2:
        fail(
            "shape-mismatch",
            f"expected at least 2 elements along axis {axis} of {x.type}",
        )

    def difference(later: slice, earlier: slice, width: int) -> Array:
        change = subtract(slice_axis(x, axis, later), slice_axis(x, axis, earlier))
        return divide(change, multiply(lift(step, x.dtype), width))

    first = difference(slice(1, 2), slice(0, 1), 1)
    inner = difference(slice(2, None), slice(None, -2), 2)
    last = difference(slice(-1, None), slice(-2, -1), 1)
    return concatenate([first, inner, last], axis)


# ---- convolution of vectors ---------------------------------------------------------


def convolve(a: ArrayLike, v: ArrayLike, mode: str = "full") -> Array:
    """Convolve two vectors."""
    x, kernel = _vectors(a, v)
    if isinstance(kernel.shape[0], SymbolicDim) or _is_longer(kernel, x):
        x, kernel = kernel, x
    return _window_products(x, flip(kernel), mode)


def correlate(a: ArrayLike, v: ArrayLike, mode: str = "valid") -> Array:
    """Return the cross-correlation of two vectors."""
    x, kernel = _vectors(a, v)
    if isinstance(kernel.shape[0], SymbolicDim) or _is_longer(kernel, x):
        return flip(_window_products(kernel, x, mode))
    return _window_products(x, kernel, mode)


def _vectors(a: ArrayLike, v: ArrayLike) -> list[Array]:
    """Return two vectors in one dtype; raise for other ranks or no elements."""
    x, y = one_dtype(a, v)
    if x.ndim != 1 or y.ndim != 1 or 0 in (*x.type.shape, *y.type.shape):
        fail(
            "shape-mismatch",
            f"expected two vectors with elements; got {x.type}, {y.type}",
        )
    return [x, y]


def _is_longer(one: Array, other: Array) -> bool:
    """Return whether a vector is known to be longer than another one."""
    size, than = one.shape[0], other.shape[0]
    return isinstance(size, int) and isinstance(than, int) and size > than


def _window_products(x: Array, kernel: Array, mode: str) -> Array:
    """Return the dot products of `kernel` with each window of `x`."""
    size, count = x.type.shape[0], kernel.shape[0]
    if mode not in ("full", "same", "valid"):
        fail("bad-mode", f"expected mode 'full', 'same' or 'valid'; got {mode!r}")
    if isinstance(count, SymbolicDim):
        fail("symbolic-size", f"one vector must have a fixed size; got {kernel.type}")
    if mode == "full":
        before = after = count - 1
    elif mode == "same":
        before, after = count // 2, count - 1 - count // 2
    else:
        before = after = 0
    # the shorter one is the one that moves
    if mode != "full" and bounds(size - count)[0] < 0:
        fail(
            "symbolic-size",
            f"{count} elements are not provably inside of {x.type}; promised: "
            f"{describe_contracts()}",
            f"promise aotc.Dim('{size}', min={count}), or use mode 'full'",
        )
    image = reshape(pad(x, (before, after)), (1, -1, 1))
    windows = emit("windows", image, window=(count,), strides=(1,), dilation=(1,))
    windows = reshape(windows, windows.shape[1:3])
    if mode == "valid":
        return dot(windows, kernel)
    # what is beside x is no factor: 0 times an infinity of the kernel would be NaN
    place = add(*(_positions(windows.shape, axis) for axis in (0, 1)))
    inside = logical_and(greater_equal(place, before), less(place, size + before))
    products = multiply(windows, broadcast_to(kernel, windows.shape))
    return total(where(inside, products, 0), -1)


def _positions(shape: Shape, axis: int) -> Array:
    """Return the index along an axis of each element of a shape."""
    return emit("iota", shape=shape, axis=axis, dtype="i32")


# ---- polynomials --------------------------------------------------------------------


def polyval(p: ArrayLike, x: ArrayLike) -> Array:
    """The polynomial with coefficients `p`, highest power first, at `x`."""
    coefficients, at = one_dtype(p, x)
    if coefficients.ndim != 1 or isinstance(coefficients.shape[0], SymbolicDim):
        fail(
            "shape-mismatch",
            f"expected a vector of fixed size as p; got {coefficients.type}",
        )
    value = zeros_like(at)
    for number in range(int(coefficients.shape[0])):
        value = add(multiply(value, at), coefficients[number])
    return value
