"""Which integers count along an axis: what reads at such positions moves elements.

Frameworks read a table of positions at 0, 1, 2, …, and a mask at all of its places.
"""

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from aotc import dtypes as dt
from aotc.dialects.attributes import Array
from aotc.dialects.graph import GraphOp
from aotc.dialects.signs import never_wraps
from aotc.dialects.types import Size, Tensor
from aotc.mlir import Value, ir


@dataclass(frozen=True)
class Counter:
    """Each element is its position on an axis.

    Args:
        axis: this one.
        limit: above all elements.
    """

    axis: int
    limit: Size


def counter_of(value: Value) -> Counter | None:
    """How the elements of a value count, if they do."""
    if isinstance(value.owner, ir.Block):
        return None
    op: Any = value.owner.opview
    name = op._op_name if isinstance(op, GraphOp) else ""
    if name == "constant":
        return _of_constant(op.attributes["value"])
    if name == "iota":
        size = op.shape[op.axis]
        return Counter(op.axis, size) if never_wraps(size, op.dtype) else None
    move = _MOVES.get(name)
    inner = counter_of(op.operands[0]) if move is not None else None
    axis = move(op, inner.axis) if move is not None and inner is not None else None
    return None if inner is None or axis is None else replace(inner, axis=axis)


@lru_cache(maxsize=2**10)
def _of_constant(elements: ir.Attribute) -> Counter | None:
    array = Array.decode(elements)
    axes = [axis for axis, size in enumerate(array.shape) if size != 1]
    if len(axes) != 1 or array.dtype.kind not in "iu":
        return None
    is_counting = np.array_equal(array.reshape(-1), np.arange(array.size))
    return Counter(axes[0], array.size) if is_counting else None


def _after_broadcast(op: Any, axis: int) -> int | None:
    is_stretched = Tensor.of(op.x).shape[axis] != op.shape[op.axes[axis]]
    return None if is_stretched else int(op.axes[axis])


def _after_reshape(op: Any, axis: int) -> int | None:
    """Where axes of one element come and go alone, the others are as before."""
    before, after = ([n for n, size in enumerate(shape) if size != 1] for shape in (
        Tensor.of(op.x).shape, op.shape))  # fmt: skip
    have = [Tensor.of(op.x).shape[n] for n in before]
    if axis not in before or have != [op.shape[n] for n in after]:
        return None
    return after[before.index(axis)]


def _after_slice(op: Any, axis: int) -> int | None:
    is_first = op.start[axis] == 0 and op.strides[axis] == 1
    return axis if is_first else None


def _after_cast(op: Any, axis: int) -> int | None:
    source = Tensor.of(op.x).dtype
    is_wider = op.dtype in dt.INTEGERS and dt.bits(op.dtype) > dt.bits(source)
    return axis if is_wider else None


_MOVES = {
    "broadcast": _after_broadcast,
    "reshape": _after_reshape,
    "slice": _after_slice,
    "cast": _after_cast,
}
