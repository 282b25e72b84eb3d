"""The right operand of a contraction, in the order in which a kernel reads it.

Packed and unpacked by ops of the graph: packing a weight is arithmetic on parameters,
which is done at build time, and a region that takes a packed operand says in its own
ops what that means.
"""

from __future__ import annotations

import math
from typing import Any

from aotc.dialects.builder import Builder
from aotc.dialects.graph import GraphOp
from aotc.dialects.ops.contraction import DotGeneral, free_axes
from aotc.dialects.types import Tensor
from aotc.kernels.tile import Tile
from aotc.mlir import Value

Axes = tuple[int, ...]


def pack(b: Builder, op: GraphOp, tile: Tile) -> Value:
    """The right operand as [panel][depth][column]; zeros fill the last panel."""
    value, order = op.operands[1], _order(op)
    depth, features = _extents(op)
    if order != tuple(range(len(order))):
        value = b.transpose(value, permutation=order)
    value = _reshaped(b, value, (depth, features))
    panels = tile.panels(features)
    empty = panels * tile.columns - features
    if empty:
        value = b.pad(value, low=(0, 0), high=(0, empty), interior=(0, 0), value=0.0)
    value = b.reshape(value, shape=(depth, panels, tile.columns))
    return b.transpose(value, permutation=(1, 0, 2))


def unpack(b: Builder, op: GraphOp, packed: Value, tile: Tile) -> Value:
    """The right operand of `op`, from what `pack` has made of it."""
    order, kind = _order(op), Tensor.of(op.operands[1])
    depth, features = _extents(op)
    value = b.transpose(packed, permutation=(1, 0, 2))
    value = b.reshape(value, shape=(depth, tile.panels(features) * tile.columns))
    if Tensor.of(value).shape[1] != features:
        value = b.slice(value, start=(0, 0), sizes=(depth, features), strides=(1, 1))
    value = _reshaped(b, value, tuple(kind.shape[axis] for axis in order))
    if order == tuple(range(len(order))):
        return value
    back = tuple(order.index(axis) for axis in range(len(order)))
    return b.transpose(value, permutation=back)


def _order(op: GraphOp) -> Axes:
    """The axes of the right operand: those that are summed over, then the others."""
    rank = Tensor.of(op.operands[1]).rank
    if not isinstance(op, DotGeneral):
        return tuple(range(rank))
    return (*op.rhs_contract, *free_axes(rank, (), op.rhs_contract))


def _extents(op: GraphOp) -> tuple[int, int]:
    """How many products a sum is of, and how many sums there are of a row."""
    kind: Any = Tensor.of(op.operands[1])
    count = len(op.rhs_contract) if isinstance(op, DotGeneral) else kind.rank - 1
    sizes = [kind.shape[axis] for axis in _order(op)]
    return math.prod(sizes[:count]), math.prod(sizes[count:])


def _reshaped(b: Builder, value: Value, shape: tuple[Any, ...]) -> Value:
    return value if Tensor.of(value).shape == shape else b.reshape(value, shape=shape)
