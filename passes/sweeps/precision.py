"""The precision sweep: a function that computes in a cheaper float dtype where it may.

Every op says what it does (`precision`): products of matrices compute in the cheaper
dtype, ops that need range or digits keep f32, and all others follow their operands.
Arguments may be rounded, constants take the dtype that they meet, and what an op kept
in f32 stays so until a product rounds it. (Micikevicius et al., "Mixed precision
training", 2018, and the op lists of automatic mixed precision since then.)
"""

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

from aotc import dtypes
from aotc.dialects import functions
from aotc.dialects.builder import Builder
from aotc.dialects.control import control_of, invoke
from aotc.dialects.graph import FOLLOWS, LOW, WIDE, GraphOp, as_tuple
from aotc.dialects.transform import Checkpoint, Precision, annotate, custom_of, derive
from aotc.dialects.types import Tensor
from aotc.mlir import Block, Function, Value, func


def sweep(derived: Precision, primal: Function, block: Block) -> list[Value]:
    """Write the ops of `primal` at the insertion point; returns the results.

    Args:
        derived: which dtype is the cheaper one.
        primal: the function.
        block: whose arguments are those of the function being written.
    """
    values = _Values(derived.compute)
    for old, new in zip(primal.entry_block.arguments, block.arguments, strict=True):
        values.define(old, new, LOW)
    for op in primal.entry_block.operations:
        if isinstance(op, func.ReturnOp):
            return [values.read(value, WIDE) for value in op.operands]
        with op.location:
            if isinstance(op, func.CallOp):
                operands = [values.read(value, WIDE) for value in op.operands]
                results, kind = _write_call(op, operands, derived.compute), LOW
            else:
                assert isinstance(op, GraphOp)
                results, kind = _write_op(op, values)
        for old, new in zip(op.results, results, strict=True):
            values.define(old, new, kind)
    raise AssertionError("a function ends in a return")


class _Values:
    """What stands for each value of the function, in the dtypes it was wanted in."""

    def __init__(self, compute: str) -> None:
        self.compute = compute
        self._build = Builder()
        self._known: dict[tuple[Value, str], Value] = {}
        self._kinds: dict[Value, str] = {}

    def define(self, old: Value, new: Value, kind: str) -> None:
        """`new` stands for `old`; the kind says how ops that follow take it."""
        self._known[old, Tensor.of(new).dtype] = new
        self._kinds[old] = kind

    def kind(self, old: Value) -> str:
        """LOW: may be rounded; WIDE: not; FOLLOWS: a constant, takes any dtype."""
        return self._kinds[old]

    def read(self, old: Value, kind: str) -> Value:
        """The value for an op that computes in f32, or in the cheaper dtype."""
        wanted = Tensor.of(old).dtype
        if wanted == "f32" and kind == LOW:
            wanted = self.compute
        if (old, wanted) not in self._known:
            known = next(new for (of, _), new in self._known.items() if of == old)
            self._known[old, wanted] = self._build.cast(known, dtype=wanted)
        return self._known[old, wanted]


def _write_op(op: GraphOp, values: _Values) -> tuple[Sequence[Value], str]:
    """Write the op on what stands for its operands; its results, and their kind."""
    kind = _kind_of(op, values)
    taken = LOW if kind == LOW else WIDE
    operands = [values.read(value, taken) for value in op.operands]
    cls = type(op)
    return as_tuple(cls.build(*operands, **cls.attributes_of(op))), kind


def _kind_of(op: GraphOp, values: _Values) -> str:
    """How an op takes its operands, and others its results."""
    f32 = [value for value in op.operands if Tensor.of(value).dtype == "f32"]
    kinds = {values.kind(value) for value in f32}
    if not f32:  # made of integers, or of nothing; or widened by the model
        floats = any(dtypes.is_float(Tensor.of(value).dtype) for value in op.operands)
        return WIDE if floats else LOW if op.operands else FOLLOWS
    if values.compute not in op.dtypes or op.precision == WIDE:
        return WIDE
    if op.precision == LOW:
        return LOW
    if kinds == {FOLLOWS}:
        return FOLLOWS
    return WIDE if WIDE in kinds else LOW


def _write_call(
    call: func.CallOp, operands: list[Value], compute: str
) -> Sequence[Value]:
    """Write a call; control flow and checkpoints get cheaper functions, others not."""
    name = functions.callee_of(call)
    callee = functions.find(name)
    control = control_of(callee)
    if control is not None:
        names = [derive(Precision(each, compute)) for each in control.functions]
        cheaper: Any = control
        return invoke(replace(cheaper, functions=tuple(names)), operands)
    custom: Any = custom_of(callee)
    if isinstance(custom, Checkpoint):
        name = derive(Precision(name, compute))
        rules = {f.name: getattr(custom, f.name) for f in fields(custom)}
        cheap = {key: derive(Precision(each, compute)) for key, each in rules.items()}
        annotate(functions.find(name), replace(custom, **cheap))
    return functions.call(name, operands)
