"""Scale the weight of a product in place of its larger operand.

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

Scales of results are folded before (fold-scales), which may change weights. Ensures: of
each product that gains by it, a scaled weight.
"""

from __future__ import annotations

from typing import NamedTuple

from aotc.dialects.builder import Builder
from aotc.dialects.functions.functions import before
from aotc.dialects.functions.walking import has_one_use
from aotc.dialects.graph import GraphOp, has_effect
from aotc.dialects.movement.reshaping import squeeze_shape
from aotc.dialects.ops.binary import Multiply
from aotc.dialects.ops.contraction import DotGeneral, dot_axes
from aotc.dialects.ops.convolution import ConvGeneral
from aotc.dialects.ops.shape import Broadcast, varying_axes
from aotc.dialects.patterns.values import made_by
from aotc.dialects.types import Shape, Tensor, element_count
from aotc.dialects.weight_values import is_expanded, weight_values
from aotc.mlir import Function, Operation, Value
from aotc.passes.base import FunctionPass
from aotc.passes.fold_scales import is_wide_float
from aotc.passes.properties import CALLS_INLINED

# Of a product for each image, whose weight the build cannot bring into another order.
# On an EPYC of Zen 4 shapes within both gained up to 50 %; others lost as much.
_MOST_FEATURES = 128
_MOST_OF_IMAGE = 2 / 3  # elements of the weight, by those of the image


class ScaleWeights(FunctionPass):
    """Move a scale from a product's larger operand to its weight, in every function."""

    name = "scale-weights"
    level = 2
    keeps_graph = True
    requires = (CALLS_INLINED,)

    def change(self, function: Function) -> bool:
        """Rewrite the products of a function in place; return whether any changed."""
        weights = weight_values(function)
        changed = False
        for op in [*function.entry_block.operations]:
            if not isinstance(op, GraphOp) or has_effect(op):
                continue
            found = _scaling_of(op, weights)
            if found is not None:
                _replace(op, found)
                changed = True
        return changed


class _WeightScaled(NamedTuple):
    """Rewrite of `(x * scale) @ weight` to `x @ (weight * scale)`.

    Args:
        x: what was scaled.
        scale: by what.
        axes: those of the weight along which it is scaled, by those of the scale.
    """

    x: Value
    scale: Broadcast
    axes: dict[int, int]

    def build(self, op: GraphOp) -> Value:
        """Emit the product on the scaled weight; return its result."""
        weight, *others = list(op.operands)[1:]
        scaled = _scale(weight, self.scale, self.axes)
        made: Value = op.rebuild(self.x, scaled, *others)
        return made


class _WeightOfEach(NamedTuple):
    """Rewrite to a batched product: each image has its own scale, and so its own
    weight.

    Args:
        x: what was scaled.
        scale: by what.
        axes: those of the weights along which they are scaled, by those of the scale:
            the first is of images, those of the weight follow.
        product: of an image.
    """

    x: Value
    scale: Broadcast
    axes: dict[int, int]
    product: _BatchedProduct

    def build(self, op: GraphOp) -> Value:
        """Emit the batched product on weights scaled for each image; return its
        result.
        """
        build, shape = Builder(), self.product.shape
        matrix = build.reshape(op.operands[1], shape=shape)
        axes = range(1, 1 + len(shape))
        every = (Tensor.of(self.x).shape[0], *shape)
        weights = build.broadcast(matrix, shape=every, axes=tuple(axes))
        right = tuple(axes[axis] for axis in self.product.right)
        return build.dot_general(
            self.x,
            _scale(weights, self.scale, self.axes),
            **dot_axes((self.product.left, right), batch=((0,), (0,))),
            dtype=Tensor.of(op.results[0]).dtype,
        )


class _BatchedProduct(NamedTuple):
    """The shape and axes of a product seen as one product for each image of a batch.

    Args:
        shape: of the weight, without axes that the result has not.
        left: the axes of the first operand of the op that are summed up.
        right: those of the weight.
    """

    shape: Shape
    left: tuple[int, ...]
    right: tuple[int, ...]


