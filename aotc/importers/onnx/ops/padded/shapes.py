"""Operators on shapes, of which some sizes depend on values; most are as for others."""

from __future__ import annotations

from aotc import numpy as np
from aotc.importers.common.padded import axes, cutting
from aotc.importers.common.padded.sizes import bound_of, count_of
from aotc.importers.common.padded.values import (
    Value,
    from_first,
    refuse,
)
from aotc.importers.onnx.calling import Imports
from aotc.importers.onnx.ops import (
    constants,
    shapes,
)
from aotc.importers.onnx.values import Known, integers


def expand(x: Value, shape: Known) -> Value:
    """`x` broadcast with a shape, in both directions."""
    wanted = integers(shape)
    rank = max(len(x.shape), len(wanted))
    own = (*[1] * (rank - len(x.shape)), *x.shape)
    other = (*[1] * (rank - len(wanted)), *wanted)
    pairs = zip(own, other, strict=True)
    return axes.expand(x, [a if b == 1 else b for a, b in pairs])


def range_(start: Known, limit: Known, delta: Known) -> Value:
    """`start`, `start + 1`, … before the limit."""
    first, last, step = (shapes.integers_or_floats(x) for x in (start, limit, delta))
    if step != 1:
        refuse("a range with a step whose end depends on values", "multiply the range")
    length = cutting.length_between(first, last)
    line = np.arange(bound_of(length), dtype="i64")
    return from_first(np.add(line, count_of(first)), (length,))


TABLE: dict[str, Imports] = {
    "Shape": constants.shape,
    "Size": constants.size,
    "Reshape": shapes.reshape,
    "Flatten": shapes.flatten,
    "Squeeze": shapes.squeeze,
    "Unsqueeze": shapes.unsqueeze,
    "Transpose": shapes.transpose,
    "Expand": expand,
    "Concat": shapes.concat,
    "Slice": shapes.slice_,
    "ConstantOfShape": constants.constant_of_shape,
    "Range": range_,
}
