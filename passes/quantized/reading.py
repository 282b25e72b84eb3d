"""Find the one tensor that an op reads, and whether its readers make bytes of it."""

from __future__ import annotations

import numpy as np

from aotc.dialects.graph import GraphOp
from aotc.dialects.ops.indexing import Gather
from aotc.dialects.ops.selection import Cast
from aotc.dialects.rules.movement import Movement
from aotc.dialects.types import Tensor
from aotc.mlir import Value
from aotc.passes.quantized.numbers import Numbers, is_quantization, known_number

Array = np.ndarray


def moves(op: GraphOp) -> bool:
    """Return whether an op only moves elements of its first operand, unchanged."""
    return isinstance(op, Movement) or (isinstance(op, Gather) and op.mode == "clip")


def ends_with_bytes(value: Value, known: dict[Value, bool]) -> bool:
    """Return whether all uses of a float value are quantised to bytes, elementwise.

    Args:
        value: of floats.
        known: what was found of others; is added to.
    """
    if value not in known:
        readers = [use.owner.opview for use in value.uses]
        known[value] = bool(readers) and all(
            is_quantization(op)
            or (
                isinstance(op, GraphOp)
                and (type(op).on_scalars or moves(op))
                and Tensor.of(op.results[0]).dtype == "f32"
                and ends_with_bytes(op.results[0], known)
            )
            for op in readers
        )
    return known[value]


def operand_read(op: GraphOp, numbers: Numbers) -> Value | None:
    """Return the operand that an op moves, or computes from and known numbers; else
    None.
    """
    if moves(op):
        read: Value = op.operands[0]
        return read
    if not (isinstance(op, Cast) or type(op).on_vectors):
        return None
    others = {x for x in op.operands if known_number(x, numbers) is None}
    return others.pop() if len(others) == 1 else None
