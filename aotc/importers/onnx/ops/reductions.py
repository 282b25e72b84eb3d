"""Reductions, positions of extremes, running sums, and sorting."""

from __future__ import annotations

from collections.abc import Callable

from aotc import numpy as np
from aotc import special
from aotc.core import dtypes
from aotc.dialects.types import Size, bounds
from aotc.importers.onnx.calling import Imports
from aotc.importers.onnx.values import Known, only_number, row_of_numbers
from aotc.numpy.axes import Axes
from aotc.numpy.elementwise import root_of_squares
from aotc.tracing.array import Array
from aotc.tracing.conversion import to_accumulator

Reduction = Callable[..., Array]


def _reduces(function: Reduction) -> Imports:
    """Return the import function for a reduction `function(x, axes, keepdims=…)`."""

    def reduction(
        x: Array,
        listed: Known | None = None,
        *,
        axes: tuple[int, ...] | None = None,
        keepdims: int = 1,
        noop_with_empty_axes: int = 0,
    ) -> Array:
        given = axes if listed is None else row_of_numbers(listed)
        if not given and noop_with_empty_axes:
            return function(np.expand_dims(x, 0), 0, keepdims=False)
        return function(x, tuple(given) if given else None, keepdims=bool(keepdims))

    return reduction


def _sum(x: Array, axes: Axes, *, keepdims: bool) -> Array:
    """Return the sum over axes."""
    return np.sum(x, axes, keepdims=keepdims)


def _mean(x: Array, axes: Axes, *, keepdims: bool) -> Array:
    """Return the mean over axes; of integers in f64, rounded towards 0."""
    if dtypes.is_float(x.dtype):
        return np.mean(x, axes, keepdims=keepdims)
    return np.astype(np.mean(np.astype(x, "f64"), axes, keepdims=keepdims), x.dtype)


def _extreme(function: Reduction, as_bool: Reduction, empty: float) -> Reduction:
    """Return a maximum or minimum reduction that takes bools and empty axes too.

    Over no elements it gives `empty`, an infinity; of integers the dtype's limit.
    """

    def extreme(x: Array, axes: Axes, *, keepdims: bool) -> Array:
        if x.dtype == "bool":
            return as_bool(x, axes, keepdims=keepdims)
        if bounds(x.size)[0] == 0:  # or a call may have none
            initial = (
                empty if dtypes.is_float(x.dtype) else _dtype_limit(x.dtype, empty)
            )
            return function(x, axes, keepdims=keepdims, initial=initial)
        return function(x, axes, keepdims=keepdims)

    return extreme


def _dtype_limit(dtype: str, empty: float) -> int:
    """Return a dtype's largest integer if `empty` is positive, else the smallest."""
    bounds = np.iinfo(dtype)
    return int(bounds.max if empty > 0 else bounds.min)


def _l1(x: Array, axes: Axes, *, keepdims: bool) -> Array:
    """Return the L1 norm over axes."""
    return np.sum(np.absolute(x), axes, keepdims=keepdims)


def _l2(x: Array, axes: Axes, *, keepdims: bool) -> Array:
    """Return the L2 norm over axes."""
    squares = _sum_square(to_accumulator(x), axes, keepdims=keepdims)
    return np.astype(root_of_squares(squares), x.dtype)


def _sum_square(x: Array, axes: Axes, *, keepdims: bool) -> Array:
    """Return the sum of squares over axes."""
    return np.sum(np.square(x), axes, keepdims=keepdims)


def _log_sum(x: Array, axes: Axes, *, keepdims: bool) -> Array:
    """Return the logarithm of the sum over axes."""
    total = np.sum(to_accumulator(x), axes, keepdims=keepdims)
    return np.astype(np.log(total), x.dtype)


def _log_sum_exp(x: Array, axes: Axes, *, keepdims: bool) -> Array:
    """Return log(sum(exp(x))) over axes."""
    return special.logsumexp(x, axes, keepdims=keepdims)


def _arg_extreme(function: Callable[..., Array]) -> Imports:
    """Return the import function of ArgMax or ArgMin."""

    def extreme_position(
        x: Array, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0
    ) -> Array:
        if not select_last_index:
            return np.astype(function(x, axis, keepdims=bool(keepdims)), "i64")
        back = function(np.flip(x, axis), axis, keepdims=bool(keepdims))
        return np.astype(np.subtract(x.shape[axis] - 1, back), "i64")

    return extreme_position


def _cumulative(function: Callable[..., Array], neutral: int) -> Imports:
    """Return the import function of a cumulative operator with a neutral element."""

    def running(
        x: Array, axis: Known, *, exclusive: int = 0, reverse: int = 0
    ) -> Array:
        along = int(only_number(axis)) % x.ndim
        found = function(x, along, reverse=bool(reverse))
        if not exclusive:
            return found
        key = [slice(None)] * x.ndim
        key[along] = slice(1, None) if reverse else slice(None, -1)
        first = np.full(_one_along(x, along), neutral, x.dtype)
        parts = [found[tuple(key)], first] if reverse else [first, found[tuple(key)]]
        return np.concatenate(parts, along)

    return running


def _one_along(x: Array, axis: int) -> list[Size]:
    """Return the shape of x with size 1 along an axis."""
    return [1 if i == axis else n for i, n in enumerate(x.shape)]


def top_k(
    x: Array,
    count: Known | None = None,
    *,
    k: int | None = None,
    axis: int = -1,
    largest: int = 1,
    sorted: int = 1,
) -> tuple[Array, Array]:
    """Return the k largest (or smallest) elements along an axis, sorted, and their
    indices.
    """
    wanted = int(only_number(count)) if k is None and count is not None else int(k or 0)
    values, places = np.top_k(x, wanted, axis, largest=bool(largest))
    return values, np.astype(places, "i64")


TABLE: dict[str, Imports] = {
    "ArgMax": _arg_extreme(np.argmax),
    "ArgMin": _arg_extreme(np.argmin),
    "CumProd": _cumulative(np.cumprod, 1),
    "CumSum": _cumulative(np.cumsum, 0),
    "ReduceL1": _reduces(_l1),
    "ReduceL2": _reduces(_l2),
    "ReduceLogSum": _reduces(_log_sum),
    "ReduceLogSumExp": _reduces(_log_sum_exp),
    "ReduceMax": _reduces(_extreme(np.max, np.any, float("-inf"))),
    "ReduceMean": _reduces(_mean),
    "ReduceMin": _reduces(_extreme(np.min, np.all, float("inf"))),
    "ReduceProd": _reduces(np.prod),
    "ReduceSum": _reduces(_sum),
    "ReduceSumSquare": _reduces(_sum_square),
    "TopK": top_k,
}
