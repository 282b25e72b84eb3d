"""Running totals along an axis, and linear recurrences."""

from __future__ import annotations

from aotc.core.dtypes import DTypeLike
from aotc.numpy.axes import one_axis
from aotc.numpy.broadcasting import broadcast_to
from aotc.numpy.elementwise import common_floats
from aotc.numpy.joining import concatenate
from aotc.numpy.nan_reducing import without_nan
from aotc.numpy.reducing import to_sum_dtype
from aotc.numpy.shaping import ravel
from aotc.tracing.array import Array
from aotc.tracing.conversion import ArrayLike, as_float, lift
from aotc.tracing.source_locations import fail
from aotc.tracing.tracing import emit

__all__ = [
    "cumlogsumexp", "cummax", "cummin", "cumprod", "cumsum", "cumulative_prod",
    "cumulative_sum", "linear_recurrence", "nancumprod", "nancumsum",
]  # fmt: skip


def _cumulate(name: str, x: Array, axis: int | None, reverse: bool) -> Array:
    """Apply a cumulative op along `axis`; None flattens the array first."""
    x, axis = (ravel(x), 0) if axis is None else (x, axis)
    return emit(name, x, axis=one_axis(x, axis), reverse=reverse)


def cumsum(
    a: ArrayLike,
    axis: int | None = None,
    dtype: DTypeLike | None = None,
    *,
    reverse: bool = False,
) -> Array:
    """The cumulative sum along `axis`; from the end if `reverse` (JAX's)."""
    return _cumulate("cumsum", to_sum_dtype(a, dtype), axis, reverse)


def cumprod(
    a: ArrayLike,
    axis: int | None = None,
    dtype: DTypeLike | None = None,
    *,
    reverse: bool = False,
) -> Array:
    """The cumulative product along `axis`; derivatives are right at zeros, too."""
    return _cumulate("cumprod", to_sum_dtype(a, dtype), axis, reverse)


def cumulative_sum(
    x: ArrayLike,
    /,
    *,
    axis: int | None = None,
    dtype: DTypeLike | None = None,
    include_initial: bool = False,
) -> Array:
    """`cumsum` of a vector or along `axis`; from 0 on if `include_initial`."""
    y, number = _along_one(x, axis)
    y = cumsum(y, number, dtype)
    return _prepend(0, y, number) if include_initial else y


def cumulative_prod(
    x: ArrayLike,
    /,
    *,
    axis: int | None = None,
    dtype: DTypeLike | None = None,
    include_initial: bool = False,
) -> Array:
    """`cumprod` of a vector or along `axis`; from 1 on if `include_initial`."""
    y, number = _along_one(x, axis)
    y = cumprod(y, number, dtype)
    return _prepend(1, y, number) if include_initial else y


def _along_one(a: ArrayLike, axis: int | None) -> tuple[Array, int]:
    """Return an array and its axis; None stands for a vector's only one."""
    x = lift(a)
    if axis is None and x.ndim != 1:
        fail("bad-axis", f"expected an axis of {x.type}, which is no vector; got None")
    return x, one_axis(x, 0 if axis is None else axis)


def _prepend(first: int, y: Array, axis: int) -> Array:
    """Put the number `first` before the elements along an axis."""
    shape = [1 if i == axis else n for i, n in enumerate(y.shape)]
    return concatenate([broadcast_to(lift(first, y.dtype), shape), y], axis)


def nancumsum(
    a: ArrayLike, axis: int | None = None, dtype: DTypeLike | None = None
) -> Array:
    """`cumsum` with NaN as zero."""
    return cumsum(without_nan(a, 0.0), axis, dtype)


def nancumprod(
    a: ArrayLike, axis: int | None = None, dtype: DTypeLike | None = None
) -> Array:
    """`cumprod` with NaN as one."""
    return cumprod(without_nan(a, 1.0), axis, dtype)


def cummax(a: ArrayLike, axis: int | None = None, *, reverse: bool = False) -> Array:
    """The largest element so far along `axis` (JAX's); NaN from the first one on."""
    return _cumulate("cummax", to_sum_dtype(a, None), axis, reverse)


def cummin(a: ArrayLike, axis: int | None = None, *, reverse: bool = False) -> Array:
    """The smallest element so far along `axis` (JAX's); NaN from the first one on."""
    return _cumulate("cummin", to_sum_dtype(a, None), axis, reverse)


def cumlogsumexp(
    a: ArrayLike, axis: int | None = None, *, reverse: bool = False
) -> Array:
    """`logsumexp` of all elements up to each (JAX's)."""
    return _cumulate("cumlogsumexp", as_float(a), axis, reverse)


def linear_recurrence(
    a: ArrayLike, x: ArrayLike, axis: int = 0, *, reverse: bool = False
) -> Array:
    """y[i] = a[i] y[i-1] + x[i] along `axis`, from 0; from the end if `reverse`.

    Moving averages, discounted returns and the layers of state-space models are such
    recurrences; they are computed in parallel. `a` and `x` broadcast.
    """
    factors, terms = common_floats(a, x)
    number = one_axis(terms, axis)
    return emit("linear_recurrence", factors, terms, axis=number, reverse=reverse)
