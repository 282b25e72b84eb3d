"""The right operand of a contraction, in the order in which a kernel reads it.

Packed and unpacked by ops of the graph: packing a weight is arithmetic on parameters,
which is done at build time, and a region that takes a packed operand says in its own
ops what that means. What is no weight is packed in every call.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from aotc.dialects.builder import Builder
from aotc.dialects.graph import GraphOp
from aotc.dialects.ops.contraction import DotGeneral, free_axes
from aotc.dialects.types import Shape, Tensor, element_count
from aotc.kernels.layout import contracted_axes
from aotc.kernels.tile import Tile
from aotc.mlir import Value

Axes = tuple[int, ...]


def pack(b: Builder, op: GraphOp, tile: Tile) -> Value:
    """The right operand as [product][panel][depth][column]; zeros fill the last panel.

    Without the first axis where there is one product only.
    """
    axes = _Axes.of(op)
    panels, rank = tile.panels(axes.features), len(axes.products)
    empty = panels * tile.columns - axes.features
    value = op.operands[1]
    if axes.have_columns_first:  # which then change places with rows once
        value = b.to_order(value, (*axes.batch, *axes.free, *axes.contract))
        value = b.to_shape(value, (*axes.products, axes.features, axes.depth))
        value = _pad(b, value, rank, empty)
        shape, moved = (panels, tile.columns, axes.depth), (0, 2, 1)
    else:
        value = b.to_order(value, (*axes.batch, *axes.contract, *axes.free))
        value = b.to_shape(value, (*axes.products, axes.depth, axes.features))
        value = _pad(b, value, rank + 1, empty)
        shape, moved = (axes.depth, panels, tile.columns), (1, 0, 2)
    value = b.to_shape(value, (*axes.products, *shape))
    return b.to_order(value, (*range(rank), *(rank + axis for axis in moved)))


def unpack(b: Builder, op: GraphOp, packed: Value, tile: Tile) -> Value:
    """The right operand of `op`, from what `pack` has made of it."""
    axes, kind = _Axes.of(op), Tensor.of(op.operands[1])
    rank, columns = len(axes.products), tile.panels(axes.features) * tile.columns
    value = b.to_order(packed, (*range(rank), rank + 1, rank, rank + 2))
    value = b.to_shape(value, (*axes.products, axes.depth, columns))
    if columns != axes.features:
        sizes = (*axes.products, axes.depth, axes.features)
        ones = (1,) * len(sizes)
        value = b.slice(value, start=(0,) * len(sizes), sizes=sizes, strides=ones)
    order = (*axes.batch, *axes.contract, *axes.free)
    value = b.to_shape(value, tuple(kind.shape[axis] for axis in order))
    return b.to_order(value, tuple(order.index(axis) for axis in range(len(order))))


@dataclass(frozen=True)
class _Axes:
    """The axes of a right operand, and how many elements there are along them.

    Args:
        batch: that number products.
        contract: that are summed over.
        free: the others.
        sizes: of all of them.
    """

    batch: Axes
    contract: Axes
    free: Axes
    sizes: Shape

    @classmethod
    def of(cls, op: GraphOp) -> _Axes:
        """Those of a product or a convolution."""
        kind: Any = Tensor.of(op.operands[1])
        if not isinstance(op, DotGeneral):
            every = tuple(range(kind.rank))
            return cls((), every[:-1], every[-1:], kind.shape)
        _, contract = contracted_axes(op)
        free = tuple(free_axes(kind.rank, op.rhs_batch, contract))
        return cls(op.rhs_batch, contract, free, kind.shape)

    @property
    def depth(self) -> int:
        """How many terms a sum has; static, as features are."""
        return self._count(self.contract)

    @property
    def features(self) -> int:
        """How many sums there are of a row."""
        return self._count(self.free)

    @property
    def products(self) -> Shape:
        """How many products there are, as a shape."""
        axes = tuple(self.sizes[axis] for axis in self.batch)
        return (element_count(axes),) if axes else ()

    @property
    def have_columns_first(self) -> bool:
        """Whether what is summed over lies behind all else."""
        return min(self.contract) > max(self.free, default=-1)

    def _count(self, axes: Axes) -> int:
        sizes: Any = self.sizes
        return math.prod(sizes[axis] for axis in axes)


def _pad(b: Builder, value: Value, axis: int, count: int) -> Value:
    """So many zeros behind the last ones of an axis."""
    if not count:
        return value
    rank = Tensor.of(value).rank
    none, some = [0] * rank, [0] * rank
    some[axis] = count
    return b.pad(
        value, low=tuple(none), high=tuple(some), interior=tuple(none), value=0.0
    )
