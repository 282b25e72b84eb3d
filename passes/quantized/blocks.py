"""Values whose neighbours along an axis are alike, block by block."""

from __future__ import annotations

from math import gcd
from typing import Any

from aotc.dialects.builder import Builder
from aotc.dialects.functions.walking import defining_op
from aotc.dialects.graph import GraphOp
from aotc.dialects.movement.reshaping import reshape_groups
from aotc.dialects.ops.shape import Broadcast, Reshape, Transpose
from aotc.dialects.ops.slicing import Slice
from aotc.dialects.ops.unary import Negate
from aotc.dialects.patterns.values import splat_of
from aotc.dialects.types import Tensor
from aotc.mlir import Value

_Runs = dict[tuple[Value, int], int]
_Made = dict[tuple[Value, int, int], Value]


def run_length(value: Value, axis: int, known: _Runs | None = None) -> int:
    """Return the length of the blocks into which an axis divides, each of equal
    elements.

    It is 1 where nothing is known.

    Args:
        value: a tensor.
        axis: of it.
        known: what was found of others; is added to.
    """
    known = {} if known is None else known
    key = value, axis
    if key not in known:
        known[key] = _run_length(value, axis, known)
    return known[key]


def _run_length(value: Value, axis: int, known: _Runs) -> int:
    """Compute the run length from the op that makes the value, without memoization."""
    kind: Any = Tensor.of(value)
    size = kind.shape[axis]
    if splat_of(value) is not None:
        return int(size)
    op = defining_op(value)
    match op:
        case Broadcast():
            if axis not in op.axes:
                return int(size)
            inner = op.axes.index(axis)
            is_repeated = Tensor.of(op.x).shape[inner] != size
            return int(size) if is_repeated else run_length(op.x, inner, known)
        case Transpose():
            return run_length(op.x, op.permutation[axis], known)
        case Reshape():
            merged = _merged_axes(op, axis)
            return 1 if merged is None else _run_of_axes(op.x, merged, known)
        case Slice():
            is_whole = Tensor.of(op.x).shape[axis] == size
            return run_length(op.x, axis, known) if is_whole else 1
        case GraphOp() if _is_elementwise(op):
            return gcd(*(run_length(x, axis, known) for x in op.operands))
    return 1


def first_of_blocks(
    b: Builder, value: Value, axis: int, block: int, made: _Made | None = None
) -> Value:
    """Emit the first element of every block of equal elements along an axis.

    Nothing as large as the value is made on the way.

    Args:
        b: the builder.
        value: whose `run_length` the block divides.
        axis: of it.
        block: so many elements.
        made: what was written for others; is added to.
    """
    made = {} if made is None else made
    key = value, axis, block
    if key not in made:
        made[key] = value if block == 1 else _first(b, value, axis, block, made)
    return made[key]


def _first(b: Builder, value: Value, axis: int, block: int, made: _Made) -> Value:
    """Emit the first element of every block by the op that makes the value."""
    kind = Tensor.of(value)
    size: Any = kind.shape[axis]
    shape = (*kind.shape[:axis], size // block, *kind.shape[axis + 1 :])
    number = splat_of(value)
    if number is not None:
        return b.full(kind.with_shape(shape), number)
    op = defining_op(value)
    found: Value
    x: Value
    match op:
        case Broadcast():
            x = op.x
            if axis in op.axes and Tensor.of(x).shape[op.axes.index(axis)] == size:
                x = first_of_blocks(b, x, op.axes.index(axis), block, made)
            found = b.broadcast(x, shape=shape, axes=op.axes)
        case Transpose():
            x = first_of_blocks(b, op.x, op.permutation[axis], block, made)
            found = b.transpose(x, permutation=op.permutation)
        case Reshape():
            merged = _merged_axes(op, axis)
            assert merged is not None
            found = b.reshape(_first_of_axes(b, op.x, merged, block, made), shape=shape)
        case Slice():
            x = first_of_blocks(b, op.x, axis, block, made)
            sizes = (*op.sizes[:axis], size // block, *op.sizes[axis + 1 :])
            found = b.slice(x, start=op.start, sizes=sizes, strides=op.strides)
        case _:
            assert isinstance(op, GraphOp)
            parts = [first_of_blocks(b, x, axis, block, made) for x in op.operands]
            found = type(op).build(*parts, **type(op).attributes_of(op))
    return found


def value_before_movement(value: Value) -> tuple[Value, bool]:
    """Strip negations and order-preserving reshapes; return the source, and whether
    negated.

    Blocks are repeated and cut by ops that move nothing where each is one number.
    """
    base, is_negated, found = value, False, (value, False)
    while True:
        op = defining_op(base)
        if isinstance(op, Negate):
            is_negated = not is_negated
        elif not (isinstance(op, (Broadcast, Reshape, Slice)) and _keeps_order(op)):
            return found
        base = op.x
        if Tensor.of(base).shape == Tensor.of(value).shape:
            found = base, is_negated


def _keeps_order(op: Broadcast | Reshape | Slice) -> bool:
    """Return whether an op yields every operand element exactly once, in order."""
    kinds = [Tensor.of(x) for x in (op.x, op.results[0])]
    is_sorted = not isinstance(op, Broadcast) or [*op.axes] == sorted(op.axes)
    return is_sorted and kinds[0].elements == kinds[1].elements


def _is_elementwise(op: GraphOp) -> bool:
    """Return whether an op is elementwise on operands of the result's shape."""
    shape = Tensor.of(op.results[0]).shape
    is_same = all(Tensor.of(value).shape == shape for value in op.operands)
    return bool(op.operands) and is_same and type(op).on_scalars


def _merged_axes(op: Reshape, axis: int) -> range | None:
    """Return the operand axes that a reshape merges into a result axis; None if it
    splits.
    """
    old, new = Tensor.of(op.x).shape, Tensor.of(op.y).shape
    for before, after in reshape_groups(old, new):
        if axis in after:
            is_alone = all(new[other] == 1 for other in after if other != axis)
            return before if is_alone else None
    return None


def _run_of_axes(value: Value, axes: range, known: _Runs) -> int:
    """Return the `run_length` along adjacent axes seen as one merged axis."""
    shape: Any = Tensor.of(value).shape
    run = 1
    for axis in reversed(axes):
        here = run_length(value, axis, known)
        run *= here
        if here != shape[axis]:
            break
    return run


def _first_of_axes(
    b: Builder, value: Value, axes: range, block: int, made: _Made
) -> Value:
    """Emit the first element of every block along adjacent axes seen as one."""
    for axis in reversed(axes):
        size: Any = Tensor.of(value).shape[axis]
        here = gcd(size, block)
        value = first_of_blocks(b, value, axis, here, made)
        block //= here
    return value
