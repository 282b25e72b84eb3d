"""Functions of `aotc.numpy` about diagonals and triangles."""

from __future__ import annotations

from typing import Any

import numpy as np

from aotc.core.dtypes import DTypeLike
from aotc.dialects.types import Size, SymbolicDim, maximum, minimum
from aotc.numpy.axes import axis_list
from aotc.numpy.broadcasting import broadcast_to
from aotc.numpy.cutting import cut
from aotc.numpy.elementwise import equal, less_equal, subtract, where
from aotc.numpy.padding import pad
from aotc.numpy.reducing import sum as total
from aotc.numpy.shaping import expand_dims, moveaxis, ravel, reshape
from aotc.tracing.array import Array
from aotc.tracing.conversion import ArrayLike, astype, lift
from aotc.tracing.source_locations import fail
from aotc.tracing.tracing import emit

__all__ = [
    "diag", "diag_indices", "diag_indices_from", "diagflat", "diagonal", "eye",
    "identity", "trace", "tri", "tril", "tril_indices", "tril_indices_from", "triu",
    "triu_indices", "triu_indices_from",
]  # fmt: skip


def eye(N: Size, M: Size | None = None, k: int = 0, dtype: DTypeLike = "f32") -> Array:  # noqa: N803
    """Return ones on the k-th diagonal of an N × M matrix."""
    return astype(equal(_diagonal_of(N, N if M is None else M), k), dtype)


def identity(n: Size, dtype: DTypeLike = "f32") -> Array:
    """The n × n matrix with ones on its diagonal."""
    return eye(n, dtype=dtype)


def tri(N: Size, M: Size | None = None, k: int = 0, dtype: DTypeLike = "f32") -> Array:  # noqa: N803
    """Return ones on and below the k-th diagonal."""
    return astype(less_equal(_diagonal_of(N, N if M is None else M), k), dtype)


def tril(m: ArrayLike, k: int = 0) -> Array:
    """The last two axes with zeros above the k-th diagonal."""
    m = lift(m)
    return where(_lower_triangle(m, k), m, False)


def triu(m: ArrayLike, k: int = 0) -> Array:
    """The last two axes with zeros below the k-th diagonal."""
    m = lift(m)
    return where(_lower_triangle(m, k - 1), False, m)


def _lower_triangle(m: Array, k: int) -> Array:
    """Return True on and below the k-th diagonal of the last two axes."""
    if m.ndim < 2:
        fail("bad-axis", f"expected an array of at least two axes; got {m.type}")
    return less_equal(_diagonal_of(m.shape[-2], m.shape[-1]), k)


def _diagonal_of(rows: Size, columns: Size) -> Array:
    """Return, for each element of a matrix, the offset of its diagonal."""
    for size in (rows, columns):
        if not isinstance(size, SymbolicDim) and size < 0:
            fail("bad-shape", f"expected sizes of 0 or more; got {(rows, columns)}")
    shape = (rows, columns)
    row = emit("iota", shape=shape, axis=0, dtype="i32")
    return subtract(emit("iota", shape=shape, axis=1, dtype="i32"), row)


def tril_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Array, Array]:
    """Return rows and columns of the elements on and below an n × m k-th diagonal."""
    return _indices(np.tril_indices(n, k, m))


def triu_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Array, Array]:
    """Return rows and columns of the elements on and above an n × m k-th diagonal."""
    return _indices(np.triu_indices(n, k, m))


def diag_indices(n: int, ndim: int = 2) -> tuple[Array, ...]:
    """Return the indices of the main diagonal, along each of `ndim` axes of size n."""
    return (lift(np.arange(n, dtype="i4")),) * ndim


def tril_indices_from(arr: ArrayLike, k: int = 0) -> tuple[Array, Array]:
    """`tril_indices` of a matrix of fixed sizes."""
    return tril_indices(*_fixed_sides(arr, k))


def triu_indices_from(arr: ArrayLike, k: int = 0) -> tuple[Array, Array]:
    """`triu_indices` of a matrix of fixed sizes."""
    return triu_indices(*_fixed_sides(arr, k))


def diag_indices_from(arr: ArrayLike) -> tuple[Array, ...]:
    """`diag_indices` of an array whose axes all have one fixed size."""
    x = lift(arr)
    size = x.type.shape[0] if x.ndim > 1 else None
    if not isinstance(size, int) or any(other != size for other in x.type.shape):
        fail("shape-mismatch", f"expected axes of one fixed size; got {x.type}")
    return diag_indices(size, x.ndim)


def _fixed_sides(arr: ArrayLike, k: int) -> tuple[int, int, int]:
    """Return rows, `k` and columns of a matrix of fixed sizes."""
    x = lift(arr)
    rows, columns = x.shape if x.ndim == 2 else (None, None)
    if not isinstance(rows, int) or not isinstance(columns, int):
        fail("shape-mismatch", f"expected a matrix of fixed sizes; got {x.type}")
    return rows, k, columns


def _indices(pair: Any) -> tuple[Array, Array]:
    """Return NumPy's row and column indices as i32 arrays."""
    rows, columns = (lift(part.astype("i4")) for part in pair)
    return rows, columns


# ---- one diagonal -------------------------------------------------------------------


def diagonal(a: ArrayLike, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
    """The elements of a diagonal of two axes, along a new last axis."""
    x = lift(a)
    pair = axis_list(x, (axis1, axis2))
    x = moveaxis(x, pair, (-2, -1))
    rows, columns = x.type.shape[-2:]
    above, below = max(offset, 0), max(-offset, 0)
    count = maximum(minimum(rows - below, columns - above), 0)
    if isinstance(columns, int):
        return _in_steps(x, columns, offset, count)
    part = cut(x, x.ndim - 2, minimum(below, rows), count)
    mask = equal(_diagonal_of(count, columns), above)
    return astype(total(where(mask, part, False), -1), x.dtype)


def _in_steps(x: Array, columns: int, offset: int, count: Size) -> Array:
    """Return a diagonal by a strided slice of the flattened rows."""
    *rest, rows, _ = x.shape
    if count == 0:
        return broadcast_to(astype(0, x.dtype), (*rest, 0))
    flat = reshape(x, (*rest, rows * columns))
    start = offset if offset >= 0 else -offset * columns
    return cut(flat, flat.ndim - 1, start, count, columns + 1)


def diag(v: ArrayLike, k: int = 0) -> Array:
    """The k-th diagonal of a matrix, or the matrix with the vector `v` on it."""
    x = lift(v)
    if x.ndim == 2:
        return diagonal(x, k)
    if x.ndim != 1:
        fail("shape-mismatch", f"expected a vector or a matrix; got {x.type}")
    size = x.shape[0] + abs(k)
    line = pad(x, ((0, abs(k)),))
    across = expand_dims(line, 1 if k >= 0 else 0)
    mask = equal(_diagonal_of(size, size), k)
    return where(mask, broadcast_to(across, (size, size)), False)


def diagflat(v: ArrayLike, k: int = 0) -> Array:
    """The matrix with all elements of `v` on its k-th diagonal."""
    return diag(ravel(v), k)


def trace(
    a: ArrayLike,
    offset: int = 0,
    axis1: int = 0,
    axis2: int = 1,
    dtype: DTypeLike | None = None,
) -> Array:
    """The sum of a diagonal of two axes, which are left out; see `sum`."""
    return total(diagonal(a, offset, axis1, axis2), -1, dtype)
