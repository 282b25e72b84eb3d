"""ATen ops that read and write at positions that tensors hold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from aotc import numpy as np
from aotc.dialects.types import Size
from aotc.importers.common.padded import indexing as padded
from aotc.importers.common.padded.values import Value
from aotc.importers.torch.promotion import as_dtype
from aotc.tracing.array import Array
from aotc.tracing.conversion import ArrayLike, lift
from aotc.tracing.source_locations import fail
from aotc.tracing.tracing import emit


def _key(indices: Sequence[Array | None]) -> tuple[Any, ...]:
    """Return an indexing key with `slice(None)` for None."""
    return tuple(slice(None) if index is None else index for index in indices)


def index(x: Array, indices: Sequence[Array | None]) -> Value:
    """Return `x[indices]`, with None for an axis that is taken whole.

    It is padded where a mask says how many elements are taken.
    """
    if any(i is not None and i.dtype == "bool" and i._data is None for i in indices):
        return padded.getitem(x, indices)
    return np.getitem(x, _key(indices))


def index_put(
    x: Array, indices: Sequence[Array | None], values: Array, accumulate: bool = False
) -> Array:
    """Return `x` with `values` set at positions, or added to the old ones."""
    given = [each for each in indices if each is not None]
    if len(given) == 1 and given[0].dtype == "bool" and given[0]._data is None:
        return _masked_put(x, indices, given[0], values, accumulate)
    place = x.at[_key(indices)]
    new = np.astype(values, x.dtype)
    return place.add(new) if accumulate else place.set(new)


def _masked_put(
    x: Array, indices: Sequence[object], mask: Array, values: Array, accumulate: bool
) -> Array:
    """Return x with elements where a mask holds set or added to."""
    before = list(indices).index(mask)
    after = x.ndim - before - mask.ndim
    if before or values.ndim > after:
        fail(
            "unsupported",
            f"values {values.type} are written where a mask {mask.type} holds, one "
            "after the other",
            "write it with torch.where",
        )
    mask = np.reshape(mask, (*mask.shape, *[1] * after))
    new = np.astype(values, x.dtype)
    return np.where(mask, np.add(x, new) if accumulate else new, x)


def take_rows(table: Array, indices: Array, *_: object, **__: object) -> Array:
    """Return rows of a table at indices."""
    return np.take(table, indices, 0)


def index_select(x: Array, dim: int, indices: Array) -> Array:
    """Return slices of x at indices along an axis."""
    if not x.ndim:
        return x
    return np.take(x, np.reshape(indices, (-1,)), dim)


def gather(x: Array, dim: int, indices: Array, sparse_grad: bool = False) -> Array:
    """Return elements of x at indices along an axis, elementwise on the other axes."""
    if not x.ndim:
        return np.broadcast_to(x, indices.shape)
    if not indices.ndim:  # of a vector
        return np.reshape(gather(x, dim, np.reshape(indices, (1,))), ())
    if indices.ndim != x.ndim:  # there are none
        return np.zeros(indices.shape, x.dtype)
    axis = dim % x.ndim
    part = np.getitem(x, _crop_key(x, indices.shape, axis))
    return np.take_along_axis(part, indices, axis)


def _crop_key(x: Array, shape: Sequence[Size], axis: int) -> tuple[slice, ...]:
    """Return slices that crop x to a shape on all axes but one."""
    sizes = [x.shape[n] if n == axis else size for n, size in enumerate(shape)]
    return tuple(
        slice(None) if size == whole else slice(0, size)
        for size, whole in zip(sizes, x.shape, strict=True)
    )


# ---- writing ------------------------------------------------------------------------

_NEUTRAL = {"sum": 0, "prod": 1, "mean": 0}
_SCATTERS = {
    "set": "scatter",
    "sum": "scatter_add",
    "add": "scatter_add",
    "mean": "scatter_add",
    "prod": "scatter_mul",
    "multiply": "scatter_mul",
    "amax": "scatter_max",
    "amin": "scatter_min",
}


def _scatter(x: Array, dim: int, indices: Array, src: Any, reduce: str) -> Array:
    """Return x with src written (or reduced) at indices along an axis."""
    if not x.ndim:
        whole = (np.reshape(lift(part), (1,)) for part in (x, indices))
        new = np.reshape(lift(src), (1,)) if isinstance(src, Array) else src
        y, places = whole
        return np.reshape(_scatter(y, 0, places, new, reduce), ())
    if indices.ndim != x.ndim:  # there are none
        return x
    axis = dim % x.ndim
    corner = _crop_key(x, indices.shape, axis)
    part = np.getitem(x, corner)
    if isinstance(src, Array):
        cut = tuple(slice(0, size) for size in indices.shape)
        updates = np.astype(np.getitem(src, cut), x.dtype)
    else:
        updates = np.broadcast_to(as_dtype(src, x.dtype), indices.shape)
    others = tuple(n for n in range(x.ndim) if n != axis)
    maps = {"axes": (axis,), "along": tuple(range(x.ndim)), "kept": others}
    y = emit(_SCATTERS[reduce], part, updates, indices, **maps, mode="drop")
    return y if part.shape == x.shape else x.at[corner].set(y)


def scatter(
    x: Array, dim: int, indices: Array, src: ArrayLike, reduce: str = "set"
) -> Array:
    """Return `x` with `src` written to indices along an axis, or combined with the
    old elements.
    """
    return _scatter(x, dim, indices, src, reduce)


def scatter_add(x: Array, dim: int, indices: Array, src: Array) -> Array:
    """Return x with src added at indices along an axis."""
    return _scatter(x, dim, indices, src, "sum")


def scatter_reduce(
    x: Array,
    dim: int,
    indices: Array,
    src: Array,
    reduce: str,
    include_self: bool = True,
) -> Array:
    """Return x with src reduced into indices along an axis."""
    start = x
    if not include_self:
        neutral = _neutral(reduce, x.dtype)
        start = _scatter(x, dim, indices, neutral, "set")
    y = _scatter(start, dim, indices, src, reduce)
    if reduce != "mean":
        return y
    ones = np.full(x.shape, 1 if include_self else 0, x.dtype)
    counts = np.maximum(_scatter(ones, dim, indices, 1, "sum"), 1)
    whole = np.floor_divide if x.dtype.startswith(("i", "u")) else np.divide
    return whole(y, counts)


def _neutral(reduce: str, dtype: str) -> Any:
    """Return the neutral element of a reduction."""
    if reduce not in ("amax", "amin"):
        return _NEUTRAL[reduce]
    if not dtype.startswith(("i", "u")):
        return -float("inf") if reduce == "amax" else float("inf")
    info = np.iinfo(dtype)
    return int(info.min if reduce == "amax" else info.max)


def _row_key(x: Array, dim: int, indices: Array) -> tuple[Any, ...]:
    """Return an indexing key with indices on one axis."""
    return (*[slice(None)] * (dim % x.ndim), indices)


def index_add(
    x: Array, dim: int, indices: Array, src: Array, alpha: ArrayLike = 1
) -> Array:
    """Return x with slices of `alpha * src` added at indices along an axis."""
    if not x.ndim:
        return np.add(x, np.multiply(np.reshape(np.sum(src), ()), alpha))
    new = src if alpha == 1 else np.multiply(src, alpha)
    return x.at[_row_key(x, dim, np.reshape(indices, (-1,)))].add(new)


def index_reduce(
    x: Array,
    dim: int,
    indices: Array,
    src: Array,
    reduce: str,
    *,
    include_self: bool = True,
) -> Array:
    """Return x with slices of src reduced into indices along an axis."""
    if not x.ndim:
        whole = (np.reshape(part, (1,)) for part in (x, indices, src))
        y, places, new = whole
        found = scatter_reduce(y, 0, places, new, reduce, include_self)
        return np.reshape(found, ())
    axis = dim % x.ndim
    places = np.reshape(indices, (-1, *[1] * (x.ndim - axis - 1)))
    places = np.broadcast_to(places, src.shape)
    return scatter_reduce(x, axis, places, src, reduce, include_self)


def index_copy(x: Array, dim: int, indices: Array, src: Array) -> Array:
    """Return x with slices at indices along an axis replaced by src."""
    if not x.ndim:
        return np.reshape(src, ())
    places = np.reshape(indices, (-1,))
    rows = np.reshape(src, (1,)) if not src.ndim else src
    return x.at[_row_key(x, dim, places)].set(rows)


def index_fill(x: Array, dim: int, indices: Array, value: Any) -> Array:
    """Return x with slices at indices along an axis set to one value."""
    new = as_dtype(value, x.dtype)
    if not x.ndim:
        return new
    return x.at[_row_key(x, dim, np.reshape(indices, (-1,)))].set(new)


def masked_scatter(x: Array, mask: Array, source: Array) -> Array:
    """Return x with the elements of `source`, in order, where a mask holds."""
    shape = np.broadcast_shapes(x.shape, mask.shape)
    x, mask = np.broadcast_to(x, shape), np.broadcast_to(mask, shape)
    if source.size == 0:  # then the mask holds nowhere
        return x
    order = np.cumsum(np.astype(np.ravel(mask), "i32"), 0)
    places = np.maximum(np.subtract(order, 1), 0)
    taken = np.take(np.ravel(source), places, mode="clip")
    return np.where(mask, np.reshape(taken, shape), x)


def places_of_nonzero(x: Array, *, size: Size, fill_value: int = -1) -> Array:
    """Return the index vectors of the first `size` nonzero elements, as rows."""
    if not x.ndim:
        return np.zeros((size, 0), "i64")
    return np.astype(np.argwhere(x, size=size, fill_value=fill_value), "i64")


def take(x: Array, indices: Array) -> Array:
    """Return elements of x at flat indices."""
    return np.take(x, indices)


def put(x: Array, indices: Array, source: Array, accumulate: bool = False) -> Array:
    """Return x with elements at flat indices replaced, or added to."""
    flat = np.ravel(x).at[np.ravel(indices)]
    new = np.ravel(source)
    return np.reshape(flat.add(new) if accumulate else flat.set(new), x.shape)


def search_sorted(
    table: Array,
    values: Any,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Array | None = None,
) -> Array:
    """Return the insertion positions of values in sorted rows."""
    if sorter is not None:
        table = np.take_along_axis(table, sorter, -1)
    chosen = side or ("right" if right else "left")
    values = as_dtype(values, table.dtype)
    if table.ndim > 1:
        found = _search_rows(table, values, chosen)
    else:
        found = np.searchsorted(table, values, chosen)
    return np.astype(found, "i32" if out_int32 else "i64")


def _search_rows(table: Array, values: Array, side: str) -> Array:
    """Return the insertion positions of values in each row, by counting."""
    row, value = np.expand_dims(table, -2), np.expand_dims(values, -1)
    before = np.less(row, value) if side == "left" else np.less_equal(row, value)
    return np.sum(np.astype(before, "i32"), -1)


def bucketize(
    values: ArrayLike,
    boundaries: Array,
    *,
    out_int32: bool = False,
    right: bool = False,
) -> Array:
    """Return the bucket index of each value, between sorted boundaries."""
    return search_sorted(boundaries, values, out_int32=out_int32, right=right)


OPS: dict[str, Callable[..., Any]] = {
    "aten.index.Tensor": index,
    "aten._unsafe_index.Tensor": index,
    "aten.index_put": index_put,
    "aten._unsafe_index_put": index_put,
    "aten.embedding": take_rows,
    "aten.index_select": index_select,
    "aten.gather": gather,
    "aten.scatter": scatter,
    "aten.scatter_add": scatter_add,
    "aten.scatter_reduce.two": scatter_reduce,
    "aten.index_add": index_add,
    "aten.index_reduce": index_reduce,
    "aten.index_copy": index_copy,
    "aten.index_fill": index_fill,
    "aten.masked_scatter": masked_scatter,
    "aten.nonzero_static": places_of_nonzero,
    "aten.take": take,
    "aten.put": put,
    "aten.searchsorted": search_sorted,
    "aten.bucketize": bucketize,
}
