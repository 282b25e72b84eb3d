"""Bring the ops that widen elements in memory to the readers of their results.

    %1 = graph.multiply(graph.cast(%q), %s)       %1 = graph.cast(graph.reshape(%q))
    %2 = graph.reshape(%1)                    →   %2 = graph.multiply(%1, %s)
    … %2 … %2                                     %3 = … %4 = the same
                                                  … %2 … %4

Each kernel can then read the bytes, which are fewer, and do that itself; what none does
becomes one again (`cse`). So are floats of 16 bits, which a cast makes f32.
"""

from __future__ import annotations

from collections.abc import Container

from aotc.dialects.builder import Builder
from aotc.dialects.functions.functions import before
from aotc.dialects.functions.walking import clone
from aotc.dialects.graph import GraphOp
from aotc.dialects.ops.binary import Multiply, Subtract
from aotc.dialects.ops.selection import Cast
from aotc.dialects.ops.shape import Broadcast, Reshape
from aotc.dialects.patterns.values import made_by
from aotc.dialects.types import Tensor
from aotc.kernels.elementwise import NARROW
from aotc.mlir import Function, Operation, Value


def bring_to_readers(function: Function, weights: Container[Value]) -> None:
    """Duplicate ops that widen bytes or 16-bit floats for each reader, to be fused
    there.

    Args:
        function: of any ops.
        weights: values that the build computes, which stay as they are.
    """
    found = dict[Value, GraphOp]()
    for op in [*function.entry_block.operations]:
        if isinstance(op, Reshape) and op.x in found and Reshape.is_merged(op):
            _reshape_bytes(op, found)
        elif _widened(op, found) is not None and op.results[0] not in weights:
            assert isinstance(op, GraphOp)
            found[op.results[0]] = op
    for value, op in reversed(found.items()):
        for use in [*value.uses][1:]:
            with before(op):
                (copy,) = clone(op, list(op.operands))
            use.owner.operands[use.operand_number] = copy


def _widened(op: Operation, widened: Container[Value]) -> Value | None:
    """Return the operand that `op` widens as a step from bytes or 16-bit floats; else
    None.
    """
    if not isinstance(op, (Cast, Multiply, Subtract)):
        return None
    if isinstance(op, Cast) and widens(op):
        return op.x
    if Tensor.of(op.results[0]).dtype in NARROW:
        return None
    if isinstance(op, Cast) and Tensor.of(op.x).dtype in NARROW:
        return op.x
    own = [value for value in op.operands if value in widened]
    others = [value for value in op.operands if value not in widened]
    is_step = len(own) == 1 and all(_number(value) is not None for value in others)
    return own[0] if is_step and not _is_float(own[0]) else None


def widens(op: Cast) -> bool:
    """Return whether a cast is from a 16-bit float to f32."""
    source, kind = Tensor.of(op.x).dtype, Tensor.of(op.y).dtype
    return source in ("bf16", "f16") and kind == "f32"


def _is_float(value: Value) -> bool:
    """Return whether a value is a cast of 16-bit floats to f32."""
    made = made_by(value, Cast)
    return made is not None and widens(made)


def _number(value: Value) -> Value | None:
    """Return the scalar that a value broadcasts; None for other values."""
    op = made_by(value, Broadcast)
    return None if op is None or Tensor.of(op.x).rank else op.x


def _reshape_bytes(op: Reshape, widened: dict[Value, GraphOp]) -> None:
    """Replace a reshape of widened bytes by widening of the reshaped bytes.

    Args:
        op: the reshape; it is erased.
        widened: the ops that widen bytes, by what they give; gets the new ones.
    """
    b, steps = Builder(), list[tuple[GraphOp, Value]]()
    source: Value = op.x
    while source in widened:
        step = widened[source]
        read = _widened(step, widened)
        assert read is not None
        steps.insert(0, (step, read))
        source = read
    with before(op):
        value = b.reshape(source, shape=op.shape)
        for step, read in steps:
            given = [
                value if x == read else b.broadcast(_number(x), shape=op.shape, axes=())
                for x in step.operands
            ]
            value = step.rebuild(*given)
            widened[value] = value.owner.opview
    op.y.replace_all_uses_with(value)
    op.operation.erase()
