"""The derivative rules of an op, as ops to execute.

A rule of an op writes ops of the graph. Here it does so once for each kind of use, in a
module that is thrown away; what it has written is kept as a list of steps, which are
executed where the op was.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from aotc.core import dtypes
from aotc.dialects import OPS, context
from aotc.dialects.builder import Builder
from aotc.dialects.graph import GraphOp, Reason, as_tuple
from aotc.dialects.types import Tensor
from aotc.errors import CompileError
from aotc.mlir import Block, Operation, Value, func, ir
from aotc.tracing.array import Array
from aotc.tracing.tracing import emit_all

_REMEMBERED = 4096  # kinds of uses

Key = tuple[tuple[str, object], ...]


@dataclass(frozen=True)
class RecordedOp:
    """An op that a derivative rule has emitted, with numbered operands and results.

    Args:
        name: of the op.
        attributes: of it.
        operands: numbers of the values that it reads.
        results: numbers of those that it gives.
    """

    name: str
    attributes: Mapping[str, Any]
    operands: Sequence[int]
    results: Sequence[int]


@dataclass(frozen=True)
class RecordedRule:
    """A derivative rule recorded as a list of ops on numbered values.

    Args:
        steps: in order; only those that the outputs need.
        outputs: numbers of what it returns; None for zero.
    """

    steps: Sequence[RecordedOp]
    outputs: Sequence[int | None]

    def execute(self, given: Sequence[Array]) -> list[Array | None]:
        """Compute the recorded ops on arrays in the current scope; return the outputs.

        Args:
            given: operands and results of the op, then cotangents or tangents.
        """
        values = dict(enumerate(given))
        for step in self.steps:
            operands = [values[number] for number in step.operands]
            results = emit_all(step.name, *operands, **step.attributes)
            values.update(zip(step.results, results, strict=True))
        return [None if n is None else values[n] for n in self.outputs]


def vjp_rule(
    name: str, attributes: Mapping[str, object], operands: Sequence[Tensor]
) -> RecordedRule:
    """Record an op's VJP rule: from cotangents of results to those of operands.

    Raises:
        CompileError: the op has no such rule.
    """
    return _rule("vjp", name, _key_of(attributes), tuple(operands), ())


def jvp_rule(
    name: str,
    attributes: Mapping[str, object],
    operands: Sequence[Tensor],
    moved: Sequence[int],
) -> RecordedRule:
    """Record an op's JVP rule: from tangents of the operands numbered in `moved`.

    Raises:
        CompileError: the op has no such rule.
    """
    return _rule("jvp", name, _key_of(attributes), tuple(operands), tuple(moved))


def _key_of(attributes: Mapping[str, object]) -> Key:
    """Return an op's attributes as a hashable key."""
    return tuple((name, _hashable(value)) for name, value in attributes.items())


def _hashable(value: object) -> object:
    """Return lists as nested tuples; other values as they are."""
    return tuple(map(_hashable, value)) if isinstance(value, (list, tuple)) else value


@lru_cache(maxsize=_REMEMBERED)
def _rule(
    kind: str, name: str, key: Key, types: tuple[Tensor, ...], moved: tuple[int, ...]
) -> RecordedRule:
    """Record a rule of an op with these attributes and operand types; cached."""
    op_class = OPS[name]
    rule = getattr(op_class, kind)
    if isinstance(rule, Reason):
        raise CompileError(
            rule.kind,
            f"graph.{name} cannot be differentiated: {rule.text}",
            hint=rule.hint,
        )
    with context(), ir.Location.unknown():
        module = ir.Module.create()
        with ir.InsertionPoint(module.body):
            function = func.FuncOp("rule", ([kind.to_mlir() for kind in types], []))
        block = function.add_entry_block()
        with ir.InsertionPoint(block):
            built = op_class.build(*block.arguments, **dict(key))
            op = block.operations[0]
            seeds = _seeds(kind, types, list(map(Tensor.of, as_tuple(built))), moved)
            given = [
                None
                if seed is None
                else block.add_argument(seed.to_mlir(), op.location)
                for seed in seeds
            ]
            found = as_tuple(rule(Builder(), op, *given))
        return _recorded_rule(block, op, found)


def _seeds(
    kind: str,
    operands: Sequence[Tensor],
    results: Sequence[Tensor],
    moved: Sequence[int],
) -> list[Tensor | None]:
    """Return the types of the tangents or cotangents that a rule takes; None for
    zero.
    """
    if kind == "vjp":
        return [tensor if dtypes.is_float(tensor.dtype) else None for tensor in results]
    return [tensor if i in moved else None for i, tensor in enumerate(operands)]


def _recorded_rule(
    block: Block, op: Operation, found: Sequence[Value | None]
) -> RecordedRule:
    """Return the ops that a rule emitted behind the op itself in a block, as a rule."""
    count = len(op.operands)
    arguments = list(block.arguments)
    known = [*arguments[:count], *op.results, *arguments[count:]]
    numbers = {value: number for number, value in enumerate(known)}
    steps = []
    for each in list(block.operations)[1:]:
        assert isinstance(each, GraphOp)
        for result in each.results:
            numbers[result] = len(numbers)
        steps.append(
            RecordedOp(
                each._op_name,
                type(each).attributes_of(each),
                [numbers[value] for value in each.operands],
                [numbers[value] for value in each.results],
            )
        )
    outputs = [None if value is None else numbers[value] for value in found]
    return RecordedRule(_needed(steps, outputs), outputs)


def _needed(
    steps: Sequence[RecordedOp], outputs: Sequence[int | None]
) -> list[RecordedOp]:
    """Return the steps that the outputs depend on, in order."""
    wanted = {number for number in outputs if number is not None}
    kept = []
    for step in reversed(steps):
        if wanted.intersection(step.results):
            wanted.update(step.operands)
            kept.append(step)
    return kept[::-1]
