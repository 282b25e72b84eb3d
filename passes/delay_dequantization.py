"""Make floats of a weight right before each op that reads them.

    %w = graph.dequantize(%q, %s)          %y = call @contraction(%x, %q', …)
    %y = call @contraction(%x, %q', …)  →  %i = graph.after(%q, %dy)
    %dx = graph.dot_general(%dy, %w)       %t = graph.after(%s, %dy)
                                           %w = graph.dequantize(%i, %t)
                                           %dx = graph.dot_general(%dy, %w)

What weights alone decide may be computed at any time, and IREE computes it first, or
when the model is loaded: a step of training that makes floats of the weights of a
decoder would hold those of all layers. A reader in the forward pass and one in the
backward pass get floats of their own. Weights of which kernels read the integers are in
no such op any more.
"""

from __future__ import annotations

from collections.abc import Container

from aotc.dialects.builder import Builder
from aotc.dialects.functions.functions import before
from aotc.dialects.functions.walking import (
    backward_slice,
    clone_op,
    defining_op,
    in_order,
)
from aotc.dialects.ops.quantization import Dequantize
from aotc.dialects.types import Tensor
from aotc.kernels.scopes import functions_with_weights
from aotc.mlir import Function, Operation, Value, func, ir
from aotc.passes.base import Pass, Unit
from aotc.passes.properties import CALLS_INLINED

_FEW = 2**22  # floats of all weights of a function that may be there at once


class DelayDequantization(Pass):
    """Move dequantisations of weights right before each reader, in entries and loop
    bodies.
    """

    name = "delay-dequantization"
    level = 2
    keeps_graph = True
    requires = (CALLS_INLINED,)

    def run(self, unit: Unit) -> bool:
        """Rewrite the unit's module in place; return whether anything changed."""
        changed = False
        for function, weights in functions_with_weights(unit.module):
            changed |= _delay(function, weights)
        return changed


def _delay(function: Function, weights: Container[Value]) -> bool:
    """Give each reader of dequantised weights its own late copy; return whether any
    did.

    Nothing is done where a function dequantises few elements.
    """
    ops = [*function.entry_block.operations]
    dequantized = [op for op in ops if isinstance(op, Dequantize) and op.y in weights]
    if sum(int(Tensor.of(op.y).elements) for op in dequantized) <= _FEW:
        return False
    changed = False
    for op in ops:
        event = _event(op, weights)
        if event is None:
            continue
        for number, value in enumerate(op.operands):
            chain = _chain(value) if value in weights else []
            if chain:
                op.operands[number] = _copy_late(op, chain, event)
                changed = True
    for op in reversed(ops):
        is_of_weights = op.results and all(x in weights for x in op.results)
        if is_of_weights and not any(True for x in op.results for _ in x.uses):
            op.operation.erase()
    return changed


def _event(op: Operation, weights: Container[Value]) -> Value | None:
    """Return the op's operand computed last, weights and bools aside; or None."""
    if isinstance(op, func.ReturnOp):
        return None
    computed = {
        x.owner: x
        for x in op.operands
        if x not in weights and not isinstance(x.owner, ir.Block)
        if Tensor.of(x).dtype != "bool"  # which orders nothing
    }
    return computed[in_order([*computed])[-1]] if computed else None


def _chain(value: Value) -> list[Operation]:
    """Return the ops from a `dequantize` to `value`, in order; empty without a
    `dequantize`.
    """

    def is_followed(each: Value) -> bool:
        return not isinstance(defining_op(each), Dequantize)

    found = map(defining_op, backward_slice([value], is_followed))
    late, chain = set[Value](), []
    for op in in_order([each for each in found if each is not None]):
        if isinstance(op, Dequantize) or any(x in late for x in op.operands):
            late.update(op.results)
            chain.append(op)
    return chain


def _copy_late(reader: Operation, chain: list[Operation], event: Value) -> Value:
    """Copy a chain right before its reader, ordered after `event`; return the new
    value.
    """
    b, known = Builder(), dict[Value, Value]()
    with before(reader):
        for op in chain:
            operands = [known.get(x, x) for x in op.operands]
            if isinstance(op, Dequantize):
                operands[:2] = [b.after(x, event) for x in operands[:2]]
            copy = clone_op(op, operands)
            known.update(zip(op.results, copy.results, strict=True))
    return known[chain[-1].results[0]]