def _scaling_of(
    op: GraphOp, weights: set[Value]
) -> _WeightScaled | _WeightOfEach | None:
    """Match `op` as a product of a scaled operand; return the better rewrite, or
    None.
    """
    summed = type(op).summed_axes(op)
    if not summed:
        return None
    left, right = op.operands[:2]
    if right not in weights or is_expanded(right):
        return None
    if not is_wide_float(Tensor.of(right).dtype):
        return None
    multiply = made_by(left, Multiply)
    if multiply is None or not has_one_use(left):
        return None
    lhs, rhs = multiply.operands
    for x, factor in ((lhs, rhs), (rhs, lhs)):
        scale = made_by(factor, Broadcast)
        if scale is None or scale.x in weights:
            continue
        axes = {*varying_axes(scale)}
        if axes <= summed.keys() and _is_smaller(right, left):
            return _WeightScaled(x, scale, {axis: summed[axis] for axis in axes})
        product = _product_of_each(op) if 0 in axes and len(axes) > 1 else None
        if product is None or not _is_worth(product, Tensor.of(left).shape[1:]):
            continue
        pairs = zip(product.left, product.right, strict=True)
        to = {0: 0, **{ours: 1 + theirs for ours, theirs in pairs}}
        if axes <= to.keys():
            return _WeightOfEach(x, scale, {axis: to[axis] for axis in axes}, product)
    return None


def _product_of_each(op: GraphOp) -> _BatchedProduct | None:
    """Return the weight's shape and summed axes of a product of each image; None for
    others.
    """
    if isinstance(op, DotGeneral):
        if op.lhs_batch or 0 in op.lhs_contract:
            return None
        shape = Tensor.of(op.rhs).shape
        return _BatchedProduct(shape, tuple(op.lhs_contract), tuple(op.rhs_contract))
    if isinstance(op, ConvGeneral):
        *window, channels, features = Tensor.of(op.kernel).shape
        is_pointwise = {*window, *op.strides} == {1} and not any(op.padding)
        last = len(window) + 1
        return (
            _BatchedProduct((channels, features), (last,), (0,))
            if is_pointwise
            else None
        )
    return None


def _is_smaller(value: Value, other: Value) -> bool:
    """Return whether `value` has fewer elements than `other`, for static shapes."""
    few, many = (element_count(Tensor.of(x).shape) for x in (value, other))
    return isinstance(few, int) and isinstance(many, int) and few < many


def _is_worth(product: _BatchedProduct, image_shape: Shape) -> bool:
    """Return whether giving each image a scaled weight of its own pays."""
    weight, elements = element_count(product.shape), element_count(image_shape)
    summed = element_count(tuple(product.shape[axis] for axis in product.right))
    if not isinstance(weight, int) or not isinstance(elements, int):
        return False
    assert isinstance(summed, int)
    is_narrow = weight <= _MOST_FEATURES * summed
    return is_narrow and weight <= _MOST_OF_IMAGE * elements


def _replace(op: GraphOp, found: _WeightScaled | _WeightOfEach) -> None:
    """Replace a product by its rewritten form; erase its operand's multiplication."""
    multiply: Operation = op.operands[0].owner
    with before(op):
        result = found.build(op)
    op.results[0].replace_all_uses_with(result)
    op.operation.erase()
    multiply.erase()


def _scale(weight: Value, scale: Broadcast, axes: dict[int, int]) -> Value:
    """Emit `weight * scale`; `axes` maps the scale's axes to the weight's."""
    build = Builder()
    narrow = build.reshape(scale.x, shape=squeeze_shape(Tensor.of(scale.x).shape))
    kept = [axes[axis] for axis in varying_axes(scale)]
    return build.multiply(weight, build.spread(narrow, Tensor.of(weight).shape, kept))
