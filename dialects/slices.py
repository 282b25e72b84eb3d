"""What a slice of something that is made of parts is: for its `simplify` rule."""

from typing import Any

from aotc.dialects.builder import Builder
from aotc.dialects.types import Size, Tensor
from aotc.mlir import Value


def slice_of_slice(b: Builder, op: Any, inner: Any) -> Value:
    """Both at once."""
    rows = zip(inner.start, inner.strides, op.start, strict=True)
    start = tuple(first + stride * later for first, stride, later in rows)
    pairs = zip(inner.strides, op.strides, strict=True)
    strides = tuple(one * other for one, other in pairs)
    return b.slice(inner.x, start=start, sizes=op.sizes, strides=strides)


def slice_of_broadcast(b: Builder, op: Any, inner: Any) -> Value:
    """A part of what a broadcast repeats, repeated as often as the slice has it."""
    shape = Tensor.of(inner.x).shape
    start, sizes, strides = list[Size](), list[Size](), list[int]()
    for size, axis in zip(shape, inner.axes, strict=True):
        is_whole = size == 1  # it is read again and again
        start.append(0 if is_whole else op.start[axis])
        sizes.append(1 if is_whole else op.sizes[axis])
        strides.append(1 if is_whole else op.strides[axis])
    part = b.slice(
        inner.x, start=tuple(start), sizes=tuple(sizes), strides=tuple(strides)
    )
    return b.broadcast(part, shape=op.sizes, axes=inner.axes)


def slice_of_part(b: Builder, op: Any, joined: Any) -> Value | None:
    """The slice of the one operand in which all its elements are, if it is known."""
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
