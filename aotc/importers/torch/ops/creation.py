"""ATen ops that make tensors out of sizes and numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from aotc import numpy as np
from aotc.dialects.types import Size, SymbolicDim
from aotc.importers.torch.promotion import as_dtype, result_dtype
from aotc.tracing.array import Array
from aotc.tracing.conversion import ArrayLike


def full(size: Sequence[Size], value: Any, *, dtype: str | None = None) -> Array:
    """Return an array of a size, filled with one value."""
    scalar = as_dtype(value, dtype or result_dtype(value))
    return np.broadcast_to(scalar, tuple(size))


def full_like(x: Array, value: object, *, dtype: str | None = None) -> Array:
    """Return an array in the shape of x, filled with one value."""
    return full(x.shape, value, dtype=dtype or x.dtype)


def _full_of(value: int) -> Callable[..., Array]:
    """Return a function that creates an array of a size, filled with `value`."""

    def call(size: Sequence[Size], *, dtype: str | None = None) -> Array:
        return full(size, value, dtype=dtype or "f32")

    return call


def _full_like(value: int) -> Callable[..., Array]:
    """Return a function that creates an array like another, filled with `value`."""

    def call(x: Array, *, dtype: str | None = None) -> Array:
        return full_like(x, value, dtype=dtype)

    return call


zeros = _full_of(0)


def empty_strided(
    size: Sequence[Size], _: object, *, dtype: str | None = None
) -> Array:
    """Return zeros: the elements are undefined in PyTorch."""
    return zeros(size, dtype=dtype)


def fill(x: Array, value: ArrayLike) -> Array:
    """Return one value in the shape and dtype of x."""
    return full_like(x, value)


def scalar_tensor(value: ArrayLike, *, dtype: str | None = None) -> Array:
    """Return a number as a scalar array."""
    return full((), value, dtype=dtype or "f32")


def arange(*bounds: Any, dtype: str | None = None) -> Array:
    """Return the vector `start, start + step, …` below `end`."""
    start, end, step = {1: (0, *bounds, 1), 2: (*bounds, 1), 3: bounds}[len(bounds)]
    whole = all(isinstance(part, int | SymbolicDim) for part in (start, end, step))
    name = dtype or ("i64" if whole else "f32")
    return np.arange(start, end, step, dtype=name)


def linspace(start: Any, end: Any, steps: int, *, dtype: str | None = None) -> Array:
    """Return `steps` evenly spaced numbers from `start` to `end`, both included."""
    return np.linspace(start, end, steps, dtype=dtype or "f32")


def eye(rows: Size, columns: Size | None = None, *, dtype: str | None = None) -> Array:
    """Return ones on the diagonal, zeros elsewhere."""
    return np.eye(rows, columns, dtype=dtype or "f32")


def _triangle(function: Callable[..., Any]) -> Callable[..., Array]:
    """Return the import function of `tril_indices` or `triu_indices`."""

    def call(row: int, col: int, offset: int = 0, *, dtype: str | None = None) -> Array:
        return np.astype(np.stack(function(row, offset, col)), dtype or "i64")

    return call


OPS: dict[str, Callable[..., Any]] = {
    "aten.full": full,
    "aten.full_like": full_like,
    "aten.zeros": zeros,
    "aten.ones": _full_of(1),
    "aten.zeros_like": _full_like(0),
    "aten.ones_like": _full_like(1),
    "aten.empty.memory_format": zeros,
    "aten.empty_like": _full_like(0),
    "aten.empty_strided": empty_strided,
    "aten.empty_permuted": empty_strided,
    "aten.fill.Scalar": fill,
    "aten.fill.Tensor": fill,
    "aten.scalar_tensor": scalar_tensor,
    "aten.arange": arange,
    "aten.linspace": linspace,
    "aten.eye": eye,
    "aten.tril_indices": _triangle(np.tril_indices),
    "aten.triu_indices": _triangle(np.triu_indices),
}
