"""Values that depend on weights and constants alone.

A state is none: it changes from call to call.
"""

from __future__ import annotations

from collections.abc import Iterable

from aotc.dialects.functions.entries import weight_arguments
from aotc.dialects.functions.walking import defining_op
from aotc.dialects.graph import GraphOp, has_effect
from aotc.dialects.ops.creation import Constant
from aotc.dialects.types import Tensor
from aotc.mlir import Function, Operation, Value


def weight_values(function: Function, weights: Iterable[Value] = ()) -> set[Value]:
    """Return the static-shaped values that depend on weights and constants alone.

    Args:
        function: an entry, or any other.
        weights: those of its arguments that are weights, if it is no entry.
    """
    found = {*weight_arguments(function), *weights}
    for op in function.entry_block.operations:
        if _is_decided(op, found):
            found.update(op.results)
    return found


def is_expanded(value: Value) -> bool:
    """Return whether an `expands` op makes a value, perhaps rearranged afterwards.

    What is computed of it could not be kept so.
    """
    op = defining_op(value)
    while isinstance(op, GraphOp) and type(op).rearranges and len(op.operands) == 1:
        op = defining_op(op.operands[0])
    return isinstance(op, GraphOp) and type(op).expands


def _is_decided(op: Operation, known: set[Value]) -> bool:
    """Return whether an op computes static-shaped results from known values only."""
    operands = op.operands
    if not operands:
        return isinstance(op, Constant)
    if not all(value in known for value in operands):  # of most, the first is not
        return False
    if not isinstance(op, GraphOp) or has_effect(op):
        return False
    return all(Tensor.of(value).is_static for value in op.results)
