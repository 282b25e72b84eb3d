"""The widening sweep: a function with every float in f64.

Derivatives are checked on it, where rounding is far below what a wrong rule changes.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from aotc.core import dtypes
from aotc.dialects.builder import Builder
from aotc.dialects.calls.custom import Checkpoint
from aotc.dialects.functions import functions
from aotc.dialects.functions.transform import Widened, derive
from aotc.dialects.functions.walking import walk
from aotc.dialects.graph import GraphOp, as_tuple
from aotc.dialects.types import Tensor
from aotc.mlir import Block, Function, Operation, Value, func
from aotc.passes.sweeps.rules import rules_of_call


def sweep(derived: Widened, primal: Function, block: Block) -> list[Value]:
    """Emit the ops of `primal` with all floats in f64; return its results.

    Args:
        derived: whether checkpoints stay.
        primal: the function.
        block: whose arguments are those of the function being written.
    """

    def write(op: Operation, operands: list[Value]) -> Sequence[Value]:
        if isinstance(op, func.CallOp):
            return _write_call(op, operands, derived)
        assert isinstance(op, GraphOp)
        return _write_op(op, operands)

    return walk(primal.entry_block, list(block.arguments), write)


def _write_op(op: GraphOp, operands: list[Value]) -> Sequence[Value]:
    """Emit an op with f64 operands and attributes; return its results in f64."""
    build = Builder()
    if not op.reads_bits:
        attributes = type(op).attributes_of(op)
        wide = {name: _widen(value) for name, value in attributes.items()}
        return as_tuple(op.rebuild(*operands, **wide))
    given = [
        build.cast(new, dtype=Tensor.of(old).dtype)
        for old, new in zip(op.operands, operands, strict=True)
    ]
    found = as_tuple(op.rebuild(*given))
    return [build.cast(y, dtype=_widen(Tensor.of(y).dtype)) for y in found]


def _widen(attribute: object) -> Any:
    """Return a dtype or array attribute with floats as f64; others unchanged."""
    if isinstance(attribute, str) and attribute in dtypes.FLOATS:
        return "f64"
    if isinstance(attribute, np.ndarray) and dtypes.is_float(
        dtypes.canonical_dtype(attribute.dtype)
    ):
        return attribute.astype(np.float64)
    return attribute


def _write_call(
    call: func.CallOp, operands: list[Value], derived: Widened
) -> Sequence[Value]:
    """Emit a call whose functions are widened to f64; return its results."""

    def widen(name: str) -> str:
        return derive(replace(derived, of=name))

    name, rules = functions.callee_of(call), rules_of_call(call)
    if isinstance(rules, Checkpoint) and not derived.checkpoints:
        return functions.call(widen(name), operands)
    return rules.call_transformed(name, operands, widen)
