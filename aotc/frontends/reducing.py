"""Functions of `aotc.numpy` that reduce over axes."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any

from aotc import dtypes
from aotc.dialects.types import Size, element_count
from aotc.frontends.array import Array
from aotc.frontends.axes import one_axis, rising_axes
from aotc.frontends.conversion import ArrayLike, as_float, astype, lift
from aotc.frontends.elementwise import (
    divide,
    invert,
    negative,
    not_equal,
    sqrt,
    square,
    subtract,
    truth,
)
from aotc.frontends.shaping import ravel, reshape
from aotc.frontends.tracing import emit


def _kept(result: Array, x: Array, axes: Sequence[int], keepdims: bool) -> Array:
    if not keepdims:
        return result
    return reshape(result, [1 if i in axes else n for i, n in enumerate(x.shape)])


def _reduce(name: str, x: Array, axis: Any, keepdims: bool) -> Array:
    axes = rising_axes(x, axis)
    return _kept(emit(name, x, axes=axes), x, axes, keepdims)


def _summable(a: ArrayLike, dtype: Any) -> Array:
    """In the asked dtype, or its own; bool is counted in i32."""
    x = lift(a)
    return astype(x, dtype or ("i32" if x.dtype == "bool" else x.dtype))


def sum(  # noqa: A001 - NumPy's name
    a: ArrayLike, axis: Any = None, dtype: Any = None, *, keepdims: bool = False
) -> Array:
    """The sum over `axis`, in the dtype of `a`; bool is counted in i32."""
    return _reduce("reduce_sum", _summable(a, dtype), axis, keepdims)


def prod(
    a: ArrayLike, axis: Any = None, dtype: Any = None, *, keepdims: bool = False
) -> Array:
    """The product over `axis`, in the dtype of `a`."""
    return _reduce("reduce_prod", _summable(a, dtype), axis, keepdims)


def max(a: ArrayLike, axis: Any = None, *, keepdims: bool = False) -> Array:  # noqa: A001
    """The largest element over `axis`; NaN if any is."""
    return _reduce("reduce_max", lift(a), axis, keepdims)


def min(a: ArrayLike, axis: Any = None, *, keepdims: bool = False) -> Array:  # noqa: A001
    """The smallest element over `axis`; NaN if any is."""
    return _reduce("reduce_min", lift(a), axis, keepdims)


def any(a: ArrayLike, axis: Any = None, *, keepdims: bool = False) -> Array:  # noqa: A001
    """Whether any element holds."""
    return not_equal(_reduce("reduce_max", _bytes(a), axis, keepdims), 0)


def all(a: ArrayLike, axis: Any = None, *, keepdims: bool = False) -> Array:  # noqa: A001
    """Whether all elements hold."""
    return not_equal(_reduce("reduce_min", _bytes(a), axis, keepdims), 0)


def _bytes(a: ArrayLike) -> Array:
    return astype(truth(a), "i8")  # the reductions take numbers


def count_nonzero(a: ArrayLike, axis: Any = None, *, keepdims: bool = False) -> Array:
    """How many elements (i32) are not zero."""
    return sum(truth(a), axis, keepdims=keepdims)


def mean(
    a: ArrayLike, axis: Any = None, dtype: Any = None, *, keepdims: bool = False
) -> Array:
    """The mean over `axis`, always a float; sizes may be symbolic."""
    x = as_float(a) if dtype is None else astype(a, dtype)
    axes = rising_axes(x, axis)
    total = emit("reduce_sum", x, axes=axes)
    return _kept(divide(total, _count(x, axes)), x, axes, keepdims)


def _count(x: Array, axes: Sequence[int], fewer: int = 0) -> Size | float:
    """How many elements are reduced over; a float, so that zero divides to NaN."""
    count = element_count(tuple(x.shape[axis] for axis in axes))
    if isinstance(count, int):
        return float(builtins.max(count - fewer, 0))
    return count - fewer


def var(
    a: ArrayLike,
    axis: Any = None,
    dtype: Any = None,
    *,
    ddof: int = 0,
    keepdims: bool = False,
) -> Array:
    """The mean of squared distances from the mean, with `ddof` fewer in the count."""
    x = as_float(a) if dtype is None else astype(a, dtype)
    axes = rising_axes(x, axis)
    centered = subtract(x, mean(x, axes, keepdims=True))
    total = emit("reduce_sum", square(centered), axes=axes)
    return _kept(divide(total, _count(x, axes, ddof)), x, axes, keepdims)


def std(
    a: ArrayLike,
    axis: Any = None,
    dtype: Any = None,
    *,
    ddof: int = 0,
    keepdims: bool = False,
) -> Array:
    """The square root of `var`."""
    return sqrt(var(a, axis, dtype, ddof=ddof, keepdims=keepdims))


def argmax(a: ArrayLike, axis: int | None = None, *, keepdims: bool = False) -> Array:
    """The position (i32) of the first largest element."""
    x = lift(a)
    if axis is None:
        return _kept(emit("argmax", ravel(x), axis=0), x, range(x.ndim), keepdims)
    number = one_axis(x, axis)
    return _kept(emit("argmax", x, axis=number), x, (number,), keepdims)


def argmin(a: ArrayLike, axis: int | None = None, *, keepdims: bool = False) -> Array:
    """The position (i32) of the first smallest element."""
    x = lift(a)
    flipped = negative(x) if dtypes.is_float(x.dtype) else invert(x)
    return argmax(flipped, axis, keepdims=keepdims)
