"""Operators on shapes, of which some sizes depend on values."""

from __future__ import annotations

import numpy

from aotc import numpy as np
from aotc.dialects.types import element_count
from aotc.importers.common.padded import axes, cutting
from aotc.importers.common.padded.sizes import bound_of, count_of
from aotc.importers.common.padded.values import (
    Padded,
    Value,
    from_first,
    refuse,
)
from aotc.importers.onnx.calling import Imports
from aotc.importers.onnx.ops import (
    constants,
    shaping,
)
from aotc.importers.onnx.values import Known, Sizes, integers, numbers, sized
from aotc.tracing.array import Array


def shape(
    x: Value, *, start: int = 0, end: int | None = None
) -> Array | Sizes | Padded:
    """The sizes of x."""
    return sized(list(x.shape[start:end]))


def size(x: Value) -> Array | Sizes | Padded:
    """The number of elements of x."""
    return sized(element_count(x.shape))


def reshape(
    x: Value,
    sizes: Known | None = None,
    *,
    shape: tuple[int, ...] | None = None,
    allowzero: int = 0,
) -> Value:
    """`x` in another shape: -1 is what remains, 0 the size that x has there."""
    wanted = tuple(shape or ()) if sizes is None else integers(sizes)
    if not allowzero:
        wanted = tuple(
            x.shape[i] if isinstance(n, int) and n == 0 else n
            for i, n in enumerate(wanted)
        )
    return axes.reshaped(x, wanted)


def flatten(x: Value, *, axis: int = 1) -> Value:
    """`x` as a matrix, whose rows are the axes before `axis`."""
    cut = axis + len(x.shape) if axis < 0 else axis
    rows, columns = element_count(x.shape[:cut]), element_count(x.shape[cut:])
    return axes.reshaped(x, (rows, columns))


def squeeze(
    x: Value, listed: Known | None = None, *, axes: tuple[int, ...] | None = None
) -> Value:
    """`x` without axes of size 1."""
    given = axes if listed is None else numbers(listed)
    return _squeezed(x, None if given is None else tuple(given))


_squeezed = axes.squeezed


def unsqueeze(
    x: Value, listed: Known | None = None, *, axes: tuple[int, ...] = ()
) -> Value:
    """`x` with new axes of size 1, at their places in the result."""
    return _unsqueezed(x, tuple(axes if listed is None else numbers(listed)))


_unsqueezed = axes.unsqueezed


def transpose(x: Value, *, perm: tuple[int, ...] | None = None) -> Value:
    """The axes in another order."""
    return axes.transposed(x, perm)


def expand(x: Value, shape: Known) -> Value:
    """`x` broadcast with a shape, in both directions."""
    wanted = integers(shape)
    rank = max(len(x.shape), len(wanted))
    own = (*[1] * (rank - len(x.shape)), *x.shape)
    other = (*[1] * (rank - len(wanted)), *wanted)
    pairs = zip(own, other, strict=True)
    return axes.expanded(x, [a if b == 1 else b for a, b in pairs])


def concat(*xs: Value, axis: int = 1) -> Value:
    """The inputs one after the other."""
    return axes.concatenated(xs, axis)


def slice_(
    x: Value,
    first: Known | None = None,
    last: Known | None = None,
    along: Known | None = None,
    by: Known | None = None,
    *,
    starts: tuple[int, ...] = (),
    ends: tuple[int, ...] = (),
    axes: tuple[int, ...] | None = None,
) -> Value:
    """Every so many elements of some axes, from one position to another."""
    begin = starts if first is None else integers(first)
    stop = ends if last is None else integers(last)
    which = axes if along is None else numbers(along)
    where = range(len(begin)) if which is None else which
    steps = [1] * len(begin) if by is None else numbers(by)
    for axis, start, end, step in zip(where, begin, stop, steps, strict=True):
        span = shaping.span(start, end, step, x.shape[axis])
        x = cutting.sliced(x, axis, span.start, span.stop, step)
    return x


def constant_of_shape(shape: Known, *, value: Array | None = None) -> Value:
    """One number in every element."""
    return axes.filled_to(
        lambda sizes: constants.constant_of_shape(
            numpy.asarray(sizes, object), value=value
        ),
        integers(shape),
    )


def range_(start: Known, limit: Known, delta: Known) -> Value:
    """`start`, `start + 1`, … before the limit."""
    first, last, step = (shaping.integers_or_floats(x) for x in (start, limit, delta))
    if step != 1:
        refuse("a range with a step whose end depends on values", "multiply the range")
    length = cutting.length_between(first, last)
    line = np.arange(bound_of(length), dtype="i64")
    return from_first(np.add(line, count_of(first)), (length,))


TABLE: dict[str, Imports] = {
    "Shape": shape,
    "Size": size,
    "Reshape": reshape,
    "Flatten": flatten,
    "Squeeze": squeeze,
    "Unsqueeze": unsqueeze,
    "Transpose": transpose,
    "Expand": expand,
    "Concat": concat,
    "Slice": slice_,
    "ConstantOfShape": constant_of_shape,
    "Range": range_,
}
