"""Slices of fixed size from positions that the model computes."""

from __future__ import annotations

from typing import Any

from aotc.dialects.types import Shape, format_shape
from aotc.numpy.broadcasting import as_shape
from aotc.tracing.array import Array
from aotc.tracing.conversion import ArrayLike, lift, one_dtype
from aotc.tracing.sizes import bounds
from aotc.tracing.source_locations import fail
from aotc.tracing.tracing import emit


def dynamic_slice(
    operand: ArrayLike, start_indices: ArrayLike, slice_sizes: Any
) -> Array:
    """`slice_sizes` elements from `start_indices`, moved to fit (JAX's)."""
    x, sizes = lift(operand), as_shape(slice_sizes)
    _require_fit(x, sizes)
    return emit("dynamic_slice", x, _starts(start_indices), sizes=sizes)


def dynamic_update_slice(
    operand: ArrayLike, update: ArrayLike, start_indices: ArrayLike
) -> Array:
    """`operand` with `update` written from `start_indices`, moved to fit (JAX's)."""
    whole, part = one_dtype(operand, update)
    _require_fit(whole, part.shape)
    return emit("dynamic_update_slice", whole, part, _starts(start_indices))


def _require_fit(x: Array, sizes: Shape) -> None:
    """Refuse a slice that is not provably within `x`; the op counts the axes."""
    for size, have in zip(sizes, x.shape, strict=False):
        if bounds(size)[0] < 0 or bounds(have - size)[0] < 0:
            fail(
                "bad-slice",
                f"a slice of {format_shape(sizes)} does not provably fit into {x.type}",
            )


def _starts(start_indices: ArrayLike) -> Array:
    """The starts as one vector; a list may mix numbers and arrays."""
    if not isinstance(start_indices, (tuple, list)) or not start_indices:
        return lift(start_indices)
    parts = [emit("reshape", part, shape=(1,)) for part in one_dtype(*start_indices)]
    whole = parts[0]
    for part in parts[1:]:
        whole = emit("concatenate", whole, part, axis=0)
    return whole
