"""Integers that count along an axis: a read at them only moves elements.

Frameworks read a table of positions at 0, 1, 2, …, and a mask at all of its places.
"""

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from aotc.dialects.attributes import DenseElements
from aotc.dialects.graph import GraphOp
from aotc.dialects.types import Size
from aotc.mlir import Value, ir


@dataclass(frozen=True)
class AxisCounter:
    """Fact on an integer value: each element is its index along one axis (an iota).

    Args:
        axis: this one.
        limit: above all elements.
    """

    axis: int
    limit: Size


def counter_of(value: Value) -> AxisCounter | None:
    """Return the AxisCounter of a value's elements, or None if it has none."""
    op = None if isinstance(value.owner, ir.Block) else value.owner.opview
    if not isinstance(op, GraphOp):
        return None
    if type(op).counter is not None:
        found: AxisCounter | None = type(op).counter(op)
        return found
    if type(op).counted_axis is None:
        return None
    inner = counter_of(op.operands[0])
    axis = None if inner is None else type(op).counted_axis(op, inner.axis)
    return None if inner is None or axis is None else replace(inner, axis=axis)


@lru_cache(maxsize=2**10)
def counter_of_elements(elements: ir.Attribute) -> AxisCounter | None:
    """Return the AxisCounter of a constant's elements, or None."""
    array = DenseElements.decode(elements)
    axes = [axis for axis, size in enumerate(array.shape) if size != 1]
    if len(axes) != 1 or array.dtype.kind not in "iu":
        return None
    is_counting = np.array_equal(array.reshape(-1), np.arange(array.size))
    return AxisCounter(axes[0], array.size) if is_counting else None
