"""Scale the weight of a product by what would scale its larger operand.

    %1 = graph.broadcast(%gate)               %1 = graph.broadcast(%gate)
    %2 = graph.multiply(%x, %1)          →    %2 = graph.multiply(%w, %1)
    %3 = graph.conv_general(%2, %w)           %3 = graph.conv_general(%x, %2)

where %gate varies along the channels that are summed up, as in squeeze-and-excite (Hu,
Shen and Sun, "Squeeze-and-Excitation Networks", 2018), and %w has fewer elements than
%x. The kernel of the product then reads %x as it is.

Products are rounded at another place. Nothing is moved that is narrower than f32, where
something else reads the scaled value, or where a size is symbolic.

Requires: calls are inlined (inline), scales of results are folded (fold-scales), which
may change weights. Ensures: of each product that gains by it, a scaled weight.
"""

from __future__ import annotations

from typing import NamedTuple

from aotc.dialects.builder import Builder
from aotc.dialects.functions import before
from aotc.dialects.graph import GraphOp, has_effect
from aotc.dialects.ops.shape import Broadcast
from aotc.dialects.patterns import made_by
from aotc.dialects.types import Tensor, element_count
from aotc.dialects.weight_values import weight_values
from aotc.mlir import Function, Operation, Value
from aotc.passes.base import FunctionPass
from aotc.passes.fold_scales import is_wide_float


class ScaleWeights(FunctionPass):
    """Scale weights in the place of larger operands, in every function."""

    name = "scale-weights"
    level = 2
    keeps_graph = True

    def change(self, function: Function) -> bool:
        """Whether anything changed."""
        return _scale_in(function)


def _scale_in(function: Function) -> bool:
    weights = weight_values(function)
    changed = False
    for op in [*function.entry_block.operations]:
        if not isinstance(op, GraphOp) or has_effect(op):
            continue
        found = _scaled(op, weights)
        if found is not None:
            _move(op, found)
            changed = True
    return changed


class _Scaled(NamedTuple):
    """The first operand of a product, as a product of its own, and axes of the second.

    `axes` are those along which the second is to be scaled, by those of the scale.
    """

    x: Value
    scale: Broadcast
    axes: dict[int, int]


def _scaled(op: GraphOp, weights: set[Value]) -> _Scaled | None:
    """How the first operand is scaled, if its weight is better scaled."""
    summed = type(op).summed_axes(op)
    if not summed:
        return None
    left, right = op.operands[:2]
    kind = Tensor.of(right)
    if right not in weights or not is_wide_float(kind.dtype):
        return None
    multiply = made_by(left, "multiply")
    if multiply is None or len(list(left.uses)) > 1 or not _is_smaller(right, left):
        return None
    lhs, rhs = multiply.operands
    for x, factor in ((lhs, rhs), (rhs, lhs)):
        scale = made_by(factor, "broadcast")
        if scale is None or scale.x in weights:
            continue
        axes = _varying(scale)
        if axes <= summed.keys():
            return _Scaled(x, scale, {axis: summed[axis] for axis in axes})
    return None


def _is_smaller(one: Value, other: Value) -> bool:
    few, many = (element_count(Tensor.of(value).shape) for value in (one, other))
    return isinstance(few, int) and isinstance(many, int) and few < many


def _varying(scale: Broadcast) -> set[int]:
    """The axes along which the elements of a broadcast differ."""
    sizes = Tensor.of(scale.x).shape
    return {axis for size, axis in zip(sizes, scale.axes, strict=True) if size != 1}


def _move(op: GraphOp, found: _Scaled) -> None:
    """Scale the second operand of a product in the place of the first."""
    build, cls = Builder(), type(op)
    left, right, *others = op.operands
    multiply: Operation = left.owner
    with before(op):
        sizes = [n for n in Tensor.of(found.scale.x).shape if n != 1]
        narrow = build.reshape(found.scale.x, shape=tuple(sizes))
        kept = [found.axes[axis] for axis in found.scale.axes if axis in found.axes]
        order = sorted(range(len(kept)), key=kept.__getitem__)
        scale = build.broadcast(
            build.transpose(narrow, permutation=tuple(order)),
            shape=Tensor.of(right).shape,
            axes=tuple(sorted(kept)),
        )
        scaled = build.multiply(right, scale)
        result = cls.build(found.x, scaled, *others, **cls.attributes_of(op))
    op.results[0].replace_all_uses_with(result)
    op.operation.erase()
    multiply.erase()
