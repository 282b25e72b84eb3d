"""ATen ops that reduce or accumulate along axes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from aotc import nn
from aotc import numpy as np
from aotc.core import dtypes
from aotc.tracing.array import Array
from aotc.tracing.conversion import as_float

Axes = int | Sequence[int] | None
Spread = TypeVar("Spread")


def _axes(x: Array, dim: Axes) -> int | tuple[int, ...] | None:
    """Return torch's `dim` as axes of `aotc.numpy`: None for all."""
    if isinstance(dim, int) or dim is None:
        return dim if x.ndim else None
    return (tuple(dim) or None) if x.ndim else None


def to_sum_dtype(x: Array, dtype: str | None) -> Array:
    """Return x cast to a dtype, or integers and bools to i64, as for sums."""
    if dtype is None and not dtypes.is_float(x.dtype):
        dtype = "i64"
    return x if dtype is None else np.astype(x, dtype)


def total(
    x: Array, dim: Axes = None, keepdim: bool = False, *, dtype: str | None = None
) -> Array:
    """Return the sum over axes."""
    return np.sum(to_sum_dtype(x, dtype), _axes(x, dim), keepdims=keepdim)


def product(
    x: Array, dim: Axes = None, keepdim: bool = False, *, dtype: str | None = None
) -> Array:
    """Return the product over axes."""
    return np.prod(to_sum_dtype(x, dtype), _axes(x, dim), keepdims=keepdim)


def mean(
    x: Array, dim: Axes = None, keepdim: bool = False, *, dtype: str | None = None
) -> Array:
    """Return the mean over axes."""
    y = x if dtype is None else np.astype(x, dtype)
    return np.mean(y, _axes(x, dim), keepdims=keepdim)


def amax(x: Array, dim: Axes = None, keepdim: bool = False) -> Array:
    """Return the maximum over axes."""
    return np.max(x, _axes(x, dim), keepdims=keepdim)


def amin(x: Array, dim: Axes = None, keepdim: bool = False) -> Array:
    """Return the minimum over axes."""
    return np.min(x, _axes(x, dim), keepdims=keepdim)


def any_true(x: Array, dim: Axes = None, keepdim: bool = False) -> Array:
    """Return whether any element is nonzero, over axes."""
    return np.any(np.astype(x, "bool"), _axes(x, dim), keepdims=keepdim)


def all_true(x: Array, dim: Axes = None, keepdim: bool = False) -> Array:
    """Return whether all elements are nonzero, over axes."""
    return np.all(np.astype(x, "bool"), _axes(x, dim), keepdims=keepdim)


def variance_rule(function: Callable[..., Spread]) -> Callable[..., Spread]:
    """Return the import function of `var` or `std`, for all their overloads.

    Args:
        function: of x, axes, keepdim and the degrees of freedom that are taken off.
    """

    def call(
        x: object,
        dim: Axes | bool = None,
        unbiased: bool | None = None,
        keepdim: bool = False,
        *,
        correction: float | None = None,
    ) -> Spread:
        if isinstance(dim, bool):  # the overload without axes
            dim, unbiased = None, dim
        own = 1 if unbiased is None else int(unbiased)
        taken = own if correction is None else correction
        return function(x, dim, keepdim, taken)

    return call


def with_mean(
    variance: Callable[..., object], mean: Callable[..., object]
) -> Callable[..., object]:
    """Return a function for the pair of a variance (or deviation) and the mean."""

    def call(
        x: object, dim: Axes | bool = None, *rest: object, **named: object
    ) -> list[object]:
        axes = None if isinstance(dim, bool) else dim
        keepdim = named.get("keepdim", rest[1] if len(rest) > 1 else False)
        return [variance(x, dim, *rest, **named), mean(x, axes, keepdim)]

    return call


@variance_rule
def variance(x: Array, dim: Axes, keepdim: bool, ddof: float) -> Array:
    """Return the variance over axes."""
    return np.var(x, _axes(x, dim), ddof=ddof, keepdims=keepdim)


@variance_rule
def deviation(x: Array, dim: Axes, keepdim: bool, ddof: float) -> Array:
    """Return the standard deviation over axes."""
    return np.std(x, _axes(x, dim), ddof=ddof, keepdims=keepdim)


# ---- positions ----------------------------------------------------------------------


