"""Relate the axes of an op's result to those of its operands, in images.

Ops that change the size of an image keep the meaning of its axes: a reshape that merges
a spatial axis with what was split off the channels (DepthToSpace), a product of a
spatial axis with a matrix of weights or a gather along it (Resize), a gather at places
(GridSample). Other than the ties of `ImageAxes` they pass a role on, and no more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from aotc.dialects.graph import GraphOp
from aotc.dialects.movement.reshaping import long_axes, reshape_groups
from aotc.dialects.ops.contraction import DotGeneral
from aotc.dialects.ops.indexing import Gather, IndexMap
from aotc.dialects.ops.shape import Reshape
from aotc.dialects.types import Tensor
from aotc.mlir import Value

Axis = tuple[Value, int]


@dataclass(frozen=True)
class Relation:
    """Result axis computed from operand axes, to which their image role (channels, …)
    passes.

    Args:
        result: the axis.
        parts: what it is made of: one axis, or several that are merged.
        is_part: whether it is a part of the one in `parts`, which is split.
        through: an axis of the operand and the one of the result that it becomes: the
            relation holds if they are spatial.
        role: what the axis is if the one in `parts` has the batch and all pixels in a
            row; the relation holds for such alone.
    """

    result: Axis
    parts: tuple[Axis, ...]
    is_part: bool = False
    through: tuple[Axis, Axis] | None = None
    role: str = ""


def axis_relations(op: GraphOp, weights: set[Value]) -> Iterator[Relation]:
    """Yield the axis relations of a reshape, a product with weights, or a gather.

    Args:
        op: the op.
        weights: values that weights and constants alone decide.
    """
    if isinstance(op, Reshape) and op.x not in weights:
        yield from _of_reshape(op)
    elif isinstance(op, DotGeneral) and op.lhs not in weights and op.rhs in weights:
        yield from _of_product(op)
    elif isinstance(op, Gather) and op.x not in weights:
        yield from _of_gather(op)


def _of_reshape(op: Reshape) -> Iterator[Relation]:
    """Yield relations for groups of axes that a reshape merges or splits, without
    size-1 axes.
    """
    sides = [(value, long_axes(Tensor.of(value).shape)) for value in (op.x, op.y)]
    for group in reshape_groups(Tensor.of(op.x).shape, op.shape):
        parts, made = (
            tuple((value, axis) for axis in axes if axis in long)
            for (value, long), axes in zip(sides, group, strict=True)
        )
        if len(made) == 1 or len(parts) == 1:
            for axis in made:
                yield Relation(axis, parts, is_part=len(made) > 1)


def _of_product(op: DotGeneral) -> Iterator[Relation]:
    """Yield relations of a product by weights: one axis is mapped, the rest are
    kept.
    """
    if len(op.lhs_contract) != 1 or op.lhs_batch or Tensor.of(op.rhs).rank != 2:
        return
    rank = Tensor.of(op.lhs).rank
    mapped = (op.lhs, op.lhs_contract[0]), (op.y, rank - 1)
    for source, axis in DotGeneral.kept_axes(op, 0).items():
        yield Relation((op.y, axis), ((op.lhs, source),), through=mapped)
    yield Relation(mapped[1], (mapped[0],), through=mapped)


def _of_gather(op: Gather) -> Iterator[Relation]:
    """Yield relations of axes that a gather keeps, and of those that it indexes.

    Several axes in the place of a single indexed one have the roles n (the first)
    and s.
    """
    at = IndexMap.of(op)
    for axis in at.kept:
        yield Relation((op.y, axis), ((op.x, at.source(axis)),))
    own: Sequence[int] = [axis for axis in at.along if axis not in at.kept]
    if len(own) == len(at.axes):
        for axis, source in zip(own, at.axes, strict=True):
            yield Relation((op.y, axis), ((op.x, source),))
    elif len(at.axes) == 1:
        for number, axis in enumerate(own):
            role = "s" if number else "n"
            yield Relation((op.y, axis), ((op.x, at.axes[0]),), role=role)
