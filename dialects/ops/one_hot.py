"""Scatters that add, as sums over all updates, of which each element takes its own.

    y[r, c] = x[r, c] + sum over n of (updates[n, c] if indices[n] == r else 0)

Nothing is multiplied by 0, so that what is infinite stays where it goes.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from aotc.core import dtypes as dt
from aotc.dialects.builder import Builder
from aotc.dialects.lowering.conversion import accumulator
from aotc.dialects.ops.contraction import cast
from aotc.dialects.ops.indexing import IndexMap
from aotc.dialects.types import Size, Tensor
from aotc.mlir import Value

if TYPE_CHECKING:
    from aotc.dialects.ops.scattering import ScatterAdd


def sum_of_own_updates(b: Builder, op: "ScatterAdd") -> Value:
    """Emit a scatter-add as elementwise comparisons of positions and one sum."""
    x, updates = Tensor.of(op.x), Tensor.of(op.updates)
    at, wide = IndexMap(op.axes, op.along, op.kept, op.mode), accumulator(x.dtype)
    unshared = [axis for axis in at.along if axis not in at.kept]
    shape = (*x.shape, *(updates.shape[axis] for axis in unshared))
    loops = {axis: x.rank + n for n, axis in enumerate(unshared)}
    loops |= {axis: at.source(axis) for axis in at.kept}

    def spread(value: Value, axes: Sequence[int]) -> Value:
        """Emit a value repeated along all loops; its axes are `axes` of updates."""
        own = [loops[axis] for axis in axes]
        order = sorted(range(len(own)), key=own.__getitem__)
        turned = b.to_order(value, tuple(order))
        repeated: Value = b.broadcast(turned, shape=shape, axes=tuple(sorted(own)))
        return repeated

    found = spread(cast(b, op.updates, wide), range(updates.rank))
    zero = b.full_like(found, 0.0)
    for axis, numbers in zip(at.axes, op.indices, strict=True):
        positions = _positions(b, numbers, x.shape[axis], at.mode)
        dtype = Tensor.of(positions).dtype
        own = b.iota(shape=shape, axis=axis, dtype=dtype)
        is_there = b.compare(spread(positions, at.along), own, direction="eq")
        found = b.select(is_there, found, zero)
    total = b.reduce_sum(found, axes=tuple(range(x.rank, len(shape))))
    return cast(b, b.add(cast(b, op.x, wide), total), x.dtype)


def _positions(b: Builder, numbers: Value, size: Size, mode: str) -> Value:
    """Emit indices cast to the dtype of positions; clamped to the axis for "clip"."""
    kind = Tensor.of(numbers)
    dtype = "i32" if dt.bits(kind.dtype) < 32 or kind.dtype == "i32" else "i64"
    if mode == "drop":
        return cast(b, numbers, dtype)
    last: Any = (
        b.constant(value=np.array(size - 1, dt.to_numpy(dtype)))
        if isinstance(size, int)
        else b.dimension(size=(size - 1,), dtype=dtype)
    )
    if kind.dtype == "u64":  # i64 has half of them
        most = b.broadcast(cast(b, last, "u64"), shape=kind.shape, axes=())
        numbers = b.minimum(numbers, most)
    wide = cast(b, numbers, dtype)
    most = b.broadcast(last, shape=kind.shape, axes=())
    nearest: Value = b.clamp(wide, b.full_like(wide, 0), most)
    return nearest
