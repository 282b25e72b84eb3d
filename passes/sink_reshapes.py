"""Move reshapes that add, drop or move axes of size 1 past elementwise ops.

    %1 = graph.reshape(%a) {shape = (1, 8, 1, 1)}      %1 = graph.logistic(%a)
    %2 = graph.logistic(%1)                       →    %2 = graph.multiply(%a, %1)
    %3 = graph.multiply(%1, %2)                        %3 = graph.reshape(%2) …

The elementwise ops are then beside the product or the reduction that gives %a, with
which a kernel computes them. Other operands may be numbers that are repeated.

Transposes of such axes are reshapes by then (simplify). What is left are no more
reshapes that a model runs through; `simplify` drops those that meet.
"""

from __future__ import annotations

from aotc.dialects.builder import Builder
from aotc.dialects.functions.functions import before
from aotc.dialects.graph import GraphOp, has_effect
from aotc.dialects.ops.quantization import Lookup
from aotc.dialects.ops.selection import Cast
from aotc.dialects.ops.shape import Broadcast, Reshape
from aotc.dialects.patterns.values import made_by
from aotc.dialects.types import Shape, Tensor
from aotc.dialects.weight_values import weight_values
from aotc.mlir import Function, Operation, Value
from aotc.passes.base import FunctionPass
from aotc.passes.properties import CALLS_INLINED, TRANSPOSES_MOVE


class SinkReshapes(FunctionPass):
    """Move reshapes that only add or drop axes of size 1 past elementwise ops."""

    name = "sink-reshapes"
    level = 2
    keeps_graph = True
    requires = (
        CALLS_INLINED,
        TRANSPOSES_MOVE,
    )

    def change(self, function: Function) -> bool:
        """Rewrite one function in place; return whether anything changed."""
        weights = weight_values(function)
        changed = False
        for op in [*function.entry_block.operations]:
            shape = _source_shape(op, weights)
            if shape is None:
                continue
            build = Builder()
            with before(op):
                given = [_reshaped(build, value, shape) for value in op.operands]
                found = op.opview.rebuild(*given)
                result = op.results[0]
                moved = build.reshape(found, shape=Tensor.of(result).shape)
            result.replace_all_uses_with(moved)
            op.operation.erase()
            changed = True
        return changed


def _source_shape(op: Operation, weights: set[Value]) -> Shape | None:
    """Return the shape before a reshape in which `op` can be computed; None if there is
    none.
    """
    if not isinstance(op, GraphOp) or has_effect(op):
        return None
    if not (type(op).on_vectors or isinstance(op, Cast | Lookup)):
        return None
    if len(op.results) != 1 or op.results[0] in weights:
        return None
    if any(_source(x) is None and _repeated_scalar(x) is None for x in op.operands):
        return None
    sources = [x for x in map(_source, op.operands) if x is not None]
    shapes = {Tensor.of(x).shape for x in sources}
    is_one = len(shapes) == 1 and weights.isdisjoint(sources)
    return shapes.pop() if is_one else None


def _source(value: Value) -> Value | None:
    """Return the value before reshapes that only move size-1 axes; None for other
    values.
    """
    source = None
    while (op := made_by(value, Reshape)) is not None and Reshape.is_merged(op):
        source = value = op.x
    return source


def _repeated_scalar(value: Value) -> Value | None:
    """Return the rank-0 value that a broadcast repeats; None for other values."""
    op = made_by(value, Broadcast)
    return None if op is None or Tensor.of(op.x).rank else op.x


def _reshaped(build: Builder, value: Value, shape: Shape) -> Value:
    """Return an operand in `shape`: its source before the reshape, or a broadcast
    scalar.
    """
    source = _source(value)
    return source or build.broadcast(_repeated_scalar(value), shape=shape, axes=())
