"""Multiply the weights of a product instead of its results.

    %1 = graph.conv_general(%x, %w)           %1 = graph.multiply(%w, %scale)
    %2 = graph.subtract(%1, %mean)            %2 = graph.conv_general(%x, %1)
    %3 = graph.multiply(%2, %scale)      →    %3 = … beta - mean * scale
    %4 = graph.add(%3, %beta)                 %4 = graph.add(%2, %3)

where %mean, %scale and %beta repeat numbers that weights decide: a batch norm of
inference, for instance. What is computed of weights alone is computed once.

Sums are rounded in another order. A scale that is infinite, or a weight that it makes
infinite, gives NaN where the scaled sum was infinite (or finite). Nothing is folded
that is narrower than f32, that a state decides, or where a value in between has another
reader.

Ensures: of each product that has such weights, no
multiple but of sums; `simplify` and `cse` then drop what is left over.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from aotc.core import dtypes as dt
from aotc.dialects.builder import Builder
from aotc.dialects.functions.functions import before
from aotc.dialects.functions.walking import has_one_use
from aotc.dialects.graph import GraphOp, has_effect
from aotc.dialects.movement.permutations import permute
from aotc.dialects.movement.reshaping import squeeze_shape
from aotc.dialects.ops.binary import Add, Binary, Divide, Multiply, Subtract
from aotc.dialects.ops.shape import Broadcast, varying_axes
from aotc.dialects.patterns.values import made_by
from aotc.dialects.types import Tensor
from aotc.dialects.weight_values import is_expanded, weight_values
from aotc.mlir import Function, Operation, Value
from aotc.passes.base import FunctionPass
from aotc.passes.properties import CALLS_INLINED

NARROWEST = 32  # bits of a float in which weights are scaled


class FoldScales(FunctionPass):
    """Fold scales and shifts that follow products into their weights, in every
    function.
    """

    name = "fold-scales"
    level = 2
    keeps_graph = True
    requires = (CALLS_INLINED,)

    def change(self, function: Function) -> bool:
        """Rewrite one function in place; return whether anything changed."""
        weights = weight_values(function)
        found = (_product(op, weights) for op in function.entry_block.operations)
        # a list: those that are folded go
        return any([_fold(each, weights) for each in [*found] if each is not None])


def is_wide_float(dtype: str) -> bool:
    """Return whether a dtype is f32 or wider, so that scaling weights rounds
    harmlessly.
    """
    return dt.is_float(dtype) and dt.bits(dtype) >= NARROWEST


@dataclass(frozen=True)
class _WeightedProduct:
    """A product, the index of its weight operand, and the weight's axis for result
    axes.
    """

    op: GraphOp
    weight: int
    axes: dict[int, int]


def _product(op: Operation, weights: set[Value]) -> _WeightedProduct | None:
    """Match an op as a product with a stored float weight whose axes can be scaled, or
    None.
    """
    if not isinstance(op, GraphOp) or has_effect(op) or op.results[0] in weights:
        return None
    for number, value in enumerate(op.operands):
        axes = type(op).scaled_axes(op, number)
        kind = Tensor.of(value)
        is_wide = is_wide_float(kind.dtype)
        is_same = kind.dtype == Tensor.of(op.results[0]).dtype
        is_stored = value in weights and not is_expanded(value)
        if axes and is_stored and is_wide and is_same:
            return _WeightedProduct(op, number, axes)
    return None


# ---- what follows a product ---------------------------------------------------------


@dataclass(frozen=True)
class _Affine:
    """`product * scale + shift`, both along the weight's result axes; None for
    absent.
    """

    scale: Value | None = None
    shift: Value | None = None


Step = Callable[[Builder, _Affine, Value], _Affine]


def _add(b: Builder, y: _Affine, v: Value) -> _Affine:
    """Return the affine form of `y + v`."""
    return replace(y, shift=v if y.shift is None else b.add(y.shift, v))


def _subtract(b: Builder, y: _Affine, v: Value) -> _Affine:
    """Return the affine form of `y - v`."""
    return replace(y, shift=b.negate(v) if y.shift is None else b.subtract(y.shift, v))


def _subtract_from(b: Builder, y: _Affine, v: Value) -> _Affine:
    """Return the affine form of `v - y`."""
    scale = b.full_like(v, -1.0) if y.scale is None else b.negate(y.scale)
    return replace(
        y, scale=scale, shift=v if y.shift is None else b.subtract(v, y.shift)
    )


def _multiply(b: Builder, y: _Affine, v: Value) -> _Affine:
    """Return the affine form of `y * v`."""
    return replace(
        y,
        scale=v if y.scale is None else b.multiply(y.scale, v),
        shift=None if y.shift is None else b.multiply(y.shift, v),
    )


def _divide(b: Builder, y: _Affine, v: Value) -> _Affine:
    """Return the affine form of `y / v`."""
    scale = b.full_like(v, 1.0) if y.scale is None else y.scale
    return replace(
        y,
        scale=b.divide(scale, v),
        shift=None if y.shift is None else b.divide(y.shift, v),
    )


# by the side that the product is on
_STEPS: dict[type[Binary], tuple[Step | None, Step | None]] = {
    Add: (_add, _add),
    Subtract: (_subtract, _subtract_from),
    Multiply: (_multiply, _multiply),
    Divide: (_divide, None),
}


def _fold(product: _WeightedProduct, weights: set[Value]) -> bool:
    """Fold the ops after a product into its weight, if that pays; return whether it
    did.
    """
    chain = _chain(product, weights)
    if not _is_worth_it([op for op, _, _ in chain]):
        return False
    weight = product.op.operands[product.weight]
    if not has_one_use(weight):  # there would be a second one to store
        return False
    build, last = Builder(), chain[-1][0]
    with before(last):
        y = _Affine()
        for _, step, factor in chain:
            y = step(build, y, _along_features(build, product, factor))
        result = _rebuild(build, product, y)
    last.results[0].replace_all_uses_with(result)
    for op in [*(op for op, _, _ in reversed(chain)), product.op]:
        op.operation.erase()
    return True


def _chain(
    product: _WeightedProduct, weights: set[Value]
) -> list[tuple[Operation, Step, Broadcast]]:
    """Return the foldable ops after a product: each op, its affine step, and its other
    operand.
    """
    found = []
    value = product.op.results[0]
    while (reader := _only_reader(value)) is not None:
        step = _step(product, reader, value, weights)
        if step is None:
            break
        found.append((reader, *step))
        value = reader.results[0]
    return found


def _only_reader(value: Value) -> Operation | None:
    """Return the only user of a value; None for none or several."""
    uses = list(value.uses)
    return uses[0].owner if len(uses) == 1 else None


def _step(
    product: _WeightedProduct, reader: Operation, value: Value, weights: set[Value]
) -> tuple[Step, Broadcast] | None:
    """Match `reader` as an affine step on `value`; return step and other operand, or
    None.
    """
    steps = _STEPS.get(type(reader.opview))
    if steps is None:
        return None
    side = 0 if reader.operands[0] == value else 1
    other = made_by(reader.operands[1 - side], Broadcast)
    step = steps[side]
    if step is None or other is None or other.x not in weights:
        return None
    return (step, other) if product.axes.keys() >= {*varying_axes(other)} else None


def _is_worth_it(ops: Sequence[Operation]) -> bool:
    """Return whether folding these ops pays: they are more than one addition."""
    return len(ops) > 1 or any(not isinstance(op.opview, Add) for op in ops)


def _along_features(b: Builder, product: _WeightedProduct, factor: Broadcast) -> Value:
    """Emit a factor's numbers broadcast over the product's scaled axes, in their
    order.
    """
    axes = sorted(product.axes)
    shape = Tensor.of(product.op.results[0]).shape
    narrow = b.reshape(factor.x, shape=squeeze_shape(Tensor.of(factor.x).shape))
    kept = map(axes.index, varying_axes(factor))
    return b.broadcast(narrow, shape=permute(shape, axes), axes=tuple(kept))


def _rebuild(b: Builder, product: _WeightedProduct, y: _Affine) -> Value:
    """Emit the product with its weight scaled, and the shift added; return the
    result.
    """
    axes = sorted(product.axes)
    operands = list(product.op.operands)
    if y.scale is not None:
        weight = operands[product.weight]
        places = [product.axes[axis] for axis in axes]
        scale = b.spread(y.scale, Tensor.of(weight).shape, places)
        operands[product.weight] = b.multiply(weight, scale)
    found: Value = product.op.rebuild(*operands)
    if y.shift is None:
        return found
    shape = Tensor.of(found).shape
    return b.add(found, b.broadcast(y.shift, shape=shape, axes=tuple(axes)))
