"""Scale the weight of a product by what would scale its larger operand.

    %1 = graph.broadcast(%gate)               %1 = graph.broadcast(%gate)
    %2 = graph.multiply(%x, %1)          →    %2 = graph.multiply(%w, %1)
    %3 = graph.conv_general(%2, %w)           %3 = graph.conv_general(%x, %2)

where %gate varies along the channels that are summed up, as in squeeze-and-excite (Hu,
Shen and Sun, "Squeeze-and-Excitation Networks", 2018), and %w has fewer elements than
%x. The kernel of the product then reads %x as it is. Where each image of a batch has a
gate of its own, each has a weight of its own, and the product is one for each image: if
it has few features, as reading the weight then takes much less than reading the image.

Products are rounded at another place. Nothing is moved that is narrower than f32, where
something else reads the scaled value, or where a size is symbolic but that of a batch.

Requires: calls are inlined (inline), scales of results are folded (fold-scales), which
may change weights. Ensures: of each product that gains by it, a scaled weight.
"""

from __future__ import annotations

from typing import NamedTuple

from aotc.dialects.builder import Builder
from aotc.dialects.functions import before
from aotc.dialects.graph import GraphOp, has_effect
from aotc.dialects.ops.contraction import DotGeneral
from aotc.dialects.ops.convolution import ConvGeneral
from aotc.dialects.ops.shape import Broadcast
from aotc.dialects.patterns import made_by
from aotc.dialects.types import Shape, Tensor, element_count
from aotc.dialects.weight_values import weight_values
from aotc.mlir import Function, Operation, Value
from aotc.passes.base import FunctionPass
from aotc.passes.fold_scales import is_wide_float

# Of a product for each image, whose weight the build cannot bring into another order.
# On an EPYC of Zen 4 shapes within both gained up to 50 %; others lost as much.
_MOST_FEATURES = 128
_MOST_OF_IMAGE = 2 / 3  # elements of the weight, by those of the image


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


class _Product(NamedTuple):
    """A product whose first axis is one of its first operand and of its result.

    Each index of it is a product by itself, to which the second operand may as well be
    one of its own.

    Args:
        shape: of the second operand, without axes that the result has not.
        left: the axes of the first operand that are summed up.
        right: those of the second.
    """

    shape: Shape
    left: tuple[int, ...]
    right: tuple[int, ...]


class _Scaled(NamedTuple):
    """The first operand of a product, as a product of its own.

    Args:
        x: what is scaled.
        scale: by what.
        axes: those of the second operand along which that is to be scaled, by those of
            the scale.
        batch: the product, if the second operand is to become one for each index of
            its first axis; their axis is then 0.
    """

    x: Value
    scale: Broadcast
    axes: dict[int, int]
    batch: _Product | None = None


def _scaled(op: GraphOp, weights: set[Value]) -> _Scaled | None:
    """How the first operand is scaled, if its weight is better scaled."""
    summed = type(op).summed_axes(op)
    if not summed:
        return None
    left, right = op.operands[:2]
    if right not in weights or not is_wide_float(Tensor.of(right).dtype):
        return None
    multiply = made_by(left, "multiply")
    if multiply is None or len(list(left.uses)) > 1:
        return None
    lhs, rhs = multiply.operands
    for x, factor in ((lhs, rhs), (rhs, lhs)):
        scale = made_by(factor, "broadcast")
        if scale is None or scale.x in weights:
            continue
        axes = _varying(scale)
        if axes <= summed.keys() and _is_smaller(right, Tensor.of(left).shape):
            return _Scaled(x, scale, {axis: summed[axis] for axis in axes})
        batch = _product_of_batch(op) if 0 in axes and len(axes) > 1 else None
        if batch is None or not _is_worth(batch, Tensor.of(left).shape[1:]):
            continue
        pairs = zip(batch.left, batch.right, strict=True)
        to = {0: 0, **{ours: 1 + theirs for ours, theirs in pairs}}
        if axes <= to.keys():
            return _Scaled(x, scale, {axis: to[axis] for axis in axes}, batch)
    return None


def _product_of_batch(op: GraphOp) -> _Product | None:
    """The product that an op is of each index of its first axis; None if it is none."""
    if isinstance(op, DotGeneral):
        if op.lhs_batch or 0 in op.lhs_contract:
            return None
        shape = Tensor.of(op.rhs).shape
        return _Product(shape, tuple(op.lhs_contract), tuple(op.rhs_contract))
    if isinstance(op, ConvGeneral):
        *window, channels, features = Tensor.of(op.kernel).shape
        is_pointwise = {*window, *op.strides} == {1} and not any(op.padding)
        last = len(window) + 1
        return _Product((channels, features), (last,), (0,)) if is_pointwise else None
    return None


def _is_smaller(value: Value, shape: Shape) -> bool:
    few, many = element_count(Tensor.of(value).shape), element_count(shape)
    return isinstance(few, int) and isinstance(many, int) and few < many


def _is_worth(batch: _Product, image: Shape) -> bool:
    """Whether it pays to scale the second operand for each index of the first axis."""
    weight, elements = element_count(batch.shape), element_count(image)
    summed = element_count(tuple(batch.shape[axis] for axis in batch.right))
    if not isinstance(weight, int) or not isinstance(elements, int):
        return False
    assert isinstance(summed, int)
    is_narrow = weight <= _MOST_FEATURES * summed
    return is_narrow and weight <= _MOST_OF_IMAGE * elements


def _varying(scale: Broadcast) -> set[int]:
    """The axes along which the elements of a broadcast differ."""
    sizes = Tensor.of(scale.x).shape
    return {axis for size, axis in zip(sizes, scale.axes, strict=True) if size != 1}


def _move(op: GraphOp, found: _Scaled) -> None:
    """Scale the second operand of a product in the place of the first."""
    left, right, *others = op.operands
    multiply: Operation = left.owner
    with before(op):
        if found.batch is None:
            cls = type(op)
            scaled = _scale(right, found)
            result = cls.build(found.x, scaled, *others, **cls.attributes_of(op))
        else:
            dtype = Tensor.of(op.results[0]).dtype
            result = _build_batch(found.batch, found, right, dtype)
    op.results[0].replace_all_uses_with(result)
    op.operation.erase()
    multiply.erase()


def _scale(right: Value, found: _Scaled) -> Value:
    """The second operand of a product, scaled."""
    build, scale = Builder(), found.scale
    sizes = [n for n in Tensor.of(scale.x).shape if n != 1]
    narrow = build.reshape(scale.x, shape=tuple(sizes))
    kept = [found.axes[axis] for axis in scale.axes if axis in found.axes]
    order = sorted(range(len(kept)), key=kept.__getitem__)
    turned = build.transpose(narrow, permutation=tuple(order))
    shape = Tensor.of(right).shape
    repeated = build.broadcast(turned, shape=shape, axes=tuple(sorted(kept)))
    return build.multiply(right, repeated)


def _build_batch(batch: _Product, found: _Scaled, right: Value, dtype: str) -> Value:
    """The products, with a second operand for each index of the first axis."""
    build = Builder()
    matrix = build.reshape(right, shape=batch.shape)
    axes = range(1, 1 + len(batch.shape))
    shape = (Tensor.of(found.x).shape[0], *batch.shape)
    every = build.broadcast(matrix, shape=shape, axes=tuple(axes))
    return build.dot_general(
        found.x,
        _scale(every, found),
        lhs_batch=(0,),
        rhs_batch=(0,),
        lhs_contract=batch.left,
        rhs_contract=tuple(axes[axis] for axis in batch.right),
        dtype=dtype,
    )
