"""A scatter of one update: a window at a place that the model computes.

    y = scatter(x, u, i) {axes = (2,), mode = drop}
    →
    old = dynamic_slice(x, [0, 0, i, 0])
    y = dynamic_update_slice(x, select(0 <= i < size, u, old), [0, 0, i, 0])

What many updates need, to find the last of each place, it does without; and a state
that it changes, such as the cache of a decoder, is written where it is.
"""

from typing import Any

from aotc.dialects.builder import Builder
from aotc.dialects.ops.contraction import cast
from aotc.dialects.ops.indexing import IndexMap
from aotc.dialects.types import Tensor, element_count
from aotc.mlir import Value

# where indices are not of these, what they are converted to
_STARTS = {"i8": "i32", "i16": "i32", "u8": "i32", "u16": "i32"}


def is_single(op: Any) -> bool:
    """Return whether a scatter has one update, of static size, that is a window of x.

    Its axes are in the order of those of x, and its indices have a sign, or few bits.
    """
    at, x = IndexMap.of(op), Tensor.of(op.x)
    indices = [Tensor.of(value) for value in op.indices]
    return bool(indices) and (
        x.is_static
        and 0 not in x.shape
        and all(element_count(index.shape) == 1 for index in indices)
        and all(_STARTS.get(i.dtype, i.dtype) in ("i32", "i64") for i in indices)
        and not at.shared_axes
        and list(at.kept) == sorted(at.kept)
    )


def write_window(b: Builder, op: Any) -> Value:
    """Emit a scatter that `is_single` as a dynamic_update_slice."""
    at, x = IndexMap.of(op), Tensor.of(op.x)
    sizes = tuple(1 if a in at.axes else n for a, n in enumerate(x.shape))
    update = b.reshape(op.updates, shape=sizes)
    indices = _numbers(b, op)
    zero = b.full_like(indices[0], 0)
    starts = [
        indices[at.axes.index(axis)] if axis in at.axes else zero
        for axis in range(x.rank)
    ]
    whole = starts[0]
    for part in starts[1:]:
        whole = b.concatenate(whole, part, axis=0)
    if at.mode == "drop":
        old = b.dynamic_slice(op.x, whole, sizes=sizes)
        update = b.select(_is_inside(b, op, indices, sizes), update, old)
    y: Value = b.dynamic_update_slice(op.x, update, whole)
    return y


def _numbers(b: Builder, op: Any) -> list[Value]:
    """Emit the indices as vectors of one element."""
    dtype = _STARTS.get(Tensor.of(op.indices[0]).dtype)
    found = [b.reshape(value, shape=(1,)) for value in op.indices]
    return found if dtype is None else [cast(b, each, dtype) for each in found]


def _is_inside(
    b: Builder, op: Any, indices: list[Value], sizes: tuple[object, ...]
) -> Value:
    """Emit whether all indices are within x, broadcast to the window."""
    found = None
    for axis, index in zip(op.axes, indices, strict=True):
        last = b.full_like(index, Tensor.of(op.x).shape[axis] - 1)
        above = b.compare(index, b.full_like(index, 0), direction="ge")
        both = b.bitwise_and(above, b.compare(index, last, direction="le"))
        found = both if found is None else b.bitwise_and(found, both)
    return b.broadcast(b.reshape(found, shape=()), shape=sizes, axes=())
