"""Computation of ops on arrays part by part, where each part needs only itself.

Large weights pass through several ops before they are written, and what lies between
them would take several times their memory. Parts are equal ones along the first axis;
a reshape keeps them, for elements stay in their order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import gcd
from typing import Any

import numpy as np

from aotc.core import dtypes
from aotc.dialects.graph import GraphOp, as_tuple, in_dtype
from aotc.dialects.ops.shape import Broadcast, Reshape, Transpose
from aotc.dialects.ops.slicing import Concatenate, Slice
from aotc.dialects.types import Tensor
from aotc.mlir import Value

Array = np.ndarray

MOST_BYTES = 1 << 20  # of the part of a value, if there are as many parts

# Ops that keep parts if this holds; those that work on elements always do.
_KEEPING: dict[type[GraphOp], Callable[[Any], bool]] = {
    Reshape: lambda op: True,
    Transpose: lambda op: op.permutation[0] == 0,
    Concatenate: lambda op: op.axis != 0,
    Slice: lambda op: (
        (op.start[0], op.strides[0]) == (0, 1) and op.sizes[0] == _first_size(op.x)
    ),
    Broadcast: lambda op: op.axes[0] == 0 and op.shape[0] == _first_size(op.x),
}
# the attribute that has the sizes of the result
_SIZES: dict[type[GraphOp], str] = {
    Reshape: "shape",
    Broadcast: "shape",
    Slice: "sizes",
}


def divided_values(ops: Sequence[GraphOp], result: Value) -> set[Value]:
    """Return the values of which a slice of the result along axis 0 needs only a slice.

    Others are needed as a whole, and copied along the first axis. There are none where
    an op reads other parts, too.

    Args:
        ops: in order.
        result: of one of them.
    """
    divided, whole = {result}, set[Value]()
    for op in reversed(ops):
        wanted = divided.intersection(op.results)
        operands = [*op.operands]
        if not wanted or (isinstance(op, Broadcast) and 0 not in op.axes):
            whole.update(operands)
        elif operands and _keeps_parts(op):
            divided.update(operands)
        else:
            return set()
    is_divisible = all(Tensor.of(value).shape for value in divided)
    return divided if is_divisible and not divided & whole else set()


def _keeps_parts(op: GraphOp) -> bool:
    """Return whether slices of an op's result along axis 0 need only those of its
    operands.
    """
    kept = _KEEPING.get(type(op))
    if kept is not None:
        return bool(Tensor.of(op.operands[0]).shape) and kept(op)
    shapes = {Tensor.of(x).shape for x in (*op.operands, *op.results)}
    return type(op).on_scalars and len(shapes) == 1


def _first_size(value: Value) -> int:
    """Return the length of a value's axis 0."""
    return int(Tensor.of(value).shape[0])


def most_parts(values: Iterable[Value]) -> int:
    """Return the greatest number of equal slices along axis 0 that all values allow."""
    return gcd(*map(_first_size, values)) or 1


def count_of_parts(values: Iterable[Value], most: int) -> int:
    """Return the number of slices into which to cut values, so that each is small.

    Args:
        values: to divide.
        most: how many parts there may be; each divisor of it may be chosen.
    """
    largest = max(map(_bytes_of, values), default=0)
    divisors = (n for n in range(1, most + 1) if most % n == 0)
    return next((n for n in divisors if largest <= n * MOST_BYTES), most)


def _bytes_of(value: Value) -> int:
    """Return the bytes of a value."""
    kind = Tensor.of(value)
    size = dtypes.to_numpy(kind.dtype).itemsize
    return int(np.prod([int(n) for n in kind.shape], dtype=np.int64)) * size


def results_of_part(
    op: GraphOp, arrays: Sequence[Array], divided: set[Value], count: int
) -> list[Array]:
    """Compute an op by its `ref` rule on slices of its operands along axis 0.

    Args:
        op: whose values are divided, or are not.
        arrays: parts of the operands, or all of those that are not divided.
        divided: the values that are.
        count: into how many parts they are.
    """
    attributes: dict[str, Any] = dict(type(op).attributes_of(op))
    is_divided = not divided.isdisjoint(op.results)
    if is_divided and type(op) in _SIZES:
        name = _SIZES[type(op)]
        first, *rest = map(int, attributes[name])
        attributes[name] = (first // count, *rest)
    results = as_tuple(type(op).ref(*arrays, **attributes))
    kinds = map(Tensor.of, op.results)
    return [in_dtype(x, kind) for x, kind in zip(results, kinds, strict=True)]


def part_of(array: Array, number: int, count: int) -> Array:
    """Return the slice of this number, of `count` equal ones along axis 0, as a
    view.
    """
    size = len(array) // count
    return array[number * size : (number + 1) * size]