def _arg_extreme(function: Callable[..., Array]) -> Callable[..., Array]:
    """Return the import function of argmax or argmin."""

    def call(x: Array, dim: int | None = None, keepdim: bool = False) -> Array:
        found = function(x, _axes(x, dim), keepdims=keepdim)
        return np.astype(found, "i64")

    return call


argmax, argmin = _arg_extreme(np.argmax), _arg_extreme(np.argmin)


def _with_position(
    function: Callable[..., Array], position: Callable[..., Array]
) -> Callable[..., list[Array]]:
    """Return a function for the maximum (minimum) along an axis, and its index."""

    def call(x: Array, dim: int, keepdim: bool = False) -> list[Array]:
        values = function(x, _axes(x, dim), keepdims=keepdim)
        return [values, position(x, dim, keepdim)]

    return call


def histogram(x: Array, bins: int = 100, first: float = 0, last: float = 0) -> Array:
    """Return the counts of elements in equal bins from `first` to `last`."""
    x = np.ravel(x)
    if first == last:
        return np.astype(np.histogram(x, bins)[0], x.dtype)
    width = (last - first) / bins
    part = np.minimum(np.floor(np.divide(np.subtract(x, first), width)), bins - 1)
    inside = np.logical_and(np.greater_equal(x, first), np.less_equal(x, last))
    counts = np.bincount(np.astype(np.where(inside, part, bins), "i32"), length=bins)
    return np.astype(counts, x.dtype)


# ---- along an axis ------------------------------------------------------------------


def _cumulative(function: Callable[..., Array]) -> Callable[..., Array]:
    """Return the import function of a cumulative sum or product."""

    def call(x: Array, dim: int, *, dtype: str | None = None) -> Array:
        y = to_sum_dtype(x, dtype)
        return function(y, dim) if x.ndim else y

    return call


def _running_extreme(
    function: Callable[..., Array],
) -> Callable[..., list[Array]]:
    """Return a function for a cumulative maximum (minimum), and its last index."""

    def call(x: Array, dim: int) -> list[Array]:
        if not x.ndim:
            return [x, np.zeros((), "i64")]
        values = function(x, dim)
        axis = dim % x.ndim
        line = np.arange(x.shape[axis], dtype="i64")
        line = np.reshape(line, (-1,) + (1,) * (x.ndim - 1 - axis))
        met = np.equal(x, values)
        if dtypes.is_float(x.dtype):
            met = np.logical_or(met, np.isnan(x))
        places = np.where(met, line, 0)
        return [values, np.cummax(places, axis)]

    return call


def log_sum_exp(x: Array, dim: Axes, keepdim: bool = False) -> Array:
    """Return `log(sum(exp(x)))` over axes, without overflow."""
    return nn.logsumexp(as_float(x), _axes(x, dim), keepdims=keepdim)


def log_cumulative_sum_exp(x: Array, dim: int) -> Array:
    """Return `log(cumsum(exp(x)))` along an axis, without overflow."""
    return np.cumlogsumexp(x, dim) if x.ndim else x


def count_nonzero(x: Array, dim: Axes = None) -> Array:
    """Return the number of nonzero elements along axes."""
    return np.astype(np.count_nonzero(x, _axes(x, dim)), "i64")


OPS: dict[str, Callable[..., Any]] = {
    "aten.sum": total,
    "aten.prod": product,
    "aten.mean": mean,
    "aten.amax": amax,
    "aten.amin": amin,
    "aten.max.default": amax,
    "aten.min.default": amin,
    "aten.max.dim": _with_position(np.max, argmax),
    "aten.min.dim": _with_position(np.min, argmin),
    "aten.any": any_true,
    "aten.all": all_true,
    "aten._is_any_true": any_true,
    "aten._is_all_true": all_true,
    "aten.argmax": argmax,
    "aten.argmin": argmin,
    "aten.var": variance,
    "aten.std": deviation,
    "aten.var_mean": with_mean(variance, mean),
    "aten.std_mean": with_mean(deviation, mean),
    "aten.logsumexp": log_sum_exp,
    "aten.count_nonzero": count_nonzero,
    "aten.histc": histogram,
    "aten.cumsum": _cumulative(np.cumsum),
    "aten.cumprod": _cumulative(np.cumprod),
    "aten.cummax": _running_extreme(np.cummax),
    "aten.cummin": _running_extreme(np.cummin),
    "aten.logcumsumexp": log_cumulative_sum_exp,
}
