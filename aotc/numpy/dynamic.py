"""Slices of fixed size from positions that the model computes."""

from __future__ import annotations

from typing import Any

from aotc.core import dtypes
from aotc.dialects.types import Shape, format_shape
from aotc.numpy.broadcasting import as_shape
from aotc.numpy.elementwise import add, less, where
from aotc.tracing.array import Array
from aotc.tracing.conversion import ArrayLike, astype, lift, one_dtype
from aotc.tracing.sizes import bounds
from aotc.tracing.source_locations import fail
from aotc.tracing.tracing import emit

__all__ = ["dynamic_slice", "dynamic_update_slice"]


def dynamic_slice(
    operand: ArrayLike, start_indices: ArrayLike, slice_sizes: Any
) -> Array:
    """`slice_sizes` elements from `start_indices`, as in `jax.lax`.

    A negative start counts from the end of its axis. A slice that would then leave the
    array is moved to fit. Starts of an unsigned dtype are used as they are.
    """
    x, sizes = lift(operand), as_shape(slice_sizes)
    _require_fit(x, sizes)
    starts = _starts(start_indices, x.shape)
    return emit("dynamic_slice", x, starts, sizes=sizes)


def dynamic_update_slice(
    operand: ArrayLike, update: ArrayLike, start_indices: ArrayLike
) -> Array:
    """`operand` with `update` written from `start_indices`, as in `jax.lax`.

    A negative start counts from the end of its axis. An update that would then leave
    the array is moved to fit.
    """
    whole, part = one_dtype(operand, update)
    _require_fit(whole, part.shape)
    starts = _starts(start_indices, whole.shape)
    return emit("dynamic_update_slice", whole, part, starts)


def _require_fit(x: Array, sizes: Shape) -> None:
    """Raise unless a slice of `sizes` provably fits into `x`."""
    for size, have in zip(sizes, x.shape, strict=False):
        if bounds(size)[0] < 0 or bounds(have - size)[0] < 0:
            fail(
                "bad-slice",
                f"a slice of {format_shape(sizes)} does not provably fit into {x.type}",
            )


def _starts(start_indices: ArrayLike, shape: Shape) -> Array:
    """Return the start indices as one vector, negative ones counted from the end.

    A list may mix numbers and arrays.
    """
    if not isinstance(start_indices, (tuple, list)) or not start_indices:
        starts = _holding_sizes(lift(start_indices))
        has_all = starts.type.shape == (len(shape),)
        return _from_front(starts, shape) if has_all else starts
    parts = [_holding_sizes(part) for part in one_dtype(*start_indices)]
    if len(parts) == len(shape):  # the op says that it expected as many
        parts = [_from_front(part, n) for part, n in zip(parts, shape, strict=True)]
    return _vector(parts)


def _holding_sizes(starts: Array) -> Array:
    """Widen signed starts to a dtype that holds sizes."""
    narrow = starts.dtype in dtypes.SIGNED and dtypes.bits(starts.dtype) < 32
    return astype(starts, "i32") if narrow else starts


def _from_front(starts: Array, sizes: Any) -> Array:
    """Add `sizes` to negative start indices."""
    known = starts._data
    if starts.dtype not in dtypes.SIGNED or (
        known is not None and known.min(initial=0) >= 0
    ):
        return starts
    if isinstance(sizes, tuple):
        sizes = _vector([lift(size, starts.dtype) for size in sizes])
    return where(less(starts, 0), add(starts, sizes), starts)


def _vector(parts: list[Array]) -> Array:
    """Concatenate scalars to a vector."""
    whole, *rest = (emit("reshape", part, shape=(1,)) for part in parts)
    for part in rest:
        whole = emit("concatenate", whole, part, axis=0)
    return whole
