"""The right operand of a contraction, in the order in which a kernel reads it.

Packed and unpacked by ops of the graph: packing a weight is arithmetic on parameters,
which is done at build time, and a region that takes a packed operand says in its own
ops what that means. What is no weight is packed in every call.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

from aotc.dialects.builder import Builder
from aotc.dialects.graph import GraphOp
from aotc.dialects.ops.contraction import DotGeneral, contracted_axes, free_axes
from aotc.dialects.ops.convolution import ConvGeneral
from aotc.dialects.rules.rearrangements import Rearrangement
from aotc.dialects.types import Shape, Tensor, element_count
from aotc.kernels.bit_planes import (
    WORD,
    from_words,
    to_words,
    words_of_run,
)
from aotc.kernels.planning.tile import ContractionTile
from aotc.mlir import Value

Axes = tuple[int, ...]


def pack(
    b: Builder, op: GraphOp, tile: ContractionTile, right: Value | None = None
) -> Value:
    """Emit ops that pack a right operand as [product][panel][depth][column], padded.

    Without the first axis where there is one product only. The groups of a convolution
    are products. Terms in pairs are the last axis, after the columns; a zero follows an
    odd number of them. Integers of fewer than 8 bits are words of such
    (`aotc.kernels.bit_planes`).

    Args:
        b: the builder.
        op: the product.
        tile: how it is cut up.
        right: what is packed in the place of its own operand.
    """
    value = op.operands[1] if right is None else right
    packed = _packing(op, tile, Tensor.of(value)).apply(b, value)
    return to_words(b, packed, tile.bits) if tile.has_planes else packed


def packed_shape(op: GraphOp, tile: ContractionTile) -> Shape:
    """Return the shape of the result of `pack`."""
    shape = _packing(op, tile, Tensor.of(op.operands[1])).shape
    if not tile.has_planes:
        return shape
    *outer, runs, columns, _ = shape
    return (*outer, runs * words_of_run(tile.bits), columns, WORD)


def pack_blocks(b: Builder, op: GraphOp, part: Value, tile: ContractionTile) -> Value:
    """Emit ops that pack block scales or offsets as [panel][block][column].

    Scales of blocks along columns become [block][term].
    """
    return _packing_of_blocks(op, tile, Tensor.of(part)).apply(b, part)


def packed_blocks_shape(op: GraphOp, tile: ContractionTile, kind: Tensor) -> Shape:
    """Return the shape of the result of `pack_blocks` for an operand of type `kind`."""
    return _packing_of_blocks(op, tile, kind).shape


def unpack_blocks(
    b: Builder, op: GraphOp, packed: Value, tile: ContractionTile, kind: Tensor
) -> Value:
    """Emit the inverse of `pack_blocks`, whose result has type `kind`."""
    return _packing_of_blocks(op, tile, kind).undo(b, packed)


def unpack(
    b: Builder,
    op: GraphOp,
    packed: Value,
    tile: ContractionTile,
    kind: Tensor | None = None,
) -> Value:
    """Emit ops that restore a right operand from the result of `pack`.

    Args:
        b: the builder.
        op: the product.
        packed: what `pack` has made of its right operand, or of one like it.
        tile: how it is cut up.
        kind: the type of what was packed, if it was not the operand.
    """
    if tile.has_planes:
        packed = from_words(b, packed, tile.bits)
    return _packing(op, tile, kind or Tensor.of(op.operands[1])).undo(b, packed)


def _packing_of_blocks(
    op: GraphOp, tile: ContractionTile, kind: Tensor
) -> Rearrangement:
    """Return the ops that pack quantisation scales, as a chain that can be undone."""
    if not tile.across:
        return _packing(op, replace(tile, terms=1), kind)
    assert isinstance(op, DotGeneral)
    (term,) = op.rhs_contract
    return Rearrangement(kind.shape).transpose((1 - term, term))


def _packing(op: GraphOp, tile: ContractionTile, kind: Tensor) -> Rearrangement:
    """Return the ops that pack a right operand of type `kind`, as an undoable chain."""
    axes = _Axes.of(op, kind)
    products, rank = axes.products, len(axes.products)
    panels = tile.panels(axes.features)
    steps, width = -(-axes.depth // tile.terms), panels * tile.columns
    terms = (steps, tile.terms) if tile.terms > 1 else (steps,)
    start = Rearrangement(kind.shape).reshape(axes.sizes)
    if tile.terms == 1 and axes.turn_once and width == axes.features:
        return _packed_at_once(start, axes, (panels, tile.columns))
    if axes.have_columns_first:  # which then change places with rows once
        found = (
            start.transpose((*axes.batch, *axes.free, *axes.contract))
            .reshape((*products, axes.features, axes.depth))
            .pad((*products, width, steps * tile.terms))
            .reshape((*products, panels, tile.columns, *terms))
        )
        moved: Axes = (0, 2, 1, 3)
    else:
        found = (
            start.transpose((*axes.batch, *axes.contract, *axes.free))
            .reshape((*products, axes.depth, axes.features))
            .pad((*products, steps * tile.terms, width))
            .reshape((*products, *terms, panels, tile.columns))
        )
        moved = (1, 0, 2) if tile.terms == 1 else (2, 0, 3, 1)
    order = (rank + axis for axis in moved[: 2 + len(terms)])
    return found.transpose((*range(rank), *order))


def _packed_at_once(
    start: Rearrangement, axes: _Axes, columns: tuple[int, int]
) -> Rearrangement:
    """Return the packing chain with one transpose only, for panels that are all full.

    Args:
        start: the chain before it.
        axes: of the operand.
        columns: panels, and columns of each.
    """
    (free,) = axes.free
    panel, after = free, free + 1  # where the free axis is split

    def moved(numbers: Axes) -> Axes:
        return tuple(axis if axis < free else axis + 1 for axis in numbers)

    order = (*moved(axes.batch), panel, *moved(axes.contract), after)
    split = (*axes.sizes[:free], *columns, *axes.sizes[free + 1 :])
    turned = start.reshape(split).transpose(order)
    panels, width = columns
    return turned.reshape((*axes.products, panels, axes.depth, width))


def join(b: Builder, packed: Sequence[Value], tile: ContractionTile) -> Value:
    """Emit ops that concatenate packed operands, by panels or within each panel.

    Args:
        b: the builder.
        packed: the operands, each packed for `tile.own`.
        tile: of them together.
    """
    axis = _joined_axis(Tensor.of(packed[0]).rank, tile)
    return reduce(lambda x, y: b.concatenate(x, y, axis=axis), packed)


def split(
    b: Builder, joined: Value, counts: Sequence[int], tile: ContractionTile
) -> list[Value]:
    """Emit the inverse of `join`: slices that restore the separately packed operands.

    Args:
        b: the builder.
        joined: what it has made.
        counts: of the panels of each operand.
        tile: of them together.
    """
    kind: Any = Tensor.of(joined)
    axis, is_interleaved = _joined_axis(kind.rank, tile), tile.interleaved > 1
    lengths = [tile.own.columns] * len(counts) if is_interleaved else counts
    found, first = [], 0
    for length in lengths:
        start, sizes = [0] * kind.rank, list(kind.shape)
        start[axis], sizes[axis] = first, length
        ones = (1,) * kind.rank
        found.append(
            b.slice(joined, start=tuple(start), sizes=tuple(sizes), strides=ones)
        )
        first += length
    return found


def _joined_axis(rank: int, tile: ContractionTile) -> int:
    """Return the axis along which packed operands are joined: columns or panels."""
    columns = rank - 1 if tile.terms == 1 else rank - 2
    return columns if tile.interleaved > 1 else columns - 2


@dataclass(frozen=True)
class _Axes:
    """The axes of a right operand by role (batch, contracted, free), and their sizes.

    Args:
        batch: that number products, or groups.
        contract: that are summed over.
        free: the others.
        sizes: of all of them; the features of a convolution by groups.
    """

    batch: Axes
    contract: Axes
    free: Axes
    sizes: Shape

    @classmethod
    def of(cls, op: GraphOp, kind: Tensor) -> _Axes:
        """Return the axes by role of a right operand of type `kind`."""
        if isinstance(op, ConvGeneral):
            return cls._of_kernel(kind.shape, op.groups)
        assert isinstance(op, DotGeneral)
        _, contract = contracted_axes(op)
        free = tuple(free_axes(kind.rank, op.rhs_batch, contract))
        return cls(op.rhs_batch, contract, free, kind.shape)

    @classmethod
    def _of_kernel(cls, shape: Any, groups: int) -> _Axes:
        """Return the axes by role of a convolution's weight, split into groups."""
        last = len(shape) - 1
        summed = tuple(range(last))
        if groups == 1:
            return cls((), summed, (last,), shape)
        split = (*shape[:-1], groups, shape[-1] // groups)
        return cls((last,), summed, (last + 1,), split)

    @property
    def depth(self) -> int:
        """The number of terms in each sum (K)."""
        return self._count(self.contract)

    @property
    def features(self) -> int:
        """The number of columns of the operand (N), in each product."""
        return self._count(self.free)

    @property
    def products(self) -> Shape:
        """The shape of the flattened batch: one axis; () if no axis is a batch axis."""
        axes = tuple(self.sizes[axis] for axis in self.batch)
        return (element_count(axes),) if axes else ()

    @property
    def have_columns_first(self) -> bool:
        """Return whether the contracted axes lie behind all free ones."""
        return min(self.contract) > max(self.free, default=-1)

    @property
    def turn_once(self) -> bool:
        """Return whether packing can do with one transpose instead of two."""
        ordered = (*self.batch, *self.free, *self.contract)
        return len(self.free) == 1 and ordered != tuple(sorted(ordered))

    def _count(self, axes: Axes) -> int:
        """Return the number of elements along some axes."""
        sizes: Any = self.sizes
        return math.prod(sizes[axis] for axis in axes)
