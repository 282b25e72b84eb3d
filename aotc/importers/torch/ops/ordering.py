"""ATen ops that order elements, and those built on them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aotc import numpy as np
from aotc.core import dtypes
from aotc.dialects.types import Size, SymbolicDim
from aotc.importers.torch.ops.shapes import slice_axis
from aotc.tracing.array import Array


def sort(x: Array, dim: int = -1, descending: bool = False) -> list[Array]:
    """Return the elements sorted along an axis, and their indices."""
    if not x.ndim:
        return [x, np.zeros((), "i64")]
    order = np.argsort(x, dim, descending=descending)
    return [np.take_along_axis(x, order, dim), np.astype(order, "i64")]


def stable_sort(
    x: Array, stable: bool | None = None, dim: int = -1, descending: bool = False
) -> list[Array]:
    """Return the elements sorted along an axis, stably, and their indices."""
    return sort(x, dim, descending)


def top_k(
    x: Array, k: Size, dim: int = -1, largest: bool = True, sorted: bool = True
) -> list[Array]:
    """Return the k largest (or smallest) elements along an axis, and their indices."""
    if not x.ndim:
        return [x, np.zeros((), "i64")]
    if isinstance(k, SymbolicDim):
        return [slice_axis(part, dim, 0, k) for part in sort(x, dim, largest)]
    values, positions = np.top_k(x, k, dim, largest=largest)
    return [values, np.astype(positions, "i64")]


def kth_value(x: Array, k: int, dim: int = -1, keepdim: bool = False) -> list[Array]:
    """Return the k-th smallest element along an axis, and its index."""
    values, positions = sort(x, dim)
    if not x.ndim:
        return [values, positions]
    return [_at(part, k - 1, dim, keepdim) for part in (values, positions)]


def _at(x: Array, position: Any, dim: int, keepdim: bool) -> Array:
    """Return the element at a position along an axis."""
    axis = dim % x.ndim
    taken = np.take(x, np.reshape(position, (1,)), axis)
    return taken if keepdim else np.squeeze(taken, axis)


# ---- the middle ---------------------------------------------------------------------


def _median(ignore_nan: bool) -> Callable[..., Any]:
    """Return a function for the lower median along an axis, and its index.

    The median is NaN where there is one, or with `ignore_nan` where nothing else is.
    """

    def call(x: Array, dim: int | None = None, keepdim: bool = False) -> Any:
        if dim is None:
            return _lower_median(np.ravel(x), 0, False, ignore_nan)[0]
        if not x.ndim:
            return sort(x)
        return _lower_median(x, dim % x.ndim, keepdim, ignore_nan)

    return call


def _lower_median(x: Array, axis: int, keepdim: bool, ignore_nan: bool) -> list[Array]:
    """Return the lower median along an axis, and its index."""
    values, positions = sort(x, axis)  # NaN comes last
    last = np.subtract(_valid_count(x, axis, ignore_nan), 1)
    place = np.floor_divide(np.maximum(last, 0), 2)
    if dtypes.is_float(x.dtype) and not ignore_nan:
        nan = np.any(np.isnan(values), axis, keepdims=True)
        first = np.argmax(np.isnan(values), axis, keepdims=True)
        place = np.where(nan, first, place)
    taken = [np.take_along_axis(part, place, axis) for part in (values, positions)]
    return [part if keepdim else np.squeeze(part, axis) for part in taken]


def _valid_count(x: Array, axis: int, ignore_nan: bool) -> Array:
    """Return the number of elements along an axis, without NaN if those are ignored."""
    mask = np.ones(x.shape, "i32")
    if dtypes.is_float(x.dtype) and ignore_nan:
        mask = np.astype(np.logical_not(np.isnan(x)), "i32")
    return np.sum(mask, axis, keepdims=True)


def mode(x: Array, dim: int = -1, keepdim: bool = False) -> list[Array]:
    """Return the most frequent element along an axis, and its last index."""
    if not x.ndim:
        return sort(x)
    axis = dim % x.ndim
    values, positions = (np.moveaxis(part, axis, -1) for part in sort(x, axis))
    new = np.not_equal(values[..., 1:], values[..., :-1])
    edge = np.ones((*new.shape[:-1], 1), "bool")
    line = np.arange(values.shape[-1], dtype="i32")
    start = np.concatenate([edge, new], -1)
    first = np.cummax(np.where(start, line, np.zeros_like(line)), -1)
    ends = np.concatenate([new, edge], -1)
    length = np.where(ends, np.subtract(line, first), -1)
    place = np.argmax(length, -1, keepdims=True)
    taken = [np.take_along_axis(part, place, -1) for part in (values, positions)]
    return [np.moveaxis(t, -1, axis) if keepdim else np.squeeze(t, -1) for t in taken]


OPS: dict[str, Callable[..., Any]] = {
    "aten.sort.default": sort,
    "aten.sort.stable": stable_sort,
    "aten.topk": top_k,
    "aten.kthvalue": kth_value,
    "aten.median": _median(ignore_nan=False),
    "aten.nanmedian": _median(ignore_nan=True),
    "aten.mode": mode,
}
