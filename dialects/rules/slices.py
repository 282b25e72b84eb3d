"""Slices of ops that consist of parts, for their `simplify` rules."""

from typing import Any

from aotc.dialects.builder import Builder
from aotc.dialects.types import Tensor
from aotc.mlir import Value


def slice_of_slice(b: Builder, op: Any, inner: Any) -> Value:
    """Emit one slice in the place of a slice of a slice."""
    rows = zip(inner.start, inner.strides, op.start, strict=True)
    start = tuple(first + stride * later for first, stride, later in rows)
    pairs = zip(inner.strides, op.strides, strict=True)
    strides = tuple(one * other for one, other in pairs)
    return b.slice(inner.x, start=start, sizes=op.sizes, strides=strides)


def slice_of_broadcast(b: Builder, op: Any, inner: Any) -> Value:
    """Emit a broadcast of a slice in the place of a slice of a broadcast."""
    pairs = [*zip(Tensor.of(inner.x).shape, inner.axes, strict=True)]
    start, sizes, strides = (  # one element is read again and again
        tuple(one if size == 1 else cut[axis] for size, axis in pairs)
        for one, cut in ((0, op.start), (1, op.sizes), (1, op.strides))
    )
    part = b.slice(inner.x, start=start, sizes=sizes, strides=strides)
    return b.broadcast(part, shape=op.sizes, axes=inner.axes)


def slice_of_part(b: Builder, op: Any, joined: Any) -> Value | None:
    """Emit a slice of the one operand of a concatenation that it reads; or None."""
    axis = joined.axis
    border = Tensor.of(joined.lhs).shape[axis]
    first, size, stride = op.start[axis], op.sizes[axis], op.strides[axis]
    numbers = (border, first, size)
    if not all(isinstance(number, int) for number in numbers) or size == 0:
        return None
    if first + (size - 1) * stride < border:
        return b.slice(joined.lhs, start=op.start, sizes=op.sizes, strides=op.strides)
    if first < border:
        return None
    start = (*op.start[:axis], first - border, *op.start[axis + 1 :])
    return b.slice(joined.rhs, start=start, sizes=op.sizes, strides=op.strides)
