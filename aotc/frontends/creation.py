"""Functions of `aotc.numpy` that make arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from aotc import dtypes
from aotc.dialects.types import Dim, Size
from aotc.frontends.array import Array
from aotc.frontends.broadcasting import as_shape, broadcast_to
from aotc.frontends.conversion import ArrayLike, astype, is_weak, lift
from aotc.frontends.elementwise import add, equal, less_equal, multiply, subtract, where
from aotc.frontends.places import fail
from aotc.frontends.shaping import stack
from aotc.frontends.sizes import bounds
from aotc.frontends.tracing import emit


def asarray(a: ArrayLike, dtype: Any = None) -> Array:
    """`a` as an array; nested lists may hold arrays."""
    wanted = None if dtype is None else dtypes.canonical(dtype)
    nested = isinstance(a, (list, tuple)) and any(_is_array(part) for part in a)
    made = _stacked(a) if nested else lift(a, wanted)
    return made if wanted is None else astype(made, wanted)


def _stacked(parts: Sequence[ArrayLike]) -> Array:
    """A list that holds arrays somewhere; numbers in it adapt to them."""
    return stack([part if is_weak(part) else asarray(part) for part in parts])


def _is_array(part: Any) -> bool:
    if isinstance(part, (list, tuple)):
        return any(map(_is_array, part))
    return isinstance(part, (Array, Dim))


def full(shape: Any, fill_value: ArrayLike, dtype: Any = None) -> Array:
    """`fill_value` in every element of a new array."""
    return broadcast_to(asarray(fill_value, dtype), as_shape(shape))


def zeros(shape: Any, dtype: Any = "f32") -> Array:
    """Zeros."""
    return full(shape, 0, dtype)


def ones(shape: Any, dtype: Any = "f32") -> Array:
    """Ones."""
    return full(shape, 1, dtype)


def full_like(a: ArrayLike, fill_value: ArrayLike, dtype: Any = None) -> Array:
    """`fill_value` in every element of an array like `a`."""
    like = lift(a)
    return full(like.shape, fill_value, dtype or like.dtype)


def zeros_like(a: ArrayLike, dtype: Any = None) -> Array:
    """Zeros in the shape and dtype of `a`."""
    return full_like(a, 0, dtype)


def ones_like(a: ArrayLike, dtype: Any = None) -> Array:
    """Ones in the shape and dtype of `a`."""
    return full_like(a, 1, dtype)


def arange(start: Any, stop: Any = None, step: Any = 1, dtype: Any = None) -> Array:
    """`start, start + step, …` below `stop`; whole bounds may be symbolic sizes."""
    start, stop = (0, start) if stop is None else (start, stop)
    if any(isinstance(part, (float, np.floating)) for part in (start, stop, step)):
        values = np.arange(start, stop, step)
        return lift(values.astype(dtypes.to_numpy(dtypes.canonical(dtype or "f32"))))
    count = _count(start, stop, step)
    name = dtypes.canonical(dtype or "i32")
    line = emit("iota", shape=(count,), axis=0, dtype=name)
    scaled = line if step == 1 else multiply(line, step)
    return scaled if start == 0 else add(scaled, start)


def _count(start: Any, stop: Any, step: Any) -> Size:
    """How many steps fit between the bounds."""
    if not isinstance(start, Dim) and not isinstance(stop, Dim):
        return len(range(start, stop, step))
    distance: Size = stop - start
    if step < 1 or bounds(distance)[0] < 0:
        fail(
            "symbolic-size",
            f"expected bounds of a symbolic arange that provably rise; got {start} to "
            f"{stop} in steps of {step}",
        )
    return distance if step == 1 else (distance + (step - 1)) // step


def linspace(start: float, stop: float, num: int = 50, *, dtype: Any = None) -> Array:
    """`num` evenly spaced numbers from `start` to `stop`, both included."""
    values = np.linspace(start, stop, num)
    return lift(values.astype(dtypes.to_numpy(dtypes.canonical(dtype or "f32"))))


def eye(N: Size, M: Size | None = None, k: int = 0, dtype: Any = "f32") -> Array:  # noqa: N803
    """Ones on the k-th diagonal of an N × M matrix."""
    return astype(equal(_diagonal_of(N, N if M is None else M), k), dtype)


def tri(N: Size, M: Size | None = None, k: int = 0, dtype: Any = "f32") -> Array:  # noqa: N803
    """Ones on and below the k-th diagonal."""
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
    """True on and below the k-th diagonal of the last two axes."""
    if m.ndim < 2:
        fail("bad-axis", f"expected an array of at least two axes; got {m.type}")
    return less_equal(_diagonal_of(m.shape[-2], m.shape[-1]), k)


def _diagonal_of(rows: Size, columns: Size) -> Array:
    """For each element, the number of the diagonal that it is on."""
    shape = (rows, columns)
    row = emit("iota", shape=shape, axis=0, dtype="i32")
    return subtract(emit("iota", shape=shape, axis=1, dtype="i32"), row)
