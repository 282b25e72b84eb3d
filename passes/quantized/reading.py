"""Which one tensor an op reads: what moves elements, and elementwise ops by numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from aotc.dialects.graph import GraphOp
from aotc.dialects.movement import Movement
from aotc.dialects.ops.indexing import Gather
from aotc.dialects.ops.selection import Cast
from aotc.mlir import Value
from aotc.passes.quantized.numbers import Numbers, known_number

Array = np.ndarray[Any, Any]


def moves(op: GraphOp) -> bool:
    """Return whether an op gives some elements of its first operand, as they are."""
    return isinstance(op, Movement) or (isinstance(op, Gather) and op.mode == "clip")


def operand_read(op: GraphOp, numbers: Numbers) -> Value | None:
    """Return the one operand of an op that is no number; None for other ops."""
    if moves(op):
        read: Value = op.operands[0]
        return read
    if not (isinstance(op, Cast) or type(op).on_vectors):
        return None
    others = {x for x in op.operands if known_number(x, numbers) is None}
    return others.pop() if len(others) == 1 else None
